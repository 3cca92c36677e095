"""Recursive ROAR (Madsen et al., 2022): is an importance measure faithful, found out by erasing and retraining?

Part synthetic is eq. (1) and figure 3, on the spot. The others train a BiLSTM with attention (or --base) on the data
sets named with --data, and print RACU beside table 2. 10 % a step unless said; `roar(step=0.2, epochs=3)` is cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from troth.core import catalog
from troth.core.errors import TrothError
from troth.explainers import Explainer
from troth.metrics.formulas import Variant
from troth.metrics.sparsity import RATIOS, TOPS
from troth.store.cells import Plan
from troth.studies import Section, Setting, Study, published
from troth.studies.roar import _eq1
from troth.studies.roar import _figures as _roar_figures
from troth.studies.roar._benchmark import plan_for
from troth.studies.roar._curves import Curve, Reader, estimate
from troth.studies.roar._plan import Planner, Way
from troth.studies.roar._steps import steps_of
from troth.training import bases
from troth.training.bases.bilstm_attention import BilstmAttention
from troth.training.examples import entry_of

DATA = ("sst",)
_NAMES = {
    "sst": "SST", "imdb": "IMDB", "snli": "SNLI", "babi1": "bAbI-1", "babi2": "bAbI-2", "babi3": "bAbI-3",
    "anemia": "Anemia", "diabetes": "Diabetes",
}  # fmt: skip
_METHODS = {
    "random": "Random", "attention": "Attention", "gradient": "Gradient", "input_x_gradient": "Input times Gradient",
    "integrated_gradients": "Integrated Gradient",
}  # fmt: skip
_WAYS: Mapping[str, tuple[Way, ...]] = {
    "comparison": ("recursive", "once"),
    "faithfulness": ("recursive",),
    "one_token": ("recursive",),
    "sparsity": (),
    "wall_time": ("recursive",),
}


@dataclass(frozen=True)
class Roar(Study):
    parts: ClassVar[Mapping[str, str]] = {
        "synthetic": "eq. (1): ROAR, Recursive ROAR, the truth and the worst case (figure 3)",
        "comparison": "ROAR against Recursive ROAR (appendix G, figures 8 and 9)",
        "faithfulness": "RACU of each measure by Recursive ROAR (table 2, figure 4)",
        "one_token": "exactly one token a step, up to 10 (appendix F, figure 7)",
        "sparsity": "how few tokens hold the importance (appendix E, figures 5 and 6)",
        "wall_time": "what a training and an importance take (appendix D, table 7)",
    }

    step: float = 0.1
    explainers: tuple[str, ...] = ()  # those of the paper where empty
    epochs: int | None = None  # the paper's where None
    stack: int | None = None  # trainings side by side in a cell; None: as many as pay
    variant: Variant = "paper"  # released: RACU clipped to [−1, 1]

    def __post_init__(self) -> None:
        steps_of(self.step)

    def plan(self, part: str, setting: Setting) -> Plan | None:
        if part == "synthetic":
            return None
        whole: Plan | None = None
        for data in setting.data or DATA:
            planner, _ = self._planned(part, data, setting)
            whole = planner.plan if whole is None else _joined(whole, planner.plan)
        return whole

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        if part == "synthetic":
            yield from _synthetic()
            return
        for data in setting.data or DATA:
            planner, methods = self._planned(part, data, setting)
            store, outcome = setting.carry_out(planner.plan)
            found = _Found(part, planner, methods, Reader(planner, store, variant=self.variant), outcome.failed)
            yield _SECTIONS[part](found)

    def _planned(self, part: str, data: str, setting: Setting) -> tuple[Planner, list[Explainer]]:
        step: float | Literal["one"] = "one" if part == "one_token" else self.step
        entry = entry_of(data)
        pair = entry is not None and entry.auxiliary is not None
        base = bases.build(setting.base or _base_for(data))
        options: dict[str, Any] = {} if self.epochs is None else {"epochs": self.epochs}
        return setting.context.once(
            ("roar", self, part, data, setting.base, setting.seeds, setting.limit),
            lambda: plan_for(
                data, base, self.explainers or _explainers_for(base, pair=pair), _WAYS[part], seeds=setting.seeds,
                step=step, limit=setting.limit, stack=self.stack, **options,
            ),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Found:
    """A part's results on one data set."""

    part: str
    planner: Planner
    methods: Sequence[Explainer]
    reader: Reader
    failed: Sequence[Any]

    @property
    def data(self) -> str:
        return self.planner.subject.labeled.name

    @property
    def metric(self) -> str:
        return self.planner.subject.score

    def curves(self, way: Way) -> list[Curve]:
        found = [self.reader.curve(method, way) for method in self.methods]
        curves = [curve for curve in found if curve is not None]
        if not curves:
            raise TrothError(self.failed[0].error if self.failed else f"{self.data}: no training was done")
        return curves

    def published(self, table: str, method: str) -> dict[str, str]:
        """The paper's row for a measure on this data and kind of model; empty where it has none."""
        rows = published.read(table)
        wanted = (_NAMES.get(self.data), _METHODS.get(method.partition("(")[0]), _kind(self.planner))
        return next((row for row in rows if (row["dataset"], row["method"], row["model"]) == wanted), {})

    def section(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], facts: Mapping[str, Any],
        words: Sequence[str], draw: Callable[[Any], None] | None = None,
    ) -> Section:  # fmt: skip
        said = " ".join([*words, *(f"Failed: {one.error}." for one in self.failed)])
        about = {
            "seeds": list(self.planner.seeds),
            "metric": self.metric,
            "trainings": self.planner.plan.about["trainings"],
            "examples": {name: len(data) for name, data in self.planner.subject.sets.items()},
        }
        return Section(self.part, f"{title}: {self.data}", columns, rows, said, {self.data: {**about, **facts}}, draw)


def _synthetic() -> Iterator[Section]:
    curves = _eq1.curves(_eq1.problem())
    rows = [[count, *values] for count, values in enumerate(zip(*curves.values(), strict=True))]
    fall = _eq1.falls(curves)
    words = (
        "Accuracy by number of removed features, on the authors' draw (seed 0). Four of sixteen are informative and "
        f"stand in for each other: Recursive ROAR removes them first, as the truth does, and falls at "
        f"{fall['recursive']}; ROAR falls at {fall['roar']}."
    )
    draw = partial(_roar_figures.draw_synthetic, curves=curves)
    yield Section("synthetic", "Eq. (1), figure 3", ["removed", *curves], rows, words, curves, draw)
    spread = _eq1.spread()
    names = list(spread)
    counts = [[count, *(spread[name].count(count) for name in names)] for count in range(4, 17)]
    same = sum(a == b for a, b in zip(spread["roar"], spread["truth"], strict=True))
    words = (
        f"In how many of {len(_eq1.SPREAD)} draws (seeds 0 to {_eq1.SPREAD[-1]}, 20,000 examples) accuracy falls when "
        f"so many features are removed. ROAR falls where the truth does in {same} of them: how long it holds is the "
        "draw's doing."
    )
    draw = partial(_roar_figures.draw_spread, spread=spread)
    title = f"Eq. (1) over {len(_eq1.SPREAD)} draws"
    yield Section("synthetic", title, ["falls at", *names], counts, words, {"falls": spread}, draw)


def _faithfulness(found: _Found) -> Section:
    curves = found.curves("recursive")
    rows = []
    for curve in curves:
        paper = found.published("roar_faithfulness", curve.explainer)
        rows.append([curve.explainer, _percent(curve.faithfulness), _printed(paper)])
    columns = ["measure", "RACU % [95 %]", "published"]
    facts = {
        "curves": [curve.to_dict() for curve in curves],
        "racu": {curve.explainer: 100 * curve.faithfulness[0] for curve in curves},
    }
    draw = partial(_roar_figures.draw_curves, panels={"Recursive ROAR": curves}, metric=found.metric)
    return found.section("Recursive ROAR", columns, rows, facts, _words(found, curves), draw)


def _comparison(found: _Found) -> Section:
    recursive, once = found.curves("recursive"), found.curves("once")
    known = {curve.explainer: curve for curve in once}
    rows, racu = [], {}
    for curve in recursive:
        if curve.explainer in known:
            paper = found.published("roar_faithfulness", curve.explainer)
            plain = known[curve.explainer]
            three = plain.faithfulness, curve.faithfulness, estimate(curve.racu - plain.racu)
            racu[curve.explainer] = dict(
                zip(("roar", "recursive", "more"), (100 * one[0] for one in three), strict=True)
            )
            rows.append([curve.explainer, *map(_percent, three), _printed(paper)])
    columns = ["measure", "ROAR RACU %", "recursive", "more", "published recursive"]
    facts = {
        "roar": [curve.to_dict() for curve in once],
        "recursive": [curve.to_dict() for curve in recursive],
        "racu": racu,
    }
    panels = {"ROAR": once, "Recursive ROAR": recursive}
    draw = partial(_roar_figures.draw_curves, panels=panels, metric=found.metric)
    words = [*_words(found, recursive), *(curve.warning + " (ROAR)." for curve in once if curve.warning)]
    return found.section("ROAR against Recursive ROAR", columns, rows, facts, words, draw)


def _one_token(found: _Found) -> Section:
    curves = found.curves("recursive")
    places = [f"{place:.0f}" for place in curves[0].places]
    rows: list[list[Any]] = [["random", *curves[0].random.mean(0).tolist(), None]]
    rows += [[curve.explainer, *curve.mean, float(curve.acu.mean())] for curve in curves]
    facts = {"curves": [curve.to_dict() for curve in curves]}
    draw = partial(_roar_figures.draw_curves, panels={"one token a step": curves}, metric=found.metric)
    columns = ["measure", *places, "area below random"]
    return found.section("One token a step", columns, rows, facts, _words(found, curves), draw)


def _sparsity(found: _Found) -> Section:
    shares = {one: found.reader.sparsity(method) for one, method in _by_name(found.methods).items()}
    known = {name: share for name, share in shares.items() if share is not None}
    tops, ratios = (0, 4, 9), (0, 1, 4)  # shown; the facts have all
    rows = [
        [name, *(float(share["by_top"][:, place].mean()) for place in tops),
         *(float(share["by_ratio"][:, place].mean()) for place in ratios)]
        for name, share in known.items()
    ]  # fmt: skip
    columns = ["measure", *(f"top {TOPS[place]}" for place in tops), *(f"top {RATIOS[place]:.0%}" for place in ratios)]
    facts = {
        "tops": list(TOPS),
        "ratios": list(RATIOS),
        "sparsity": {
            name: {part: [estimate(column) for column in np.transpose(values)] for part, values in share.items()}
            for name, share in known.items()
        },
    }
    words = ["Share of all importance that the top tokens of a test text hold, mean over texts and seeds."]
    draw = partial(_roar_figures.draw_sparsity, shares=known, places={"by_top": TOPS, "by_ratio": RATIOS})
    return found.section("Sparsity", columns, rows, facts, words, draw if known else None)


def _wall_time(found: _Found) -> Section:
    times = found.reader.times(found.methods)
    rows = []
    for name, seconds in times.items():
        paper = _number(found.published("roar_walltime", name), "minutes")
        whole = float(np.nansum(list(seconds.values()))) / 60
        rows.append([name, seconds["training"], seconds["importance"], whole, paper])
    columns = ["measure", "training s", "importance s", "both min", "published min"]
    words = [
        "One iteration of one seed: a training and the importances of all examples. A training side by side with "
        "others counts its share of the time; the paper's BiLSTM was trained alone on a V100, RoBERTa on an A100."
    ]
    return found.section("Wall time", columns, rows, {"seconds": times}, words)


_SECTIONS: Mapping[str, Callable[[_Found], Section]] = {
    "comparison": _comparison,
    "faithfulness": _faithfulness,
    "one_token": _one_token,
    "sparsity": _sparsity,
    "wall_time": _wall_time,
}


def _words(found: _Found, curves: Sequence[Curve]) -> list[str]:
    """How good the models are, what leaks, what has no RACU."""
    ends = curves[0].random
    metric = found.metric.replace("_", "-")
    said = [f"{metric} {ends[:, 0].mean():.3f} with nothing erased"]
    if curves[0].counted == "share":
        said.append(f"{ends[:, -1].mean():.3f} with everything")
    paper = [
        row for row in published.read("roar_performance")
        if (row["dataset"], row["quantity"], row["model"])
        == (_NAMES.get(found.data), "performance", _kind(found.planner))
    ]  # fmt: skip
    beside = f" (published {paper[0]['value']} %)" if paper else ""
    notes = [curve.warning + "." for curve in curves if curve.warning]
    why = {curve.why for curve in curves if curve.why and curve.counted == "share"}
    return [", ".join(said) + beside + ".", *notes, *(f"RACU undefined for some seeds: {one}." for one in why)]


def _explainers_for(base: bases.Base, *, pair: bool) -> tuple[str, ...]:
    # Every token travels the path, special ones too; a second text does not.
    path = "integrated_gradients(steps=50)" if pair else "integrated_gradients(steps=50, moves='all')"
    attention = ("attention",) if isinstance(base, BilstmAttention) else ()
    return (*attention, "gradient", "input_x_gradient", path)


def _base_for(data: str) -> str:
    """Table 4."""
    return "bilstm_attention(embedding=50)" if data.startswith("babi") else "bilstm_attention"


def _kind(planner: Planner) -> str:
    """What the paper's tables call the model."""
    base = planner.subject.base
    if isinstance(base, BilstmAttention):
        return "lstm"
    return "roberta" if planner.subject.model.model.config.model_type == "roberta" else ""


def _by_name(methods: Sequence[Explainer]) -> dict[str, Explainer]:
    return {catalog.spec(method): method for method in methods}


def _percent(estimated: tuple[float, float, float]) -> str:
    value, low, high = (100 * number for number in estimated)
    return "–" if math.isnan(value) else f"{value:.1f} [{low:.1f}, {high:.1f}]"


def _printed(row: Mapping[str, str]) -> str:
    return f"{row['racu']} [+{row['plus']} −{row['minus']}]" if row.get("racu") else "–"


def _number(row: Mapping[str, str], key: str) -> float | None:
    return float(row[key]) if row.get(key) else None


def _joined(one: Plan, other: Plan) -> Plan:
    """Two data sets' plans as one, to be looked at."""
    about = {**one.about, "trainings": one.about["trainings"] + other.about["trainings"]}
    return Plan(one.cells | other.cells, one.tables | other.tables, about, one.probes)
