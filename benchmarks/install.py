"""The peers, each set of them in an environment of its own under build/peers.

    python benchmarks/install.py

A peer that cannot be installed is not left out: the run names it, with the reason.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "peers"
TORCH = "torch==2.13.0"
TRANSFORMERS = "transformers==5.22.2"

ENVIRONMENTS = {
    "common": [TORCH, TRANSFORMERS, "captum==0.9.0", "shap==0.51.0", "lime==0.2.0.1", "solvex==1.0.3"],
    "ferret": [TORCH, "ferret-xai==0.4.2", "pyarrow<20"],  # it needs transformers 4 and numpy 1
    "inseq": [TORCH, TRANSFORMERS, "inseq==0.7.1"],
    "interpreto": [TORCH, TRANSFORMERS, "interpreto==0.5.2"],
    "transformers_interpret": [TORCH, TRANSFORMERS, "transformers-interpret==0.10.0"],
    "shapiq": [TORCH, TRANSFORMERS, "shapiq==1.4.1"],
    "icx360": [TORCH, TRANSFORMERS, "icx360==0.1.0"],
    "context_cite": [TORCH, TRANSFORMERS, "context-cite==0.0.4"],
}
IN_COMMON = ("captum", "shap", "lime", "solvex")
OURS = ("troth", "hand", "floor")


def python_of(library: str) -> Path:
    """The interpreter that runs a contestant."""
    if library in OURS:
        return Path(sys.executable)
    return FOLDER / ("common" if library in IN_COMMON else library) / "bin" / "python"


def install() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, packages in ENVIRONMENTS.items():
        folder, log = FOLDER / name, FOLDER / f"{name}.log"
        if (folder / "installed").exists() and (folder / "installed").read_text() == "\n".join(packages):
            continue
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]
        with log.open("w") as lines:
            done = subprocess.run(pip, stdout=lines, stderr=subprocess.STDOUT, check=False)
        if done.returncode == 0:
            (folder / "installed").write_text("\n".join(packages))
        print(f"{name}: {'installed' if done.returncode == 0 else f'failed, see {log.relative_to(ROOT)}'}")


if __name__ == "__main__":
    install()
