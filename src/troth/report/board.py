"""Stored scores as a ranking: numbers with intervals, who is significantly better, what it cost, an answer in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from troth import seeds, statistics
from troth.core import catalog
from troth.core.errors import unknown
from troth.metrics import Metric, Summary
from troth.metrics._diagnosticity import MetaReport, beats_random, meta_report
from troth.store.cells import Plan, canonical
from troth.store.measured import Measured, joined
from troth.store.specs import ModelSpec, names
from troth.store.store import Store, Stored
from troth.store.tables import table_to_p_values
from troth.validity.stamp import Stamp, stamps

RANDOM = "random"
_CHECK = "the check whether masked inputs are in distribution"
_ABOUT = (*names(ModelSpec), "data", "data_fingerprint", "units")
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
    values: Mapping[tuple[str, str], NDArray[np.float64]]  # one per example, averaged over seeds
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
    repeated: int = 0  # examples whose text another one has already

    @property
    def setting(self) -> str:
        """Units, target and the like, where not the default."""
        return ", ".join(f"{name} {value}" for name, value in self.options.items())

    @property
    def title(self) -> str:
        """What was measured on what."""
        how = f" ({self.setting})" if self.setting else ""
        return f"{self.model} on {self.examples} examples of {self.data}{how}"

    @property
    def seeds(self) -> int:
        """Over how many seeds scores are averaged, at most."""
        return max((summary.seeds for summary in self.summaries.values()), default=1)

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
    failed = [cell for cell in store.failed() if wanted is None or cell.name in wanted]
    for some in (cells, failed):
        some.sort(key=lambda cell: (places.get(cell.name, 0), canonical(cell.specs)))
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
    of_key: dict[tuple[str, str], list[Stored]] = {}
    for cell in cells:
        if here(cell, "metric"):
            of_key.setdefault((cell.specs["explainer"], cell.specs["metric"]), []).append(cell)
    judges: dict[str, Metric] = {metric: catalog.build("metrics", metric) for _, metric in of_key}
    measured = {key: Measured.read(store, found) for key, found in of_key.items()}
    summaries = {key: judges[key[1]].summarize(*found.by_seed) for key, found in measured.items()}
    about = store.about() or {}
    examples = max((cell.rows for cell in explanations), default=0)
    keys = joined([found.keys for found in measured.values()])
    by_seed = {key: found.values(keys) for key, found in measured.items()}  # [seeds, examples]
    values = {key: seeds.mean_over_seeds(found) for key, found in by_seed.items()}
    names = list(dict.fromkeys(cell.specs["explainer"] for cell in explanations))
    metrics = tuple(dict.fromkeys(metric for _, metric in measured))
    directions = {metric: judges[metric].higher_is_better for metric in metrics}
    by_metric = {
        metric: {name: values[name, metric] for name in names if (name, metric) in values} for metric in metrics
    }
    groups = {
        metric: statistics.significance_groups(found, higher_is_better=directions[metric] is not False)
        for metric, found in by_metric.items()
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
        beats_random=beats_random(by_metric, directions, RANDOM),
        seconds={name: sum(cell.seconds for cell in found) / rows[name] for name, found in costs.items()},
        passes={
            name: sum(cell.forward + cell.backward for cell in found) / rows[name] for name, found in costs.items()
        },
        failures={_title(cell): cell.error for cell in failed if here(cell, cell.kind)},
        skipped=about.get("left_out", {}),
        meta=meta_report(by_seed, directions, RANDOM) if {RANDOM} < {name for name, _ in by_seed} else None,
        truncated=_truncated(store, explanations),
        repeated=_repeated(store, explanations),
        about=about,
        stamps=stamps(
            judges, *(table_to_p_values(store.table(checks[0].name)) if checks else ({}, "no check was run"))
        ),
    )
    order = sorted(names, key=lambda name: mean_rank(board, name))
    return Leaderboard(**{**vars(board), "explainers": tuple(order)})


def _truncated(store: Store, explanations: Sequence[Stored]) -> int:
    if not explanations:
        return 0
    return int(np.count_nonzero(store.table(explanations[0].name).column("truncated").to_numpy()))


def _repeated(store: Store, explanations: Sequence[Stored]) -> int:
    data = next((name for cell in explanations for name in cell.parents[:1] if store.has(name)), None)
    if data is None:
        return 0
    texts = list(zip(*(store.table(data).column(name).to_pylist() for name in ("text", "text_pair")), strict=True))
    return len(texts) - len(set(texts))


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


def _title(cell: Stored) -> str:
    if cell.kind == "check":
        return _CHECK
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
        stamp = board.stamps[outside[0]]
        advice = (
            f"whole texts already are (p = {stamp.whole:.2g}), so masking is not to blame: measure on texts like those "
            "the model was trained on"
            if stamp.whole_outside
            else "fine-tune the model with: troth train masked"
        )
        lines.append(
            f"Warning: masked inputs are out of distribution for {board.model} (p = {stamp.p:.2g}), so "
            f"{', '.join(outside)} may measure that instead of faithfulness; {advice}"
        )
    if board.truncated:
        cut = f"{board.truncated} of {board.examples}"
        lines.append(f"{cut} texts are longer than the model reads; their ends were cut off.")
    if board.repeated:
        lines.append(
            f"{board.repeated} of {board.examples} examples repeat the text of another one and count as examples of "
            "their own, so intervals and tests here are too sure: drop them."
        )
    lines += [*_failed(board), *_seeds(board), _methods(board)]
    return lines


def _failed(board: Leaderboard) -> list[str]:
    """What is missing from the table because it failed, a sentence per reason."""
    by_reason: dict[tuple[bool, str], list[str]] = {}
    for what, why in board.failures.items():
        partly = " × " in what or what in (_CHECK, *board.explainers)
        by_reason.setdefault((partly, why.strip()), []).append(what)
    lines = []
    for (partly, why), failed in sorted(by_reason.items(), key=lambda found: found[0][0]):
        missing = "missing here, or resting on fewer seeds" if partly else "not ranked here"
        lines.append(f"Failed, so {missing}: {', '.join(failed)}. The reason: {why}")
    if lines:
        lines.append("Fix what failed, then run the same command with --retry.")
    return lines


def _seeds(board: Leaderboard) -> list[str]:
    """How much the seeds differ among themselves: no part of the intervals."""
    spreads = {key: found.spread for key, found in board.summaries.items() if not np.isnan(found.spread)}
    if not spreads:
        return []
    (explainer, metric), largest = max(spreads.items(), key=lambda one: one[1])
    return [
        f"Every example's score is its mean over up to {board.seeds} seeds. From seed to seed a number here varies by "
        f"a standard deviation of at most {largest:.2g} ({explainer} × {metric}); intervals and tests are over "
        "examples and leave that out."
    ]


def _methods(board: Leaderboard) -> str:
    import troth

    averaged = f"scores averaged over {board.seeds} seeds per example, " if board.seeds > 1 else ""
    return (
        f"Methods: {len(board.explainers)} explainers were measured with {', '.join(board.metrics)} on "
        f"{board.examples} examples of {board.data} with {board.model}; {averaged}95 % BCa bootstrap intervals over "
        f"examples, Wilcoxon signed-rank tests with Holm's correction (troth {troth.__version__})."
    )
