"""Installs the peers, each set of them in an environment of its own under build/peers.

    python benchmarks/install.py

PyTorch is installed once, and the other environments see it, since it takes most of the time and the disk space.
Everything else is installed where it is used. A peer that cannot be installed is not left out: the run names it, with
the reason.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "peers"
TORCH = "torch==2.13.0"
TRANSFORMERS = "transformers==5.22.2"

ENVIRONMENTS = {
    "common": [TRANSFORMERS, "captum==0.9.0", "shap==0.51.0", "lime==0.2.0.1", "solvex==1.0.3"],
    "ferret": ["ferret-xai==0.4.2", "pyarrow<20"],  # it needs transformers 4 and numpy 1
    "inseq": [TRANSFORMERS, "inseq==0.7.1"],
    "interpreto": [TRANSFORMERS, "interpreto==0.5.2"],
    "transformers_interpret": [TRANSFORMERS, "transformers-interpret==0.10.0"],
    "transformers_interpret_0_9": [TRANSFORMERS, "transformers-interpret==0.9.6"],  # with a bug that 0.10.0 fixed
    "shapiq": [TRANSFORMERS, "shapiq==1.4.1"],
    "icx360": [TRANSFORMERS, "icx360==0.1.0"],
    "context_cite": [TRANSFORMERS, "context-cite==0.0.4"],
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
    _install("torch", [TORCH])
    for name, packages in ENVIRONMENTS.items():
        _install(name, [TORCH, *packages])


def _install(name: str, packages: list[str]) -> None:
    folder, log = FOLDER / name, FOLDER / f"{name}.log"
    if (folder / "installed").exists() and (folder / "installed").read_text() == "\n".join(packages):
        return
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    if name != "torch":
        # Found after the environment's own packages, so another version of anything can be installed over it.
        (_site_packages(folder) / "torch.pth").write_text(f"{_site_packages(FOLDER / 'torch')}\n")
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]
    with log.open("w") as lines:
        done = subprocess.run(pip, stdout=lines, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        (folder / "installed").write_text("\n".join(packages))
    state = "installed" if done.returncode == 0 else f"failed, see {log.relative_to(ROOT)}"
    print(f"{name}: {state} in {time.perf_counter() - begun:.0f} s", flush=True)


def _site_packages(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))


if __name__ == "__main__":
    install()
