"""Is a run worse than an earlier one? The two are compared over the texts that both have explained, text by text.

Texts are matched by their content, whatever their ids and files. Every explainer except random is compared on every
metric that decides in both runs, with Holm's correction over all of these comparisons. If any is significantly worse,
the requirement is not met. The absence of a significant loss is not enough to meet it, since a small sample shows
nothing: this is a test of non-inferiority. Wherever the earlier run was better than random, the interval must exclude
the loss of half of that lead. If the earlier run was never better than random and scores differ, the result is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from troth import seeds, statistics
from troth.core.display import counted
from troth.core.errors import TrothError
from troth.report.board import Leaderboard, leaderboards, metric_cells
from troth.report.comparing import FEWEST, MOST, RANDOM, PairedComparison, corrected
from troth.report.page_overview import texts
from troth.report.requirements import Ruling
from troth.store.measured import Clusters, Key, Measured
from troth.store.store import Store, Stored, open_run

if TYPE_CHECKING:
    from troth.statistics import Floats

TextKey = tuple[str, str | None, int]  # a text, its second text, and the number of equal pairs before it
# The fraction of the lead over random whose loss must be excluded; half is usual in tests of non-inferiority.
_MARGIN = 0.5


def rule_on(board: Leaderboard, baseline: str | Path | Leaderboard) -> Ruling:
    """Whether the board is at least as good as a baseline, up to the margin; None if the evidence is too weak."""
    before = _board(board, baseline)
    name = str(before.folder) if before.folder is not None else before.title
    text = f"not worse than {name}"
    compared, shared, counts = _comparisons(board, before)
    if shared < FEWEST:
        return Ruling(text, None, f"the two runs have {shared} {counts} in common; at least {FEWEST} are needed")
    worse = [pair for pair in compared.values() if pair.better == pair.second]
    if worse:
        lost = min(worse, key=lambda pair: pair.size)
        more = f", and {len(worse) - 1} more" if len(worse) > 1 else ""
        return Ruling(text, False, f"{lost}{more}")
    margins = {key: _MARGIN * _lead(*key, before) for key in compared}
    if not any(margins.values()) and any(pair.differing for pair in compared.values()):
        why = "the baseline was not better than random on any metric, so no loss can be called small"
        return Ruling(text, None, f"{why}; measure more {counts} there")
    possible = {key: pair for key, pair in compared.items() if margins[key] and _worst(pair) <= -margins[key]}
    if possible:
        needed = {key: _needed(pair, margins[key]) for key, pair in possible.items()}
        key = max(needed, key=lambda key: needed[key])
        more = f"about {needed[key]:,.0f} would do" if needed[key] <= MOST else "it is too close for any number to tell"
        return Ruling(
            text, None, f"with {possible[key].count} {counts}, {key[0]} may have lost half of its lead over random: "
            f"{possible[key].numbers}; {more}",
        )  # fmt: skip
    closest = min(compared.values(), key=lambda pair: pair.size)
    return Ruling(
        text, True, f"{counted(len(compared), 'comparison')} over {shared} {counts}; the largest fall: {closest}"
    )


def text_keys(store: Store, explanations: Iterable[Stored]) -> dict[Key, TextKey]:
    """The text of each example as a key, so that runs with other ids and other data sets can be matched."""
    seen: dict[tuple[str, str | None], Iterator[int]] = {}
    found = {}
    for key, example in texts(store, explanations).items():
        written = (example.text, example.text_pair)
        found[key] = (*written, next(seen.setdefault(written, count())))
    return found


def _board(board: Leaderboard, baseline: str | Path | Leaderboard) -> Leaderboard:
    """The leaderboard to compare with; one that was measured with other options is rejected."""
    if isinstance(baseline, str | Path):
        boards = leaderboards(open_run(baseline, sound=True))
        alike = [one for one in boards if (one.model, one.data) == (board.model, board.data)] or boards
        alike = [one for one in alike if one.options == board.options] or alike
        if len(alike) != 1:
            raise TrothError(
                f"the baseline {baseline} has {len(alike)} leaderboards; name a run of one model and data set"
            )
        baseline = alike[0]
    if baseline.options != board.options:
        then, now = (one.setting or "the default settings" for one in (baseline, board))
        raise TrothError(f"the baseline was measured with {then}, this run with {now}; measure both in the same way")
    if baseline.folder is None or board.folder is None:
        raise TrothError("a leaderboard without a run folder has no scores by text; give one of troth.bench")
    if baseline.folder.resolve() == board.folder.resolve() and baseline.cells == board.cells:
        raise TrothError(
            f"the baseline {baseline.folder} is the same run; write the new run to another folder with --out"
        )
    return baseline


def _comparisons(board: Leaderboard, before: Leaderboard) -> tuple[dict[tuple[str, str], PairedComparison], int, str]:
    """This run minus the earlier one for each (explainer, metric), the number of independent texts, and what they are
    called.
    """
    keys = [
        (explainer, metric)
        for metric in board.deciding
        for explainer in board.explainers
        if metric in before.deciding
        and explainer != RANDOM
        and (explainer, metric) in board.values
        and (explainer, metric) in before.values
    ]
    if not keys:
        raise TrothError(
            f"the baseline {before.folder} and this run share no explainer with a metric that decides; it has "
            f"{', '.join(before.explainers)} on {', '.join(before.deciding)}"
        )
    sides = [_Side(side) for side in (board, before)]
    places = [{written: key for key, written in side.keys.items()} for side in sides]
    shared = [written for written in places[0] if written in places[1]]
    chosen = [[place[written] for written in shared] for place in places]
    clusters = sides[0].clusters.of(chosen[0])
    resolution = max((side.analysis.resolution for side in (board, before) if side.analysis), default=0.0)
    family = []
    for explainer, metric in keys:
        values = [side.values(explainer, metric, keys) for side, keys in zip(sides, chosen, strict=True)]
        now, then = (seeds.mean_over_clusters(some, clusters) for some in values)
        family.append((metric, {f"{explainer} now": now, "before": then}, board.directions[metric] is True))
    independent = len(set(clusters.tolist()))
    compared = corrected(family, resolution or statistics.resolution())
    return dict(zip(keys, compared, strict=True)), independent, "texts" if independent == len(shared) else "clusters"


class _Side:
    """The scores of one run by text."""

    def __init__(self, board: Leaderboard) -> None:
        assert board.folder is not None
        self.store = Store(board.folder)
        cells = [cell for cell in self.store.cells() if not cell.error and cell.name in board.cells]
        explanations = [cell for cell in cells if cell.kind == "explanation"]
        self.keys = text_keys(self.store, explanations)
        self.clusters = Clusters.read(self.store, explanations)
        self._cells = metric_cells(cells)

    def values(self, explainer: str, metric: str, keys: Sequence[Key]) -> Floats:
        return seeds.mean_over_seeds(Measured.read(self.store, self._cells[explainer, metric]).values(keys))


def _worst(pair: PairedComparison) -> float:
    """The most unfavorable end of the interval: below 0 for a loss. 0 if no score has changed."""
    return 0.0 if not pair.differing else pair.low if pair.higher_is_better else -pair.high


def _lead(explainer: str, metric: str, before: Leaderboard) -> float:
    """By how much the earlier run was better than random; 0 if it was not significantly better."""
    if not before.beats_random.get((explainer, metric)) or before.analysis is None:
        return 0.0
    return abs(before.analysis.between(explainer, RANDOM, (metric,))[0].difference)


def _needed(pair: PairedComparison, margin: float) -> float:
    """The approximate number of examples that exclude a loss of the margin, if the difference stays the same; may be
    infinite.
    """
    gain = pair.difference if pair.higher_is_better else -pair.difference
    if margin + gain <= 0:
        return math.inf
    return max(FEWEST, math.ceil(pair.count * ((gain - _worst(pair)) / (margin + gain)) ** 2))
