"""`bench`: explainers × metrics on a model and data, as a run that is stored, can be resumed and read back.

Omitted arguments are filled in: explainers and metrics that suit the model, a masking, and references for the check.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from troth.core import arguments, catalog
from troth.core.display import Shown
from troth.core.errors import TrothError
from troth.core.progress import run_bar
from troth.core.sheet import Exportable, Sheet
from troth.core.units import UnitName, spans_of
from troth.data import Data, Source, load_data
from troth.explainers import Explainer
from troth.metrics import Erasing, Metric
from troth.models import Segments, TextClassifier
from troth.report.board import Leaderboard, leaderboards
from troth.report.requirements import Rulings
from troth.store.cells import FORMAT_VERSION, Plan
from troth.store.specs import ExplanationSpec
from troth.store.store import Store
from troth.sweep.context import Context
from troth.sweep.crossing import add_checks, cross
from troth.sweep.run import Engine, Outcome, Progress, run
from troth.training.record import usual_masking
from troth.verbs.methods import EXPLAINERS as EXPLAINING
from troth.verbs.methods import GivenExplainer, GivenMetric, Method

# Excludes methods that take hundreds of passes, because some metrics re-explain at every step.
EXPLAINERS = (
    "random", "gradient", "input_x_gradient", "integrated_gradients", "deep_lift", "attention", "leave_one_out",
)  # fmt: skip
# For a model that does not expose its internals.
ERASING_EXPLAINERS = ("random", "leave_one_out", "lime", "kernel_shap")
METRICS = (
    "aopc_comprehensiveness",
    "aopc_sufficiency",
    "recursive_erasure(step=0.2)",
    "soft_comprehensiveness",
    "soft_sufficiency",
)
RATIONALE_METRICS = ("rationale_agreement",)  # for data with human rationales
# When all methods run, expensive ones get fewer examples, and metrics that would re-explain with very expensive ones
# are left out.
_EXPENSIVE, _FEWER, _TOO_EXPENSIVE = 500, 30, 1_000  # passes per example, examples, passes for re-explaining


@dataclass(frozen=True, eq=False, repr=False)
class Bench(Shown, Exportable):
    """A finished bench: the folder of the run, the outcome, and the leaderboard."""

    folder: Path
    outcome: Outcome
    leaderboard: Leaderboard
    spent: str = ""  # usage of the model's endpoint, if it is counted

    def sheet(self) -> Sheet:
        """The sheet of the leaderboard."""
        return self.leaderboard.sheet()

    def require(
        self, *requirements: str, baseline: str | Path | Leaderboard | None = None, raises: bool = False
    ) -> Rulings:
        """As `require` of the leaderboard."""
        return self.leaderboard.require(*requirements, baseline=baseline, raises=raises)

    def _line(self) -> str:
        return f"in {self.folder} {self.leaderboard._line()}"

    def _parts(self) -> Iterable[str]:
        return self.leaderboard._parts()


@arguments.typed(
    explainers='a list such as ["random", …], or "all"', metrics='a list such as ["random", …], or "all"',
    seeds="a list of whole numbers", out="a folder",
    units="a name such as word or passage; pass your own spans to troth.explain", group="the name of a column",
    target="one class or label",
)  # fmt: skip
def bench(
    model: Any = "embedded",
    data: Source = "reviews",
    explainers: Sequence[GivenExplainer] | Mapping[str, GivenExplainer] | Literal["all"] | None = None,
    metrics: Sequence[GivenMetric] | Literal["all"] | None = None,
    out: str | Path | None = None,
    *,
    split: str | None = None,
    limit: int | None = None,
    columns: Mapping[str, Any] | None = None,
    group: str | None = None,
    units: UnitName = "word",
    target: str | int = "predicted",
    against: str | int | None = None,
    segments: Segments = "first",
    masking: str | None = None,
    seeds: Sequence[int] = (0,),
    engine: Engine = "local",
    workers: int | None = 1,
    retry: bool = False,
    progress: bool | Callable[[Progress], None] | None = True,
    command: str = "",
) -> Bench:
    """Explains the data with every explainer, measures every explanation, and ranks the explainers.

    Results that the run folder already holds are not computed again. `random` is always among the explainers, as a
    baseline. A mapping names methods of any kind: {"mine": my_function, "captum_ig": attributions, "other":
    MyExplainer(), "ig": "integrated_gradients(steps=20)"}; docs/guide/own_methods.md describes what a function receives
    and may return, and how to write your own metrics: objects, functions (model, example, attribution) or
    my_file.py:MyMetric. "all" selects every explainer or metric; methods that take over 500 passes per example then get
    the first 30 examples. By default, `masking` is the one from the model's training, or else the mask token. `limit`
    draws a stratified sample of that many examples with seed 0. `columns` are options of `load_data`: text="body",
    label="stars". `group` names the column with the source of each example, such as a document; each group counts once
    (docs/guide/validity.md). `command` is recorded in run.json. `progress` shows a progress bar on a terminal or in a
    notebook; False hides it, and a function is called with the progress instead.
    """
    if isinstance(explainers, str) and explainers != "all":
        explainers = [explainers]
    if (isinstance(metrics, str) and metrics != "all") or callable(metrics) or isinstance(metrics, Metric):
        metrics = [metrics]
    context = Context()
    plan = plan_of(
        context, model, data, explainers, metrics, split=split, limit=limit, columns=columns, group=group, units=units,
        target=target, against=against, segments=segments, masking=masking, seeds=seeds,
    )  # fmt: skip
    counted = endpoint_of(plan, context)
    workers = workers_of(plan, context, workers)
    store = Store(out if out is not None else default_folder(plan))
    with run_bar(progress is True) as bar:
        outcome = run(
            plan, store, engine=engine, workers=workers, retry=retry, context=context, command=command,
            progress=progress if callable(progress) else bar,
        )  # fmt: skip
    store.refresh()
    boards = leaderboards(store, plan)
    if not boards or not boards[0].explainers:
        if outcome.interrupted:
            raise KeyboardInterrupt
        reasons = [failed.error for failed in outcome.failed]
        raise TrothError(
            f"no explainer could be run: {reasons[0] if reasons else 'other processes are computing them'}"
        )
    return Bench(store.folder, outcome, boards[0], "" if counted is None else counted.spent)


def plan_of(
    context: Context,
    model: Any,
    data: Source,
    explainers: Sequence[GivenExplainer] | Mapping[str, GivenExplainer] | Literal["all"] | None,
    metrics: Sequence[GivenMetric] | Literal["all"] | None,
    *,
    split: str | None = None,
    limit: int | None = None,
    columns: Mapping[str, Any] | None = None,
    group: str | None = None,
    seeds: Sequence[int] = (0,),
    masking: str | None = None,
    **options: Any,
) -> Plan:
    """The plan of a bench, with defaults filled in. A limit draws a stratified sample with seed 0."""
    if group is not None:
        columns = {**(columns or {}), "group": group}
        if isinstance(data, Data):
            raise TrothError(
                f"the data is already loaded; name the group when you load it: load_data(…, group={group!r})"
            )
    whole = data if isinstance(data, Data) else load_data(data, split=split, **(columns or {}))
    examples = whole if limit is None else whole.sample(limit)
    # Code that the user names is trusted from here on, in this process and its workers; no other code is run.
    context.trust(model[0] if isinstance(model, tuple) else model)
    about = context.model_spec(model)
    classifier = context.model(about)
    masking = usual_masking(classifier) if masking is None else masking
    explainers = explainers or (ERASING_EXPLAINERS if classifier.erases_only else EXPLAINERS)
    left_out = _incomplete("explainers") if explainers == "all" else {}
    every = [name for name in catalog.names("explainers") if name not in left_out]
    named = every if explainers == "all" else explainers
    for given in named.values() if isinstance(named, Mapping) else named:
        context.trust(given)
    for metric in () if metrics == "all" else metrics or ():
        context.trust(metric)
    chosen = with_random(EXPLAINING.methods(named, context.home))
    marked = all(example.rationale is not None for example in examples)
    usual = _usual_metrics(classifier, masking, marked)
    judges = _all_metrics(usual) if metrics == "all" else list(metrics or usual)
    allowance = _Allowance(examples, options.get("units", "word"), left_out) if explainers == "all" else None
    plan = cross(
        context, [about], [examples], chosen, judges, seeds, share=allowance, masking=masking, **options
    )  # fmt: skip
    if allowance is not None:
        plan.about["left_out"] = allowance.left_out
    add_checks(plan, context, [(examples, whole if isinstance(data, str) and limit is not None else ())])
    return plan


def endpoint_of(plan: Plan, context: Context) -> TextClassifier | None:
    """The explained model if it is an endpoint that counts its requests."""
    model = context.model(ExplanationSpec.of(next(plan.of("explanation"))))
    return model if model.spent else None


def workers_of(plan: Plan, context: Context, workers: int | None) -> int | None:
    """One worker by default for an endpoint: it does the work, and the limit of parallel requests is per process."""
    return 1 if workers is None and endpoint_of(plan, context) is not None else workers


def with_random(methods: Sequence[Method[Explainer]]) -> list[Method[Explainer]]:
    """The methods, with the random baseline added if it is missing."""
    there = any(method.name == "random" for method in methods)
    return [*methods] if there else [EXPLAINING.method("random"), *methods]


def _usual_metrics(model: TextClassifier, masking: str, marked: bool) -> list[str]:
    """Metrics that the model supports; those that erase whole units use `masking`, so that it can be checked."""
    metrics: list[Metric] = [catalog.build("metrics", spec) for spec in METRICS]
    if model.erases_only:
        # The default explainers of such a model take hundreds of passes each.
        metrics = [metric for metric in metrics if _reads_ids(metric) and not metric.explains_again]
    erased = [replace(metric, masking=masking) if _reads_ids(metric) else metric for metric in metrics]  # type: ignore[call-arg]  # an option of all that erase
    return [*map(catalog.spec, erased), *(RATIONALE_METRICS if marked else ())]


def _reads_ids(metric: Metric) -> bool:
    return isinstance(metric, Erasing) and metric.perturbation.level == "ids"


def _incomplete(kind: str) -> dict[str, str]:
    """Methods that have required options, and which ones."""
    options = {name: catalog.required(kind, name) for name in catalog.names(kind)}
    return {name: f"needs {name}({required[0]}=…)" for name, required in options.items() if required}


def _all_metrics(usual: Sequence[str]) -> list[str]:
    """Every metric without required options, with the options of an ordinary bench."""
    specs = {spec.partition("(")[0]: spec for spec in usual}
    return [specs.get(name, name) for name in catalog.names("metrics") if not catalog.required("metrics", name)]


@dataclass
class _Allowance:
    """How many examples each method gets when all are run; `left_out` collects what would take too long."""

    examples: Data
    units: UnitName
    left_out: dict[str, str]

    def __call__(self, explainer: Explainer, metric: Metric | None) -> int | None:
        passes = self._mean(explainer.passes)
        if metric is not None:
            again = passes * metric.for_explainer(explainer).explanations()
            if again > _TOO_EXPENSIVE:
                title = f"{catalog.spec(explainer)} × {catalog.spec(metric)}"
                self.left_out[title] = (
                    f"explaining again would take about {again:,.0f} passes per example; name them to run it"
                )
                return 0
            passes = max(passes, again + self._mean(metric.passes))
        return _FEWER if passes > _EXPENSIVE and len(self.examples) > _FEWER else None

    def _mean(self, passes: Callable[[int], int]) -> float:
        """The mean over the examples of a function of their number of units."""
        return sum(map(passes, self._lengths)) / max(1, len(self._lengths))

    @cached_property
    def _lengths(self) -> list[int]:
        spans = spans_of(self.units)
        return [len(spans(example.text)) for example in self.examples]


def default_folder(plan: Plan) -> Path:
    """runs/<model>-<data>-<hash of the specs>, so that repeating a bench finds its folder."""
    spec = ExplanationSpec.of(next(plan.of("explanation")))  # these specs are the same for all explanation cells
    about = f"{spec.model_fingerprint}{spec.data_fingerprint}{spec.units}{spec.target}{spec.masking}"
    short = hashlib.blake2b(f"{FORMAT_VERSION}{about}".encode(), digest_size=3).hexdigest()
    return Path("runs") / f"{_plain(spec.model)}-{_plain(spec.data)}-{short}"


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._" else "_" for letter in Path(name).name)[:40]
