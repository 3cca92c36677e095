"""Stored scores as a ranking: values with intervals, significant differences, costs, and the result in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from troth import seeds, statistics
from troth.core.display import Shown
from troth.core.errors import unknown
from troth.core.sheet import Exportable, Sheet
from troth.metrics import Metric, Summary
from troth.metrics._diagnosticity import MetaReport, meta_report
from troth.report.answer import CHECK, answer
from troth.report.comparing import RANDOM as RANDOM
from troth.report.comparing import Analysis
from troth.report.verdict import Verdict, judge
from troth.store.cells import Plan, canonical
from troth.store.measured import Clusters, Measured, example_keys, joined
from troth.store.noted import metric_of
from troth.store.records import current
from troth.store.specs import ModelSpec, names
from troth.store.store import Store, Stored
from troth.store.tables import table_to_p_values
from troth.validity.stamp import Stamp, masking_of, stamps

if TYPE_CHECKING:
    from troth.report.requirements import Rulings

_ABOUT = (*names(ModelSpec), "data", "data_fingerprint", "units")
_HOW = {"units": "word", "target": "predicted", "against": None, "segments": "first", "masking": "mask_token"}


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboard(Shown, Exportable):
    """The results of one model on one data set. Cells are identified by (explainer, metric), as short specs."""

    model: str
    data: str
    examples: int
    explainers: tuple[str, ...]  # best first
    metrics: tuple[str, ...]
    directions: Mapping[str, bool | None]  # metric -> higher is better
    summaries: Mapping[tuple[str, str], Summary]
    values: Mapping[tuple[str, str], NDArray[np.float64]]  # one per cluster, averaged over seeds and examples
    # metric -> explainer -> letters; explainers that share a letter do not differ significantly.
    groups: Mapping[str, Mapping[str, str]]
    beats_random: Mapping[tuple[str, str], bool]
    seconds: Mapping[str, float]  # explainer -> seconds per example
    passes: Mapping[str, float]  # explainer -> forward and backward rows per example
    failures: Mapping[str, str]  # what failed -> error
    meta: MetaReport | None
    skipped: Mapping[str, str] = field(default_factory=dict)  # what was skipped -> reason
    options: Mapping[str, Any] = field(default_factory=dict)  # units, target and other options that are not the default
    truncated: int = 0  # examples longer than the model's maximum length
    about: Mapping[str, Any] = field(default_factory=dict)
    # metric -> whether its erased inputs are in distribution
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    clusters: int | None = None  # number of clusters of copies or groups; None if every example is its own cluster
    reported: Mapping[str, str] = field(default_factory=dict)  # metric that does not decide -> reason
    # Metrics of agreement with humans, shown separately because they do not measure faithfulness.
    plausible: tuple[str, ...] = ()
    relative_to: Mapping[str, str] = field(default_factory=dict)  # metric without bounds -> its divisor
    # The value that is ranked, if it is not the one that is shown.
    compared: Mapping[tuple[str, str], float] = field(default_factory=dict)
    analysis: Analysis | None = field(default=None, repr=False)  # the comparisons behind letters and verdict
    clustering: Clusters = field(default_factory=Clusters, repr=False)
    cells: frozenset[str] = field(default=frozenset(), repr=False)  # names of the cells that it was computed from
    folder: Path | None = field(default=None, repr=False)  # folder of its run

    @property
    def setting(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.options.items())

    @property
    def title(self) -> str:
        how = f" ({self.setting})" if self.setting else ""
        return f"{self.model} on {self.counted} of {self.data}{how}"

    @property
    def counted(self) -> str:
        """The number of examples and, if smaller, of independent clusters."""
        return f"{self.examples} examples" + ("" if self.clusters is None else f" ({self.clusters} clusters)")

    @property
    def counts(self) -> str:
        """The unit over which intervals and tests are computed."""
        return "examples" if self.clusters is None else "clusters"

    @property
    def seeds(self) -> int:
        """The largest number of seeds over which scores are averaged."""
        return max((summary.seeds for summary in self.summaries.values()), default=1)

    @property
    def deciding(self) -> tuple[str, ...]:
        """The metrics that determine the ranking: metrics of faithfulness with a direction and bounds."""
        return tuple(name for name in self.metrics if self.directions[name] is not None and name not in self.reported)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the explainers; None if scores by example are not available."""
        if self.analysis is None:
            return None
        return judge(self.analysis, self.explainers, self.seconds, self.counts, self.passes)

    def of_metric(self, metric: str) -> dict[str, Summary]:
        """The summaries of one metric for every explainer that was measured with it."""
        return {name: self.summaries[name, metric] for name in self.explainers if (name, metric) in self.summaries}

    def sorted_by(self, metric: str) -> tuple[str, ...]:
        """Explainers from the best to the worst on one metric."""
        by_name = [name for name in self.metrics if metric == name.partition("(")[0]]
        matching = [metric] if metric in self.metrics else by_name
        if not matching:
            raise unknown("metric of this run", metric, self.metrics)
        return tuple(sorted(self.explainers, key=lambda explainer: _badness(self, explainer, matching[0])))

    def _line(self) -> str:
        best = f"; {verdict.sentences[0]}" if (verdict := self.verdict) is not None else ""
        return f"of {self.title}: {len(self.explainers)} explainers × {len(self.metrics)} metrics{best}"

    def _parts(self) -> Iterator[str]:
        from troth.report.run_page import board_html

        yield board_html(self)

    def sheet(self) -> Sheet:
        """The table that is printed and exported."""
        from troth.report.board_sheet import sheet

        return sheet(self)

    def answer(self) -> list[str]:
        """The result in words: what to use, what is no better than random, which metrics to doubt, how to cite."""
        return answer(self)

    def require(
        self, *requirements: str, baseline: str | Path | Leaderboard | None = None, raises: bool = False
    ) -> Rulings:
        """Rules on sentences such as "leave_one_out beats random" or "aopc_comprehensiveness(lime) > 0.2", and on being
        no worse than another run over the same texts. True if all are met; with `raises`, anything else is an error.
        """
        from troth.report.requirements import require

        return require(self, requirements, baseline, raises)


def leaderboards(store: Store, plan: Plan | None = None, computed: Sequence[Leaderboard] = ()) -> list[Leaderboard]:
    """A leaderboard for each setting of a run (model, data, units and other options); with a plan, only of its
    cells.

    A board that was already `computed` from the same cells is reused.
    """
    wanted = None if plan is None else set(plan.cells)
    cells = [cell for cell in store.cells() if not cell.error and (wanted is None or cell.name in wanted)]
    # Cells are in the order of the plan; without one, they are sorted by their specs, whatever the order of the files.
    places = {} if plan is None else {name: place for place, name in enumerate(plan.cells)}
    failed = [cell for cell in store.failed() if wanted is None or cell.name in wanted]
    cells, failed = current(cells, store.about()), current(failed, store.about())
    for some in (cells, failed):
        some.sort(key=lambda cell: (places.get(cell.name, 0), canonical(cell.specs)))
    settings = {canonical(_setting(cell)): _setting(cell) for cell in [*cells, *failed] if cell.kind == "explanation"}
    ready = {board.cells: board for board in computed}
    boards = []
    for setting in settings.values():
        here = [cell for cell in cells if _setting(cell).items() <= setting.items()]
        failed_here = [cell for cell in failed if _setting(cell).items() <= setting.items()]
        names = frozenset(cell.name for cell in [*here, *failed_here])
        boards.append(ready.get(names) or _leaderboard(store, setting, here, failed_here, names))
    return boards


def _setting(cell: Stored) -> dict[str, Any]:
    """The specs that results must share to be in one table; checks are matched only by model and data."""
    return {key: cell.specs.get(key) for key in (*_ABOUT, *(_HOW if cell.kind != "check" else ()))}


def _leaderboard(
    store: Store, setting: Mapping[str, Any], cells: Sequence[Stored], failed: Sequence[Stored], names: frozenset[str]
) -> Leaderboard:
    explanations = [cell for cell in cells if cell.kind == "explanation"]
    checks = [cell for cell in cells if cell.kind == "check"]
    scored = metric_cells(cells)
    judges: dict[str, Metric] = {metric: metric_of(metric, store.about()) for _, metric in scored}
    measured = {key: Measured.read(store, some) for key, some in scored.items()}
    clustering = Clusters.read(store, explanations)
    summaries = {key: clustering.summary(judges[key[1]], scores) for key, scores in measured.items()}
    about = store.about() or {}
    keys = joined([scores.keys for scores in measured.values()])
    together = clustering.of(keys)
    by_seed = {key: scores.values(keys) for key, scores in measured.items()}  # [seeds, examples]
    values = {key: seeds.mean_over_seeds(some, together) for key, some in by_seed.items()}
    explainers = list(dict.fromkeys(cell.specs["explainer"] for cell in explanations))
    reported = {metric: why for metric, made in judges.items() if (why := made.why_not_deciding)}
    plausible = tuple(metric for metric, made in judges.items() if made.measures == "plausibility")
    metrics = tuple(sorted(judges, key=lambda metric: (metric in plausible, metric in reported)))
    directions = {metric: made.higher_is_better for metric, made in judges.items()}
    by_metric = {
        metric: {name: values[name, metric] for name in explainers if (name, metric) in values} for metric in metrics
    }
    analysis = Analysis.of(by_metric, directions, reported, statistics.resolution(_dtype(setting, about)))
    costs = {name: [cell for cell in explanations if cell.specs["explainer"] == name] for name in explainers}
    rows = {name: max(1, sum(cell.rows for cell in some)) for name, some in costs.items()}
    board = Leaderboard(
        model=setting["model"],
        data=setting["data"],
        options={key: setting[key] for key, usual in _HOW.items() if setting[key] not in (None, usual)},
        examples=max((cell.rows for cell in explanations), default=0),
        explainers=tuple(explainers),
        metrics=metrics,
        directions=directions,
        summaries=summaries,
        values=values,
        groups=analysis.letters,
        beats_random=analysis.beats(RANDOM),
        seconds={name: sum(cell.seconds for cell in some) / rows[name] for name, some in costs.items()},
        passes={name: sum(cell.forward + cell.backward for cell in some) / rows[name] for name, some in costs.items()},
        failures={_title(cell): cell.error for cell in failed},
        skipped=about.get("left_out", {}),
        meta=meta_report(by_seed, directions, RANDOM, together) if {RANDOM} < {name for name, _ in by_seed} else None,
        truncated=_truncated(store, explanations),
        clusters=_clusters(store, explanations, clustering),
        cells=names,
        about=about,
        stamps=_stamps(store, judges, checks),
        reported=reported,
        plausible=plausible,
        relative_to={metric: divisor for metric, made in judges.items() if (divisor := made.divides_by)},
        compared={key: statistics.mean(some) for key, some in values.items() if judges[key[1]].pooled},
        analysis=analysis,
        clustering=clustering,
        folder=store.folder,
    )
    return replace(board, explainers=tuple(sorted(explainers, key=lambda name: mean_rank(board, name))))


def metric_cells(cells: Iterable[Stored]) -> dict[tuple[str, str], list[Stored]]:
    """Groups the cells of scores by (explainer, metric)."""
    scored: dict[tuple[str, str], list[Stored]] = {}
    for cell in cells:
        if cell.kind == "metric":
            scored.setdefault((cell.specs["explainer"], cell.specs["metric"]), []).append(cell)
    return scored


def _stamps(store: Store, judges: Mapping[str, Metric], checks: Sequence[Stored]) -> dict[str, Stamp]:
    """The stamp of every metric, from the check of the metric's own masking."""
    p_values = {
        check.specs["masking"].partition("(")[0]: table_to_p_values(store.table(check.name)) for check in checks
    }
    if not p_values:
        return stamps(judges, {}, "no check was run")
    found: dict[str, Stamp] = {}
    for metric, built in judges.items():
        own = masking_of(built)
        tested = own if own is not None and own in p_values else next(iter(p_values))
        found |= stamps({metric: built}, *p_values[tested], tested=tested)
    return found


def _truncated(store: Store, explanations: Sequence[Stored]) -> int:
    if not explanations:
        return 0
    return int(np.count_nonzero(store.table(explanations[0].name).column("truncated").to_numpy()))


def _clusters(store: Store, explanations: Sequence[Stored], clustering: Clusters) -> int | None:
    """The number of clusters that were explained; None if every example is its own cluster."""
    largest = max(explanations, key=lambda cell: cell.rows, default=None)
    if largest is None:
        return None
    ids = store.table(largest.name).column("example_id").to_pylist()
    count = len(set(clustering.of(example_keys(str(largest.specs.get("data_fingerprint", "")), ids)).tolist()))
    return count if count < len(ids) else None


def _dtype(setting: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """The number format of the model; float32 if the run does not record it."""
    noted = about.get("models", {}).get(setting["model"], {}).get("dtype", "float32")
    return str((setting.get("model_options") or {}).get("dtype") or noted)


def mean_rank(board: Leaderboard, explainer: str) -> float:
    """The mean rank over the deciding metrics; ties share a rank."""
    places = []
    for metric in board.deciding:
        measured = list(board.of_metric(metric))
        if explainer in measured:
            ranks = rankdata([_badness(board, other, metric, board.compared) for other in measured])
            places.append(ranks[measured.index(explainer)])
    return float(np.mean(places)) if places else float("inf")


def _badness(
    board: Leaderboard, explainer: str, metric: str, instead: Mapping[tuple[str, str], float] | None = None
) -> float:
    summary = board.summaries.get((explainer, metric))
    value = float("nan") if summary is None else (instead or {}).get((explainer, metric), summary.value)
    if np.isnan(value):
        return float("inf")
    return value if board.directions[metric] is False else -value


def _title(cell: Stored) -> str:
    if cell.kind == "check":
        return CHECK
    metric = f" × {cell.specs['metric']}" if "metric" in cell.specs else ""
    return f"{cell.specs.get('explainer', cell.kind)}{metric}"
