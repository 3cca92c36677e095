"""Part synthetic of the ROAR study: eq. (1) on the authors' draw (figure 3), and over other draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from troth.studies import Section
from troth.studies._figures import Line, draw_lines
from troth.studies.roar import _eq1

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sections() -> Iterator[Section]:
    curves = _eq1.curves(_eq1.problem())
    rows = [[count, *values] for count, values in enumerate(zip(*curves.values(), strict=True))]
    fall = _eq1.falls(curves)
    words = (
        "Accuracy by number of removed features, on the authors' draw (seed 0). Four of sixteen are informative and "
        f"can replace each other: Recursive ROAR removes them first, as the truth does, and falls at "
        f"{fall['recursive']}; ROAR falls at {fall['roar']}."
    )
    lines = {name: Line(range(len(values)), values) for name, values in curves.items()}
    draw = partial(draw_lines, panels={"": lines}, across="features removed", up="accuracy")
    yield Section("synthetic", "Eq. (1), figure 3", ["removed", *curves], rows, words, curves, draw)
    spread = _eq1.spread()
    draws = len(_eq1.SPREAD)
    counts = [[count, *(falls.count(count) for falls in spread.values())] for count in range(4, 17)]
    same = sum(roar == truth for roar, truth in zip(spread["roar"], spread["truth"], strict=True))
    words = (
        f"In how many of {draws} draws (seeds 0 to {_eq1.SPREAD[-1]}, 20,000 examples) accuracy falls when this many "
        f"features are removed. ROAR falls where the truth does in {same} of them: how long it stays up depends on the "
        "draw."
    )
    title = f"Eq. (1) over {draws} draws"
    draw = partial(_draw_spread, spread=spread)
    yield Section("synthetic", title, ["falls at", *spread], counts, words, {"falls": spread}, draw)


def _draw_spread(figure: Figure, spread: Mapping[str, Sequence[int]]) -> None:
    """When each order's accuracy falls, one dot per draw."""
    axes = figure.subplots()
    for place, (name, falls) in enumerate(spread.items()):
        beside = np.zeros(len(falls))
        for value in set(falls):
            same = np.equal(falls, value)
            beside[same] = (np.arange(same.sum()) - (same.sum() - 1) / 2) * 0.03
        axes.plot(falls, place + beside, "o", markersize=4, label=name)
    axes.set(xlabel="features removed when accuracy falls", yticks=range(len(spread)), yticklabels=list(spread))
