"""How near the Shapley value KernelSHAP comes with so many samples: ours and the peers'.

    python benchmarks/accuracy.py --write docs/reference/benchmarks.md

A random model and a text of 12 tokens, so that the exact value can be had; 10 seeds. The error is the root mean square
over tokens and seeds, as a share of the largest exact score.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import page
from inputs import SIZES, make_model, make_texts
from turns import OURS, Contestants
from works import Work, contender

SAMPLES = (50, 100, 300, 1000)
SEEDS = 10
MARKS = ("<!-- accuracy: written by benchmarks/accuracy.py -->", "<!-- /accuracy -->")


def errors(folder: Path) -> dict[str, list[float]]:
    """By library, one for each number of samples."""
    make_model(folder / "tiny", SIZES["tiny"])
    texts = make_texts("beam", SIZES["tiny"])
    contestants = Contestants({"tiny": folder / "tiny"})
    found: dict[str, list[float]] = {}
    try:
        exact = np.array(contestants.run(OURS, Work("exact_shapley", "tiny", "beam", ()), texts)["scores"][0])
        for library in (OURS, contender("shap"), contender("captum"), contender("interpreto")):
            for samples in SAMPLES:
                runs = []
                for seed in range(SEEDS):
                    work = Work("kernel_shap", "tiny", "beam", (), {"samples": samples, "seed": seed})
                    runs.append(contestants.run(library, work, texts)["scores"][0])
                apart = np.sqrt(np.mean((np.array(runs) - exact) ** 2)) / np.abs(exact).max()
                found.setdefault(library.name, []).append(float(apart))
    finally:
        contestants.close()
    return found


def table(found: dict[str, list[float]]) -> str:
    lines = [f"| KernelSHAP, samples | {' | '.join(map(str, SAMPLES))} |", f"|---|{'--:|' * len(SAMPLES)}"]
    lines += [f"| {name} | {' | '.join(f'{error:.1%}' for error in row)} |" for name, row in found.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = table(errors(Path(folder)))
    print(found)
    if given.write:
        page.put(
            given.write,
            MARKS,
            f"The error relative to the exact Shapley values, for a text of 12 tokens and {SEEDS} seeds:\n\n{found}",
        )


if __name__ == "__main__":
    main()
