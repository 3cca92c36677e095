"""Stored scores as a ranking: numbers with intervals, who is significantly better, what it cost, an answer in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth import catalog, statistics
from troth.errors import unknown
from troth.meta import MetaReport, meta_report
from troth.metrics import Metric, Summary
from troth.sweep.cells import Plan, canonical
from troth.sweep.store import Store, Stored
from troth.sweep.tables import table_to_p_values, table_to_scores
from troth.types import Score
from troth.validity.stamp import Stamp, stamps

RANDOM = "random"
_LEVEL = 0.05
_ABOUT = ("model", "model_options", "model_fingerprint", "data", "data_fingerprint", "units")
_HOW = {"units": "word", "target": "predicted", "against": None, "segments": "first", "masking": "mask_token"}


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """One model on one data set. Cells are by (explainer, metric), specs as people write them."""

    model: str
    data: str
    examples: int
    explainers: tuple[str, ...]  # best first
    metrics: tuple[str, ...]
    directions: Mapping[str, bool | None]  # metric -> higher is better
    summaries: Mapping[tuple[str, str], Summary]
    values: Mapping[tuple[str, str], NDArray[np.float64]]  # one an example
    groups: Mapping[
        str, Mapping[str, str]
    ]  # metric -> explainer -> letters; a shared letter: no significant difference
    beats_random: Mapping[tuple[str, str], bool]
    seconds: Mapping[str, float]  # explainer -> an example
    passes: Mapping[str, float]  # explainer -> forward and backward rows an example
    failures: Mapping[str, str]  # what could not be computed -> why
    meta: MetaReport | None
    skipped: Mapping[str, str] = field(default_factory=dict)  # what was not even tried -> why
    options: Mapping[str, Any] = field(default_factory=dict)  # units, target and the like, where not the default
    truncated: int = 0  # examples longer than the model reads
    about: Mapping[str, Any] = field(default_factory=dict)
    stamps: Mapping[str, Stamp] = field(default_factory=dict)  # metric -> are its erased inputs in distribution?

    @property
    def title(self) -> str:
        """What was measured on what."""
        how = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"{self.model} on {self.examples} examples of {self.data}{f' ({how})' if how else ''}"

    def sorted_by(self, metric: str) -> tuple[str, ...]:
        """Explainers from the best to the worst on one metric."""
        matching = [known for known in self.metrics if metric in (known, known.split("(")[0])]
        if not matching:
            raise unknown("metric of this run", metric, self.metrics)
        return tuple(sorted(self.explainers, key=lambda explainer: _badness(self, explainer, matching[0])))

    def answer(self) -> list[str]:
        """The result in words: what to use, what is no better than random, which metrics do not tell, how to cite."""
        return _answer(self)


def leaderboards(store: Store, plan: Plan | None = None) -> list[Leaderboard]:
    """A leaderboard for each setting of a run: model, data, units and the like; with a plan, of its cells alone."""
    wanted = None if plan is None else set(plan.cells)
    cells = [cell for cell in store.cells() if not cell.error and (wanted is None or cell.name in wanted)]
    # In the order of the plan; without one by name, whatever order the files are in.
    places = {} if plan is None else {name: place for place, name in enumerate(plan.cells)}
    cells.sort(key=lambda cell: (places.get(cell.name, 0), canonical(cell.specs)))
    failed = [cell for cell in store.failed() if wanted is None or cell.name in wanted]
    settings = {canonical(_setting(cell)): _setting(cell) for cell in [*cells, *failed] if cell.kind == "explanation"}
    return [_leaderboard(store, setting, cells, failed) for setting in settings.values()]


def _setting(cell: Stored) -> dict[str, Any]:
    """What results must share to stand in one table; a check knows only what it is about."""
    return {key: cell.specs.get(key) for key in (*_ABOUT, *(_HOW if cell.kind != "check" else ()))}


def _leaderboard(
    store: Store, setting: Mapping[str, Any], cells: Sequence[Stored], failed: Sequence[Stored]
) -> Leaderboard:
    def here(cell: Stored, kind: str) -> bool:
        return cell.kind == kind and _setting(cell).items() <= setting.items()

    explanations = [cell for cell in cells if here(cell, "explanation")]
    checks = [cell for cell in cells if here(cell, "check")]
    measured: dict[tuple[str, str], list[Stored]] = {}
    for cell in cells:
        if here(cell, "metric"):
            measured.setdefault((cell.specs["explainer"], cell.specs["metric"]), []).append(cell)
    judges: dict[str, Metric] = {metric: catalog.build("metrics", metric) for _, metric in measured}
    scores = {key: [table_to_scores(store.table(cell.name)) for cell in found] for key, found in measured.items()}
    summaries = {key: _summary(judges[key[1]], by_seed) for key, by_seed in scores.items()}
    about = store.about() or {}
    examples = max((cell.rows for cell in explanations), default=0)
    values = {key: np.concatenate([_padded(one, examples) for one in by_seed]) for key, by_seed in scores.items()}
    names = list(dict.fromkeys(cell.specs["explainer"] for cell in explanations))
    metrics = tuple(dict.fromkeys(metric for _, metric in measured))
    directions = {metric: judges[metric].higher_is_better for metric in metrics}
    by_metric = {
        metric: {name: values[name, metric] for name in names if (name, metric) in values} for metric in metrics
    }
    groups = {
        metric: statistics.significance_groups(found, higher_is_better=directions[metric] is not False)
        for metric, found in by_metric.items()
        if len({len(one) for one in found.values()}) == 1
    }
    costs = {name: [cell for cell in explanations if cell.specs["explainer"] == name] for name in names}
    rows = {name: max(1, sum(cell.rows for cell in found)) for name, found in costs.items()}
    board = Leaderboard(
        model=setting["model"],
        data=setting["data"],
        options={key: setting[key] for key, usual in _HOW.items() if setting[key] not in (None, usual)},
        examples=examples,
        explainers=tuple(names),
        metrics=metrics,
        directions=directions,
        summaries=summaries,
        values=values,
        groups=groups,
        beats_random=_beats_random(by_metric, directions),
        seconds={name: sum(cell.seconds for cell in found) / rows[name] for name, found in costs.items()},
        passes={
            name: sum(cell.forward + cell.backward for cell in found) / rows[name] for name, found in costs.items()
        },
        failures={_title(cell): cell.error for cell in failed if here(cell, cell.kind)},
        skipped=about.get("left_out", {}),
        meta=_meta(by_metric, directions),
        truncated=_truncated(store, explanations),
        about=about,
        stamps=stamps(
            judges, *(table_to_p_values(store.table(checks[0].name)) if checks else ({}, "no check was run"))
        ),
    )
    order = sorted(names, key=lambda name: mean_rank(board, name))
    return Leaderboard(**{**vars(board), "explainers": tuple(order)})


def _padded(scores: Sequence[Score], examples: int) -> NDArray[np.float64]:
    """One value an example; those beyond the first ones, which a dear method was not given, are NaN."""
    return np.array([score.value for score in scores] + [np.nan] * (examples - len(scores)))


def _truncated(store: Store, explanations: Sequence[Stored]) -> int:
    if not explanations:
        return 0
    return int(np.count_nonzero(store.table(explanations[0].name).column("truncated").to_numpy()))


def mean_rank(board: Leaderboard, explainer: str) -> float:
    """The mean place over the metrics that have a direction; ties share a place."""
    places = []
    for metric in board.metrics:
        if board.directions[metric] is None or (explainer, metric) not in board.summaries:
            continue
        own = _badness(board, explainer, metric)
        others = [_badness(board, other, metric) for other in board.explainers if (other, metric) in board.summaries]
        places.append(sum(other < own for other in others) + (sum(other == own for other in others) + 1) / 2)
    return float(np.mean(places)) if places else float("inf")


def _badness(board: Leaderboard, explainer: str, metric: str) -> float:
    summary = board.summaries.get((explainer, metric))
    if summary is None or np.isnan(summary.value):
        return float("inf")
    return summary.value if board.directions[metric] is False else -summary.value


def _summary(metric: Metric, by_seed: Sequence[Sequence[Any]]) -> Summary:
    """Of one seed as the metric says; of several, pooled, with the interval of seeds × examples where it is a mean."""
    pooled = metric.summarise([score for scores in by_seed for score in scores])
    if len(by_seed) == 1 or type(metric).summarise is not Metric.summarise:
        return pooled
    low, high = statistics.hierarchical_interval([[score.value for score in scores] for scores in by_seed])
    return Summary(pooled.value, low, high, pooled.count, pooled.undefined, pooled.extra)


def _beats_random(
    by_metric: Mapping[str, Mapping[str, NDArray[np.float64]]], directions: Mapping[str, bool | None]
) -> dict[tuple[str, str], bool]:
    """Whether an explainer's scores are significantly better than the random ones: signed-rank tests, Holm over all."""
    keys, p_values, better = [], [], []
    for metric, found in by_metric.items():
        if directions[metric] is None or RANDOM not in found:
            continue
        for name, scores in found.items():
            if name == RANDOM or len(scores) != len(found[RANDOM]):
                continue
            gain = np.nanmean(scores - found[RANDOM]) if np.isfinite(scores - found[RANDOM]).any() else 0.0
            keys.append((name, metric))
            p_values.append(statistics.paired_test(scores, found[RANDOM])[1])
            better.append((gain > 0) == directions[metric] and gain != 0)
    if not keys:
        return {}
    adjusted = statistics.holm(np.nan_to_num(np.array(p_values), nan=1.0))
    return {key: bool(good and p < _LEVEL) for key, good, p in zip(keys, better, adjusted, strict=True)}


def _meta(
    by_metric: Mapping[str, Mapping[str, NDArray[np.float64]]], directions: Mapping[str, bool | None]
) -> MetaReport | None:
    table = {(name, metric): scores for metric, found in by_metric.items() for name, scores in found.items()}
    if not any(name == RANDOM for name, _ in table) or len({name for name, _ in table}) < 2:
        return None
    return meta_report(table, directions, random=RANDOM)


def _title(cell: Stored) -> str:
    metric = f" × {cell.specs['metric']}" if "metric" in cell.specs else ""
    return f"{cell.specs.get('explainer', cell.kind)}{metric}"


def _answer(board: Leaderboard) -> list[str]:
    lines = []
    directed = [metric for metric in board.metrics if board.directions[metric] is not None]
    real = [name for name in board.explainers if name != RANDOM]
    if real and directed:
        best = real[0]
        won = [metric for metric in directed if "a" in board.groups.get(metric, {}).get(best, "")]
        lines.append(
            f"Use {best}: best on average, and nothing is significantly better on {len(won)} of {len(directed)} "
            "metrics."
        )
    useless = [name for name in real if not any(board.beats_random.get((name, metric)) for metric in directed)]
    if useless and board.beats_random:
        lines.append(f"No better than random on any metric here: {', '.join(useless)}.")
    if board.meta is not None:
        blunt = [found.metric for found in board.meta.diagnosticities if found.advantage[1] <= 0]
        if blunt:
            lines.append(f"These metrics do not tell real explanations from random ones here: {', '.join(blunt)}.")
    outside = [metric for metric, stamp in board.stamps.items() if stamp.verdict == "out of distribution"]
    if outside:
        lines.append(
            f"Warning: masked inputs are out of distribution for {board.model} (p = {board.stamps[outside[0]].p:.2g}), "
            f"so {', '.join(outside)} may measure that instead of faithfulness; fine-tune the model with: troth train "
            "masked"
        )
    if board.truncated:
        cut = f"{board.truncated} of {board.examples}"
        lines.append(f"{cut} texts are longer than the model reads; their ends were cut off.")
    lines.append(_methods(board))
    return lines


def _methods(board: Leaderboard) -> str:
    import troth

    return (
        f"Methods: {len(board.explainers)} explainers were measured with {', '.join(board.metrics)} on "
        f"{board.examples} examples of {board.data} with {board.model}; 95 % BCa bootstrap intervals over examples, "
        f"Wilcoxon signed-rank tests with Holm's correction (troth {troth.__version__})."
    )
