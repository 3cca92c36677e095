"""`bench`: explainers × metrics on a model and data, as a run that is stored, resumed and read back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.core.units import UnitKind, sentence_spans, word_spans
from troth.data import Data, load_data
from troth.explainers import Explainer
from troth.metrics import Metric
from troth.models import Segments
from troth.report.board import Leaderboard, leaderboards
from troth.store.cells import FORMAT_VERSION, Plan
from troth.store.specs import ExplanationSpec
from troth.store.store import Store
from troth.sweep.context import Context
from troth.sweep.crossing import add_checks, cross
from troth.sweep.run import Engine, Outcome, Progress, run
from troth.validity.masf import FEWEST
from troth.validity.references import held_out_beside

# What a bench runs unless said: no method of hundreds of passes, since some metrics explain at every step anew.
EXPLAINERS = (
    "random", "gradient", "input_x_gradient", "integrated_gradients", "deep_lift", "attention", "leave_one_out",
)  # fmt: skip
METRICS = (
    "aopc_comprehensiveness",
    "aopc_sufficiency",
    "soft_comprehensiveness",
    "soft_sufficiency",
    "recursive_erasure(step=0.2)",
)
RATIONALE_METRICS = ("rationale_agreement(top=5)",)  # where humans marked what matters
_REFERENCES = 1000  # of a check, at most
# When everything there is is asked for, dear methods are given fewer examples, and what explains again with them none.
_DEAR, _FEWER, _TOO_DEAR = 500, 30, 1_000  # passes an example, examples, passes of explaining again
_NEEDS_MORE = {
    "attributive_masking": "needs a fitted attribution model (checkpoint=…)",
    "llm_ranking": "needs an instruction-tuned language model (model=…)",
}


@dataclass(frozen=True, eq=False)
class Bench:
    """A finished bench: where it is stored, what happened, and the leaderboard."""

    folder: Path
    outcome: Outcome
    leaderboard: Leaderboard

    def _repr_html_(self) -> str:
        from troth.report.tables import html

        return html(self.leaderboard)


def bench(
    model: Any = "embedded",
    data: str | Data | Iterable[Example] = "reviews",
    explainers: Sequence[str | Explainer] | Literal["all"] | None = None,
    metrics: Sequence[str | Metric] | Literal["all"] | None = None,
    out: str | Path | None = None,
    *,
    split: str | None = None,
    limit: int | None = None,
    columns: Mapping[str, Any] | None = None,
    units: UnitKind = "word",
    target: str | int = "predicted",
    against: str | int | None = None,
    segments: Segments = "first",
    masking: str = "mask_token",
    seeds: Sequence[int] = (0,),
    engine: Engine = "local",
    workers: int | None = 1,
    retry: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Bench:
    """Explains the data with every explainer, measures every explanation, and ranks them.

    What the run folder already holds is not computed again. `random`, the yardstick, is always among the explainers.
    "all" takes every explainer or metric there is; methods of over 500 passes an example then get the first 30.
    `columns` are options of `load_data`: text="body", label="stars".
    """
    context = Context()
    plan = plan_of(
        context, model, data, explainers, metrics, split=split, limit=limit, columns=columns, units=units,
        target=target, against=against, segments=segments, masking=masking, seeds=seeds,
    )  # fmt: skip
    folder = Path(out) if out is not None else default_folder(plan)
    outcome = run(
        plan, Store(folder), engine=engine, workers=workers, retry=retry, progress=progress, context=context, threads=1
    )
    boards = leaderboards(Store(folder), plan)
    if not boards or not boards[0].explainers:
        if outcome.interrupted:
            raise KeyboardInterrupt
        reasons = [failed.error for failed in outcome.failed]
        raise TrothError(f"no explainer could be run: {reasons[0] if reasons else 'other processes are at it'}")
    return Bench(folder, outcome, boards[0])


def plan_of(
    context: Context,
    model: Any,
    data: str | Data | Iterable[Example],
    explainers: Sequence[str | Explainer] | Literal["all"] | None,
    metrics: Sequence[str | Metric] | Literal["all"] | None,
    *,
    split: str | None = None,
    limit: int | None = None,
    columns: Mapping[str, Any] | None = None,
    seeds: Sequence[int] = (0,),
    **options: Any,
) -> Plan:
    """The plan of a bench, with what was not said filled in."""
    named = columns or {}
    examples = data if isinstance(data, Data) else load_data(data, split=split, limit=limit, **named)
    there = catalog.names("explainers")
    left_out = {name: why for name, why in _NEEDS_MORE.items() if name in there} if explainers == "all" else {}
    known = [name for name in there if name not in left_out]
    chosen = known if explainers == "all" else list(explainers or EXPLAINERS)
    if not any(catalog.spec(catalog.build("explainers", explainer)) == "random" for explainer in chosen):
        chosen.insert(0, "random")
    marked = all(example.rationale is not None for example in examples)
    usual = (*METRICS, *(RATIONALE_METRICS if marked else ()))
    judged = _all_metrics(usual) if metrics == "all" else list(metrics or usual)
    sparing = _Sparing(examples, options.get("units", "word"), dict(left_out)) if explainers == "all" else None
    plan = cross(context, [model], [examples], chosen, judged, seeds, share=sparing, **options)
    if sparing is not None:
        plan.about["left_out"] = sparing.left_out
    add_checks(plan, lambda: _references(context, plan, data, split, examples, named, limit))
    return plan


def _references(
    context: Context,
    plan: Plan,
    data: str | Data | Iterable[Example],
    split: str | None,
    examples: Data,
    columns: Mapping[str, Any],
    limit: int | None,
) -> Sequence[Example]:
    """What a check compares with: the part held out of the model's training, else what the limit left out."""
    explanation = ExplanationSpec.of(next(plan.of("explanation")))
    held_out, _ = held_out_beside(context.model(explanation), examples)
    if held_out is not None:
        return held_out
    return _beside(data, split, examples, columns) if limit is not None else ()


def _beside(
    data: str | Data | Iterable[Example], split: str | None, examples: Data, columns: Mapping[str, Any]
) -> list[Example]:
    """Examples that the limit left out: references for the check, so that all that is measured can be tested.

    Only those as long as the ones that are measured: the test would find the length otherwise, not the masking.
    """
    taken = {example.id for example in examples}
    everything = load_data(data, split=split, **columns) if isinstance(data, str) else ()
    lengths = [len(word_spans(example.text)) for example in examples] or [0]
    shortest, longest = min(lengths), max(lengths)
    alike = (
        example
        for example in everything
        if example.id not in taken and shortest <= len(word_spans(example.text)) <= longest
    )
    others = list(islice(alike, _REFERENCES))
    return others if len(others) >= FEWEST else []


def _all_metrics(usual: Sequence[str]) -> list[str]:
    """Every metric; those of an ordinary bench as they are there."""
    specs = {spec.partition("(")[0]: spec for spec in usual}
    return [specs.get(name, name) for name in catalog.names("metrics")]


@dataclass
class _Sparing:
    """What each method is given when everything is asked for; `left_out` collects what would take too long."""

    examples: Data
    units: UnitKind
    left_out: dict[str, str]

    def __call__(self, explainer: Explainer, metric: Metric | None) -> int | None:
        passes = self._passes(explainer)
        if metric is not None:
            again = passes * metric.for_explainer(explainer).explanations()
            if again > _TOO_DEAR:
                title = f"{catalog.spec(explainer)} × {catalog.spec(metric)}"
                self.left_out[title] = (
                    f"explaining again would take about {again:,.0f} passes an example; name them to run it"
                )
                return 0
            passes = max(passes, again)
        return _FEWER if passes > _DEAR and len(self.examples) > _FEWER else None

    def _passes(self, explainer: Explainer) -> float:
        return sum(map(explainer.passes, self._lengths)) / max(1, len(self._lengths))

    @cached_property
    def _lengths(self) -> list[int]:
        spans = sentence_spans if self.units == "sentence" else word_spans
        return [len(spans(example.text)) for example in self.examples]


def default_folder(plan: Plan) -> Path:
    """runs/<model>-<data>-<hash of the specs>: the same bench again finds its own folder."""
    (model,), (data,) = plan.about["models"], plan.about["data"]
    common = sorted(
        f"{cell.specs['units']}{cell.specs['target']}{cell.specs['masking']}" for cell in plan.of("explanation")
    )
    about = f"{plan.about['models'][model]['fingerprint']}{plan.about['data'][data]['fingerprint']}{common[0]}"
    short = hashlib.blake2b(f"{FORMAT_VERSION}{about}".encode(), digest_size=3).hexdigest()
    return Path("runs") / f"{_plain(model)}-{_plain(data)}-{short}"


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._" else "_" for letter in Path(name).name)[:40]
