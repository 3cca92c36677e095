"""`troth.sweep`: models × data × explainers × metrics × seeds from Python, with your own code; stored and resumable."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troth.core.display import Shown
from troth.core.progress import run_bar
from troth.core.sheet import Exportable, Sheet
from troth.core.units import UnitName
from troth.data import Data, load_data
from troth.models import Segments
from troth.report.across import across
from troth.report.board import Leaderboard, leaderboards
from troth.store.store import Store
from troth.sweep.bench import with_random
from troth.sweep.context import Context
from troth.sweep.crossing import add_checks, cross
from troth.sweep.run import Engine, Outcome, Progress, run
from troth.verbs.methods import EXPLAINERS, GivenExplainer, GivenMetric


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Shown, Exportable):
    """A finished sweep: the folder of the run, the outcome, and a leaderboard for each model and data set."""

    folder: Path
    outcome: Outcome
    leaderboards: tuple[Leaderboard, ...]

    def sheet(self) -> Sheet:
        """The mean rank of every explainer for each model and data set."""
        return across(self.leaderboards)

    def _line(self) -> str:
        return f"in {self.folder}: {len(self.leaderboards)} leaderboards"

    def _parts(self) -> Iterable[str]:
        return (part for board in self.leaderboards for part in board._parts())


def sweep(
    models: Any,
    data: Any,
    explainers: Sequence[GivenExplainer] | Mapping[str, GivenExplainer],
    metrics: Sequence[GivenMetric],
    out: str | Path = "runs/sweep",
    *,
    seeds: Sequence[int] = (0,),
    split: str | None = None,
    limit: int | None = None,
    units: UnitName = "word",
    target: str | int = "predicted",
    against: str | int | None = None,
    segments: Segments = "first",
    masking: str = "mask_token",
    engine: Engine = "local",
    workers: int | None = 1,
    retry: bool = False,
    progress: bool | Callable[[Progress], None] | None = True,
) -> Sweep:
    """Measures every explainer with every metric, for each model, data set and seed.

    `models` is one model or a list: names, models in memory, or pairs of a name and options of `load_model`; `data` is
    one data set or a list. Explainers and metrics are as for `bench`: names, objects, functions, `my_file.py:Name`.
    `random` is added as a baseline. Results that the folder already holds are not computed again.
    """
    context = Context(out)
    several = models if isinstance(models, list) else [models]
    for named in (*several, *(explainers.values() if isinstance(explainers, Mapping) else explainers), *metrics):
        context.trust(named[0] if isinstance(named, tuple) else named)
    sets = data if isinstance(data, list) and not _are_examples(data) else [data]
    loaded = [each if isinstance(each, Data) else load_data(each, split=split) for each in sets]
    drawn = [each if limit is None else each.sample(limit) for each in loaded]
    chosen = with_random(EXPLAINERS.methods(explainers, context.home))
    plan = cross(
        context, several, drawn, chosen, list(metrics), seeds, units=units, target=target, against=against,
        segments=segments, masking=masking,
    )  # fmt: skip
    left = [
        whole if isinstance(each, str) and limit is not None else () for each, whole in zip(sets, loaded, strict=True)
    ]
    add_checks(plan, context, zip(drawn, left, strict=True))
    store = Store(out)
    with run_bar(progress is True) as bar:
        outcome = run(
            plan, store, engine=engine, workers=workers, retry=retry, context=context,
            progress=progress if callable(progress) else bar,
        )  # fmt: skip
    store.refresh()
    return Sweep(store.folder, outcome, tuple(board for board in leaderboards(store, plan) if board.explainers))


def _are_examples(data: Sequence[Any]) -> bool:
    return not any(isinstance(each, str | Path | Data) for each in data)
