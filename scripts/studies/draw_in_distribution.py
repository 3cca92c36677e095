"""Draws the in-distribution p-values of a kept FMM study: docs/papers/fmm/results/DATA-in_distribution.png.

python scripts/studies/draw_in_distribution.py sst2 babi1
"""

import gzip
import io
import json
import sys
from pathlib import Path

import small_png
from matplotlib.figure import Figure

from troth.studies._results import Line, draw_lines

KEPT = Path(__file__).resolve().parents[2] / "docs" / "papers" / "fmm" / "results"


def draw(data: str) -> None:
    """As part in_distribution of the study draws it, with the paper's own test."""
    found = json.loads(gzip.decompress((KEPT / f"{data}.json.gz").read_bytes()))["results"]["in_distribution"]
    panels: dict[str, dict[str, Line]] = {}
    for name, values in found[f"{data} paper"].items():
        training, references, measure = name.split(" | ")
        ratios = [place / (len(values) - 1) for place in range(len(values))]
        title = f"{training.replace('_', ' ')}\n{references} references"
        panels.setdefault(title, {})[measure] = Line(ratios, values)
    figure = Figure(figsize=(9.6, 5.8), layout="constrained")
    draw_lines(figure, panels, "masked", "p", columns=3, levels={"0.05": 0.05})
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100)
    small_png.keep(drawn, KEPT / f"{data}-in_distribution.png")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        draw(name)
