"""The tables of the ROAR study, from what its trainings stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from troth.core import catalog
from troth.core.errors import TrothError
from troth.explainers import Explainer
from troth.metrics.sparsity import RATIOS, TOPS
from troth.store.store import Stored
from troth.studies import Section, published
from troth.studies._figures import draw_lines, over_seeds
from troth.studies._numbers import estimate, percent
from troth.studies.roar._curves import Curve
from troth.studies.roar._plan import Planner, Way
from troth.studies.roar._reader import Reader
from troth.training.bases.bilstm_attention import BilstmAttention

_NAMES = {
    "sst": "SST", "imdb": "IMDB", "snli": "SNLI", "babi1": "bAbI-1", "babi2": "bAbI-2", "babi3": "bAbI-3",
    "anemia": "Anemia", "diabetes": "Diabetes",
}  # fmt: skip
_METHODS = {
    "random": "Random", "attention": "Attention", "gradient": "Gradient", "input_x_gradient": "Input times Gradient",
    "integrated_gradients": "Integrated Gradient",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Retrained:
    """A part's results on one data set."""

    part: str
    planner: Planner
    methods: Sequence[Explainer]
    reader: Reader
    failed: Sequence[Stored]

    @property
    def data(self) -> str:
        return self.planner.subject.labeled.name

    @property
    def metric(self) -> str:
        return self.planner.subject.score

    @property
    def printed(self) -> dict[str, str]:
        """What the paper's tables call the data set and the model; "" where they have none."""
        subject = self.planner.subject
        if isinstance(subject.base, BilstmAttention):
            model = "lstm"
        else:
            model = "roberta" if subject.model.model.config.model_type == "roberta" else ""
        return {"dataset": _NAMES.get(self.data, ""), "model": model}

    def published(self, table: str, explainer: str) -> dict[str, str]:
        """The paper's row for a measure; empty where it has none."""
        return published.row(table, **self.printed, method=_METHODS.get(explainer.partition("(")[0], ""))

    def published_racu(self, explainer: str) -> str | None:
        row = self.published("roar_faithfulness", explainer)
        return f"{row['racu']} [+{row['plus']} −{row['minus']}]" if row.get("racu") else None

    def curves(self, way: Way) -> list[Curve]:
        curves = self.reader.curves(self.methods, way)
        if not curves:
            raise TrothError(self.failed[0].error if self.failed else f"{self.data}: no training was done")
        return curves

    def section(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], facts: Mapping[str, Any],
        words: Sequence[str], draw: Callable[[Any], None] | None = None,
    ) -> Section:  # fmt: skip
        text = " ".join([*words, *(f"Failed: {cell.error}." for cell in self.failed)])
        about = {
            "seeds": list(self.planner.seeds),
            "metric": self.metric,
            "trainings": self.planner.plan.about["trainings"],
            "examples": {name: len(data) for name, data in self.planner.subject.sets.items()},
        }
        return Section(self.part, f"{title}: {self.data}", columns, rows, text, {self.data: {**about, **facts}}, draw)

    def words(self, curves: Sequence[Curve]) -> list[str]:
        """How good the models are, what leaks, what has no RACU."""
        random, metric = curves[0].random, self.metric.replace("_", "-")
        quality = f"{metric} {random[:, 0].mean():.3f} with nothing erased"
        if curves[0].counted == "share":
            quality += f", {random[:, -1].mean():.3f} with everything"
        theirs = published.text("roar_performance", **self.printed, quantity="performance")
        quality += f" (published {theirs} %)." if theirs else "."
        why = {curve.why for curve in curves if curve.why and curve.counted == "share"}
        undefined = [f"RACU undefined for some seeds: {reason}." for reason in why]
        return [quality, *(curve.warning + "." for curve in curves if curve.warning), *undefined]


def _faithfulness(retrained: Retrained) -> Section:
    curves = retrained.curves("recursive")
    rows = [
        [curve.explainer, percent(curve.faithfulness), retrained.published_racu(curve.explainer)] for curve in curves
    ]
    facts = {
        "curves": [curve.to_dict() for curve in curves],
        "racu": {curve.explainer: 100 * curve.faithfulness[0] for curve in curves},
    }
    draw = _draw({"Recursive ROAR": curves}, retrained.metric)
    columns = ["measure", "RACU % [95 %]", "published"]
    return retrained.section("Recursive ROAR", columns, rows, facts, retrained.words(curves), draw)


def _comparison(retrained: Retrained) -> Section:
    recursive, once = retrained.curves("recursive"), retrained.curves("once")
    by_explainer = {curve.explainer: curve for curve in once}
    rows, racu = [], {}
    for curve in recursive:
        if (roar := by_explainer.get(curve.explainer)) is not None:
            estimates = {
                "roar": roar.faithfulness,
                "recursive": curve.faithfulness,
                "more": estimate(curve.racu - roar.racu),
            }
            racu[curve.explainer] = {name: 100 * value for name, (value, _, _) in estimates.items()}
            theirs = retrained.published_racu(curve.explainer)
            rows.append([curve.explainer, *map(percent, estimates.values()), theirs])
    columns = ["measure", "ROAR RACU %", "recursive", "more", "published recursive"]
    facts = {
        "roar": [curve.to_dict() for curve in once],
        "recursive": [curve.to_dict() for curve in recursive],
        "racu": racu,
    }
    draw = _draw({"ROAR": once, "Recursive ROAR": recursive}, retrained.metric)
    words = [*retrained.words(recursive), *(curve.warning + " (ROAR)." for curve in once if curve.warning)]
    return retrained.section("ROAR against Recursive ROAR", columns, rows, facts, words, draw)


def _one_token(retrained: Retrained) -> Section:
    curves = retrained.curves("recursive")
    rows: list[list[Any]] = [["random", *curves[0].random.mean(0).tolist(), None]]
    rows += [[curve.explainer, *curve.mean, float(curve.acu.mean())] for curve in curves]
    facts = {"curves": [curve.to_dict() for curve in curves]}
    draw = _draw({"one token per step": curves}, retrained.metric)
    columns = ["measure", *(f"{place:.0f}" for place in curves[0].places), "area below random"]
    return retrained.section("One token per step", columns, rows, facts, retrained.words(curves), draw)


def _sparsity(retrained: Retrained) -> Section:
    by_name = {catalog.spec(method): retrained.reader.sparsity(method) for method in retrained.methods}
    shares = {name: share for name, share in by_name.items() if share is not None}
    tops, ratios = (0, 4, 9), (0, 1, 4)  # shown; the facts have all
    rows = [
        [name, *(float(share["by_top"][:, place].mean()) for place in tops),
         *(float(share["by_ratio"][:, place].mean()) for place in ratios)]
        for name, share in shares.items()
    ]  # fmt: skip
    columns = ["measure", *(f"top {TOPS[place]}" for place in tops), *(f"top {RATIOS[place]:.0%}" for place in ratios)]
    estimates = {
        name: {kind: [estimate(column) for column in np.transpose(values)] for kind, values in share.items()}
        for name, share in shares.items()
    }
    facts = {"tops": list(TOPS), "ratios": list(RATIOS), "sparsity": estimates}
    words = ["Share of all importance that the top tokens of a test text hold, mean over texts and seeds."]
    panels = {
        title: {name: over_seeds(places, share[kind]) for name, share in shares.items()}
        for title, kind, places in (("by number", "by_top", TOPS), ("by share", "by_ratio", RATIOS))
    }
    draw = partial(draw_lines, panels=panels, across="top tokens", up="share of all importance")
    return retrained.section("Sparsity", columns, rows, facts, words, draw if shares else None)


def _wall_time(retrained: Retrained) -> Section:
    times = retrained.reader.times(retrained.methods)
    rows = []
    for name, seconds in times.items():
        minutes = retrained.published("roar_walltime", name).get("minutes")
        both = float(np.nansum(list(seconds.values()))) / 60
        rows.append([name, seconds["training"], seconds["importance"], both, float(minutes) if minutes else None])
    columns = ["measure", "training s", "importance s", "both min", "published min"]
    words = [
        "One iteration of one seed: a training and the importances of all examples. A training side by side with "
        "others counts its share of the time; the paper's BiLSTM was trained alone on a V100, RoBERTa on an A100."
    ]
    return retrained.section("Wall time", columns, rows, {"seconds": times}, words)


def _draw(panels: Mapping[str, Sequence[Curve]], metric: str) -> Callable[[Any], None]:
    """Figures 4, 7, 8 and 9."""
    by_title = {
        title: {curve.explainer: over_seeds(curve.places, curve.performance) for curve in curves}
        | {"random": over_seeds(curves[0].places, curves[0].random)}
        for title, curves in panels.items()
    }
    across = {curve.counted for curves in panels.values() for curve in curves}
    erased = "share of tokens erased" if across == {"share"} else "tokens erased"
    return partial(draw_lines, panels=by_title, across=erased, up=metric.replace("_", "-"))


SECTIONS: Mapping[str, Callable[[Retrained], Section]] = {
    "comparison": _comparison,
    "faithfulness": _faithfulness,
    "one_token": _one_token,
    "sparsity": _sparsity,
    "wall_time": _wall_time,
}
