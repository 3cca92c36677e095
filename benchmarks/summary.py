"""The summary and the figure at the top of docs/reference/benchmarks.md, from the table on that page.

    python benchmarks/summary.py

Only peers whose scores are the same, or sampled from the same definition, are compared.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

import page

ROOT = Path(__file__).resolve().parents[1]
PAGE, FIGURE = ROOT / "docs" / "reference" / "benchmarks.md", ROOT / "docs" / "images" / "speed.svg"
MARKS = ("<!-- summary: written by benchmarks/summary.py -->", "<!-- /summary -->")
LIBRARIES = {
    "captum": "Captum",
    "shap": "SHAP",
    "ferret": "ferret",
    "interpreto": "Interpreto",
    "lime": "lime",
    "solvex": "SOLVE-X",
}


@dataclass(frozen=True)
class Measured:
    """A line of the table: a work, and how troth and a peer did."""

    work: str
    model: str
    tokens: str
    memory: float
    peer: str
    peer_memory: float
    ratio: float  # the peer's time over troth's
    scores: str

    @property
    def library(self) -> str | None:
        """In its best setting."""
        return LIBRARIES.get(self.peer.removesuffix(" (best)"))

    @property
    def comparable(self) -> bool:
        return self.library is not None and self.scores in ("same", "sampled")


def measured(text: str) -> list[Measured]:
    """The lines of the page's table."""
    body = text.partition(page.MARKS[0])[2].partition(page.MARKS[1])[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines() if line.startswith("| `")
    ]
    whole = [row for row in rows if row[9]]  # without those that failed
    return [Measured(*row[:3], float(row[4]), row[6], float(row[8]), float(row[9]), row[11]) for row in whole]


def by_library(rows: list[Measured]) -> dict[str, list[Measured]]:
    """The comparable works of each library."""
    names = dict.fromkeys(row.library for row in rows if row.comparable)
    return {name: [row for row in rows if row.comparable and row.library == name] for name in names if name}


def span(rows: list[Measured]) -> str:
    """
    >>> row = Measured("w", "m", "t", 1.0, "captum", 1.0, 1.25, "same")
    >>> span([row])
    '1.2 times'
    """
    low, high = (f"{bound(row.ratio for row in rows):.1f}" for bound in (min, max))
    return f"{low} times" if low == high else f"{low} to {high} times"


def summary(rows: list[Measured]) -> str:
    """What a user needs to know, in Markdown."""
    compared = [row for row in rows if row.comparable]
    slower = sorted({f"{row.work} against {row.library}" for row in compared if row.ratio < 1})
    more = [row for row in compared if row.memory > row.peer_memory]
    long = [row for row in compared if row.tokens in ("256", "512")]
    works = {(row.work, row.model, row.tokens) for row in compared}
    less = sum(row.memory < row.peer_memory for row in long)
    ours, theirs = (
        statistics.median(each) for each in zip(*((row.memory, row.peer_memory) for row in long), strict=True)
    )
    lines = [
        f"- **Time**: on one CPU thread troth is {span(compared)} as fast as other libraries in their best setting, in "
        f"{len(works)} tasks with the same scores: two encoders, texts of 12 to 512 tokens.",
    ]
    for name, own in by_library(rows).items():
        lines.append(f"- {span(own)} as fast as **{name}** ({', '.join(dict.fromkeys(row.work for row in own))}).")
    lines += [
        f"- **Slower**: {', '.join(slower) or 'troth is not slower in any of these tasks'}.",
        f"- **Memory**: in {len(more)} of {len(compared)} comparisons troth needs more memory than the other library. "
        f"In these, it needs at most {max(row.memory for row in more):.0f} MB in addition to the loaded model.",
        f"- **Long texts** (256 and 512 tokens): troth needs less memory in {less} of {len(long)} comparisons, "
        f"with a median of {ours:.0f} MB against {theirs:.0f} MB.",
    ]
    return "\n".join(lines)


def draw(rows: list[Measured]) -> None:
    """A point per comparable work and library: the peer's time over troth's."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.hashsalt": "troth", "font.size": 10})
    libraries = dict(reversed(by_library(rows).items()))
    figure = Figure(figsize=(7, 2.8), layout="constrained")
    axes = figure.subplots()
    for place, own in enumerate(libraries.values()):
        axes.plot([row.ratio for row in own], [place] * len(own), "o", color="#3f51b5", alpha=0.6)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(libraries)), list(libraries))
    axes.set_xlim(left=0)
    axes.set_xlabel("time of the library, troth = 1; one point per task")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    rows = measured(PAGE.read_text(encoding="utf-8"))
    page.put(PAGE, MARKS, summary(rows))
    draw(rows)


if __name__ == "__main__":
    main()
