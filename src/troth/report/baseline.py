"""Is a run significantly worse than an earlier one? Compared over the texts that both have explained, text by text.

A text is what is written in it, whatever its id and file. Every explainer but random is compared on every metric that
decides in both runs, and Holm's correction is over all of these. Worse on any: not met. A comparison must also have had
the power to see a loss: where the earlier run was better than random, the interval must leave out a fall to random.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from troth import seeds, statistics
from troth.core.errors import TrothError
from troth.report.board import Leaderboard, leaderboards, metric_cells
from troth.report.comparing import FEWEST, RANDOM, PairedComparison, corrected
from troth.report.page_overview import texts
from troth.report.requirements import Ruling
from troth.store.measured import Clusters, Key, Measured
from troth.store.store import Store, Stored, open_run

if TYPE_CHECKING:
    from troth.statistics import Floats

TextKey = tuple[str, str | None, int]  # a text, its second one, the how-manieth such pair


def rule_on(board: Leaderboard, baseline: str | Path | Leaderboard) -> Ruling:
    """Whether the board is significantly worse than a baseline; None where a loss could not have been seen."""
    before = _board(board, baseline)
    name = str(before.folder) if before.folder is not None else before.title
    text = f"not worse than {name}"
    compared, shared, counts = _comparisons(board, before)
    if shared < FEWEST:
        return Ruling(text, None, f"both have {shared} {counts} in common; it takes at least {FEWEST}")
    worse = [pair for pair in compared.values() if pair.better == pair.second]
    if worse:
        lost = min(worse, key=lambda pair: pair.size)
        more = f", and {len(worse) - 1} more" if len(worse) > 1 else ""
        return Ruling(text, False, f"{lost}{more}")
    unseen = {key: pair for key, pair in compared.items() if not _sees_a_loss(pair, *key, before)}
    if unseen:
        (explainer, metric), pair = max(unseen.items(), key=lambda item: item[1].needed)
        return Ruling(
            text, None, f"with {pair.count} {counts}, even a fall of {explainer} to the level of random would not be "
            f"seen for sure: {pair.numbers}; about {_needed(pair, before, explainer, metric):,} would do",
        )  # fmt: skip
    closest = min(compared.values(), key=lambda pair: pair.size)
    return Ruling(text, True, f"{len(compared)} numbers over {shared} {counts}; the largest fall: {closest}")


def text_keys(store: Store, explanations: Iterable[Stored]) -> dict[Key, TextKey]:
    """What is written in each example, so that runs with other ids and other data find it."""
    seen: dict[tuple[str, str | None], Iterator[int]] = {}
    found = {}
    for key, example in texts(store, explanations).items():
        written = (example.text, example.text_pair)
        found[key] = (*written, next(seen.setdefault(written, count())))
    return found


def _board(board: Leaderboard, baseline: str | Path | Leaderboard) -> Leaderboard:
    """The leaderboard to compare with; one that was measured otherwise is refused."""
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
        raise TrothError(f"the baseline was measured with {then}, this run with {now}; measure both alike")
    if baseline.folder is None or board.folder is None:
        raise TrothError("a leaderboard without a run folder has no scores by text; give one of troth.bench")
    if baseline.folder.resolve() == board.folder.resolve() and baseline.cells == board.cells:
        raise TrothError(f"the baseline {baseline.folder} is this run itself; write this one elsewhere with --out")
    return baseline


def _comparisons(board: Leaderboard, before: Leaderboard) -> tuple[dict[tuple[str, str], PairedComparison], int, str]:
    """This run minus the earlier one by (explainer, metric); how many independent texts both have, and their name."""
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
    """One run's scores by text."""

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


def _sees_a_loss(pair: PairedComparison, explainer: str, metric: str, before: Leaderboard) -> bool:
    """Whether a fall to random lies outside of the interval; true where the earlier run was no better than random."""
    lead = _lead(explainer, metric, before)
    if not lead or not pair.differing:  # nothing to lose, or nothing has changed
        return True
    worst = pair.low if pair.higher_is_better else -pair.high
    return bool(worst > -lead)


def _lead(explainer: str, metric: str, before: Leaderboard) -> float:
    """By how much the earlier run was better than random; 0 where that was not shown."""
    if not before.beats_random.get((explainer, metric)) or before.analysis is None:
        return 0.0
    return abs(before.analysis.between(explainer, RANDOM, (metric,))[0].difference)


def _needed(pair: PairedComparison, before: Leaderboard, explainer: str, metric: str) -> int:
    """About how many examples make the interval as short as the lead over random."""
    half = (pair.high - pair.low) / 2
    return int(max(FEWEST, pair.count * (half / _lead(explainer, metric, before)) ** 2)) + 1
