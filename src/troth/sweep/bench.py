"""`bench`: explainers × metrics on a model and data, as a run that is stored, resumed and read back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from troth.core import arguments
from troth.core.display import Shown
from troth.core.errors import TrothError
from troth.core.export import Exportable
from troth.core.sheet import Sheet
from troth.core.units import UnitName
from troth.data import Source
from troth.metrics import Metric
from troth.models import Segments
from troth.report.board import Leaderboard, leaderboards
from troth.store.cells import FORMAT_VERSION, Plan
from troth.store.specs import ExplanationSpec
from troth.store.store import Store
from troth.sweep.bench_plan import EXPLAINERS as EXPLAINERS
from troth.sweep.bench_plan import plan_of as plan_of
from troth.sweep.context import Context as Context
from troth.sweep.outcome import shown
from troth.sweep.run import Engine, Outcome, Progress, run
from troth.verbs.methods import Given


@dataclass(frozen=True, eq=False, repr=False)
class Bench(Shown, Exportable):
    """A finished bench: where it is stored, what happened, and the leaderboard."""

    folder: Path
    outcome: Outcome
    leaderboard: Leaderboard
    spent: str = ""  # what asking the model has cost, where that is counted

    def sheet(self) -> Sheet:
        """That of the leaderboard."""
        return self.leaderboard.sheet()

    def _line(self) -> str:
        return f"in {self.folder} {self.leaderboard._line()}"

    def _parts(self) -> Iterable[str]:
        return self.leaderboard._parts()


@arguments.typed(
    explainers='a list such as ["random", …], or "all"', metrics='a list such as ["random", …], or "all"',
    seeds="a list of whole numbers", out="a folder",
    units="a name such as word or passage; spans of your own go with troth.explain", group="the name of a column",
    target="one class or label",
)  # fmt: skip
def bench(
    model: Any = "embedded",
    data: Source = "reviews",
    explainers: Sequence[Given] | Mapping[str, Given] | Literal["all"] | None = None,
    metrics: Sequence[str | Metric] | Literal["all"] | None = None,
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
    """Explains the data with every explainer, measures every explanation, and ranks them.

    What the run folder already holds is not computed again. `random`, to compare with, is always among the explainers.
    A mapping names methods of any kind: {"mine": my_function, "captum_ig": attributions, "other": MyExplainer(),
    "ig": "integrated_gradients(steps=20)"}; docs/own_methods.md says what a function is given and may return.
    "all" takes every explainer or metric there is; methods of over 500 passes per example then get the first 30.
    Without `masking`, units are erased as in the model's training, else by its mask token. `limit` draws so many
    examples with seed 0, classes by their shares. `columns` are options of `load_data`: text="body", label="stars".
    `group` is the column of what examples come from, such as a document: each group counts once (docs/validity.md).
    `command` is noted in run.json.
    `progress` is a bar on a terminal or in a notebook; False for none, or a function that is told how far it is.
    """
    if isinstance(explainers, str) and explainers != "all":
        explainers = [explainers]
    if isinstance(metrics, str) and metrics != "all":
        metrics = [metrics]
    context = Context()
    plan = plan_of(
        context, model, data, explainers, metrics, split=split, limit=limit, columns=columns, group=group, units=units,
        target=target, against=against, segments=segments, masking=masking, seeds=seeds,
    )  # fmt: skip
    subject = context.model(ExplanationSpec.of(next(plan.of("explanation"))))
    counted = subject if subject.spent else None
    if workers is None and counted is not None:
        workers = 1  # an endpoint does the work, and how many requests it gets at a time is one process's limit
    del subject  # a large one is let go where others do the work
    store = Store(out if out is not None else default_folder(plan))
    with shown(progress is True) as bar:
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
        raise TrothError(f"no explainer could be run: {reasons[0] if reasons else 'other processes are at it'}")
    return Bench(store.folder, outcome, boards[0], "" if counted is None else counted.spent)


def default_folder(plan: Plan) -> Path:
    """runs/<model>-<data>-<hash of the specs>: the same bench again finds its own folder."""
    spec = ExplanationSpec.of(next(plan.of("explanation")))  # all have these in common
    about = f"{spec.model_fingerprint}{spec.data_fingerprint}{spec.units}{spec.target}{spec.masking}"
    short = hashlib.blake2b(f"{FORMAT_VERSION}{about}".encode(), digest_size=3).hexdigest()
    return Path("runs") / f"{_plain(spec.model)}-{_plain(spec.data)}-{short}"


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._" else "_" for letter in Path(name).name)[:40]
