"""The tables of the ROAR study from its stored trainings, next to the published numbers."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from troth.core import catalog
from troth.core.errors import TrothError
from troth.explainers.random import Random
from troth.metrics.sparsity import RATIOS, TOPS
from troth.studies import Section, published
from troth.studies._results import draw_lines, estimate, over_seeds, percent
from troth.studies.roar._curves import Curve, Reader
from troth.studies.roar._plan import Way
from troth.training.bases.bilstm_attention import BilstmAttention

_NAMES = {
    "sst": "SST", "imdb": "IMDB", "snli": "SNLI", "babi1": "bAbI-1", "babi2": "bAbI-2", "babi3": "bAbI-3",
    "anemia": "Anemia", "diabetes": "Diabetes",
}  # fmt: skip
_METHODS = {
    "random": "Random", "attention": "Attention", "gradient": "Gradient", "input_x_gradient": "Input times Gradient",
    "integrated_gradients": "Integrated Gradient",
}  # fmt: skip
_ITERATIONS = 9  # of table 7: 10 % to 90 %


class Retrained(Reader):
    """A benchmark's results on one data set, next to the paper's."""

    @property
    def printed(self) -> dict[str, str]:
        """The names of the data set and the model in the paper's tables; "" if they have none."""
        if isinstance(self.subject.base, BilstmAttention):
            model = "lstm"
        else:
            model = "roberta" if self.subject.model.model.config.model_type == "roberta" else ""
        return {"dataset": _NAMES.get(self.subject.name, ""), "model": model}

    def published(self, table: str, explainer: str) -> dict[str, str]:
        """The paper's row for a measure; empty if it has none."""
        return published.row(table, **self.printed, method=_METHODS.get(explainer.partition("(")[0], ""))

    def published_racu(self, explainer: str) -> str | None:
        row = self.published("roar_faithfulness", explainer)
        return f"{row['racu']} [+{row['plus']} −{row['minus']}]" if row.get("racu") else None

    def curves(self, way: Way) -> list[Curve]:
        if curves := super().curves(way):
            return curves
        raise self.nothing_done()

    def nothing_done(self) -> TrothError:
        """Raises the first error, for the user to fix, if there is nothing to show."""
        failures = [self.results.store.failure(name) for name in self.planner.plan.cells]
        return TrothError(
            next((found.error for found in failures if found), f"{self.subject.name}: no training was done")
        )

    def section(
        self, part: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], facts: Mapping[str, Any],
        words: Sequence[str], draw: Callable[[Any], None] | None = None,
    ) -> Section:  # fmt: skip
        subject = self.subject
        about = {
            "seeds": list(self.planner.seeds), "metric": subject.score, "model": subject.model.model.config.model_type,
            "trainings": len(self.planner.trained_in),
            "examples": {name: len(data) for name, data in subject.sets.items()},
        }  # fmt: skip
        facts = {self.subject.name: {**about, **facts}}
        return Section(part, f"{title}: {self.subject.name}", columns, rows, " ".join(words), facts, draw)

    def words(self, curves: Sequence[Curve]) -> list[str]:
        """Notes on the models' performance, leakage, insufficient training, and measures without RACU."""
        random, metric = curves[0].random, self.subject.score.replace("_", "-")
        quality = f"{metric} {random[:, 0].mean():.3f} with nothing erased"
        if curves[0].counted == "share":
            quality += f", {random[:, -1].mean():.3f} with everything"
        theirs = published.text("roar_performance", **self.printed, quantity="performance")
        quality += f" (published {theirs} %)." if theirs else "."
        why = {curve.why for curve in curves if curve.why and curve.counted == "share"}
        undefined = [f"RACU undefined for some seeds: {reason}." for reason in why]
        warnings = [curve.warning for curve in curves] + [self.too_short]
        return [quality, *(warning + "." for warning in warnings if warning), *undefined]


def _faithfulness(retrained: Retrained) -> Section:
    curves = retrained.curves("recursive")
    rows = [
        [curve.explainer, percent(curve.faithfulness), retrained.published_racu(curve.explainer)] for curve in curves
    ]
    facts = {
        "curves": [curve.to_dict() for curve in curves],
        "racu": {curve.explainer: 100 * curve.faithfulness[0] for curve in curves},
    }
    draw = _draw({"Recursive ROAR": curves}, retrained.subject.score)
    columns = ["measure", "RACU % [95 %]", "published"]
    return retrained.section("faithfulness", "Recursive ROAR", columns, rows, facts, retrained.words(curves), draw)


def _comparison(retrained: Retrained) -> Section:
    recursive, once = retrained.curves("recursive"), retrained.curves("once")
    by_explainer = {curve.explainer: curve for curve in once}
    rows, racu = [], {}
    for curve in recursive:
        if (roar := by_explainer.get(curve.explainer)) is not None:
            more = estimate(curve.racu - roar.racu)
            estimates = {"roar": roar.faithfulness, "recursive": curve.faithfulness, "more": more}
            racu[curve.explainer] = {name: 100 * value for name, (value, _, _) in estimates.items()}
            theirs = retrained.published_racu(curve.explainer)
            rows.append([curve.explainer, *map(percent, estimates.values()), theirs])
    columns = ["measure", "ROAR RACU %", "recursive", "more", "published recursive"]
    facts = {
        "roar": [curve.to_dict() for curve in once],
        "recursive": [curve.to_dict() for curve in recursive],
        "racu": racu,
    }
    draw = _draw({"ROAR": once, "Recursive ROAR": recursive}, retrained.subject.score)
    words = [*retrained.words(recursive), *(curve.warning + " (ROAR)." for curve in once if curve.warning)]
    return retrained.section("comparison", "ROAR against Recursive ROAR", columns, rows, facts, words, draw)


def _one_token(retrained: Retrained) -> Section:
    curves = retrained.curves("recursive")
    rows: list[list[Any]] = [["random", *curves[0].random.mean(0).tolist(), None]]
    rows += [[curve.explainer, *curve.mean, float(curve.acu.mean())] for curve in curves]
    facts = {"curves": [curve.to_dict() for curve in curves]}
    draw = _draw({"one token per step": curves}, retrained.subject.score)
    columns = ["measure", *(f"{place:.0f}" for place in curves[0].places), "area below random"]
    return retrained.section("one_token", "One token per step", columns, rows, facts, retrained.words(curves), draw)


def _performance(retrained: Retrained) -> Section:
    subject, found = retrained.subject, retrained.performances()
    if not found:
        raise retrained.nothing_done()
    quality, model = estimate(found), retrained.printed["model"]
    lengths = [encoding.n_units for encoding in subject.model.encode(list(subject.sets["train"]), units="token")]

    def theirs(quantity: str, of_model: str = "") -> str | None:
        wanted = {"dataset": retrained.printed["dataset"], "quantity": quantity, "model": of_model}
        return published.text("roar_performance", **wanted)

    rows: list[list[Any]] = [[split, f"{len(data):,}", theirs(f"{split}_size")] for split, data in subject.sets.items()]
    rows.append(["tokens per text", f"{np.mean(lengths):.1f}", theirs("sequence_length")])
    rows.append([f"{retrained.subject.score.replace('_', '-')} %", percent(quality), theirs("performance", model)])
    facts = {"performance": found, "tokens": float(np.mean(lengths))}
    words = ["Tokens are those of the training texts that may be erased; the released code counts begin and end, too."]
    return retrained.section("performance", "Data and models", ["of", "here", "published"], rows, facts, words)


def _sparsity(retrained: Retrained) -> Section:
    splits = ("test", "validation")
    shares = {
        split: {
            catalog.spec(method): share
            for method in (*retrained.subject.methods, Random())
            if (share := retrained.sparsity(method, split)) is not None
        }
        for split in splits
    }
    tops, ratios = (0, 4, 9), (0, 1, 4)  # shown in the table; the facts have all
    rows = [
        [name, split, *(float(share["by_top"][:, place].mean()) for place in tops),
         *(float(share["by_ratio"][:, place].mean()) for place in ratios)]
        for split in splits
        for name, share in shares[split].items()
    ]  # fmt: skip
    shown = [*(f"top {TOPS[place]}" for place in tops), *(f"top {RATIOS[place]:.0%}" for place in ratios)]
    estimates = {
        split: {
            name: {kind: [estimate(column) for column in np.transpose(values)] for kind, values in share.items()}
            for name, share in shares[split].items()
        }
        for split in splits
    }
    facts = {"tops": list(TOPS), "ratios": list(RATIOS), "sparsity": estimates}
    words = [
        "Share of all importance that the top tokens of a text hold, mean over texts and seeds. The paper does not say "
        "which split its figures show; the released code takes validation."
    ]
    panels = {
        f"{split}, {title}": {name: over_seeds(places, share[kind]) for name, share in shares[split].items()}
        for split in splits
        for title, kind, places in (("by number", "by_top", TOPS), ("by share", "by_ratio", RATIOS))
    }
    draw = partial(draw_lines, panels=panels, across="top tokens", up="share of all importance", columns=2)
    columns = ["measure", "split", *shown]
    return retrained.section("sparsity", "Sparsity", columns, rows, facts, words, draw if shares["test"] else None)


def _wall_time(retrained: Retrained) -> Section:
    times = retrained.times()
    rows: list[list[Any]] = []
    for name, seconds in times.items():
        minutes = retrained.published("roar_walltime", name).get("minutes")
        both = float(np.nansum(list(seconds.values()))) / 60
        rows.append([name, seconds["training"], seconds["importance"], both, float(minutes) if minutes else None])
    printed = [row[-1] for row in rows if row[-1] is not None]
    totals = [sum(row[3] for row in rows), sum(printed) if len(printed) == len(rows) else None]
    for title, factor in (("sum", 1), (f"x{_ITERATIONS} iterations", _ITERATIONS), ("x5 seeds", 5 * _ITERATIONS)):
        rows.append([title, None, None, *(None if total is None else factor * total for total in totals)])
    columns = ["measure", "training s", "importance s", "both min", "published min"]
    words = [
        "One iteration of one seed: a training and the importances of all examples. A training side by side with "
        "others counts its share of the time; the paper's BiLSTM was trained alone on a V100, RoBERTa on an A100. "
        "The totals are those of table 7, for this data set: its published ones are ours to add up."
    ]
    return retrained.section("wall_time", "Wall time", columns, rows, {"seconds": times}, words)


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
    "performance": _performance,
    "sparsity": _sparsity,
    "wall_time": _wall_time,
}
