"""Estimates the cost of a plan, or of explaining texts, before it runs: cells, model passes, and time."""

import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from troth.core import catalog
from troth.core.progress import hidden
from troth.core.types import Example
from troth.core.units import UnitKind
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.models import Segments, TextClassifier
from troth.store.cells import Plan
from troth.store.store import Store
from troth.sweep.context import Context
from troth.sweep.pace import Pace, Remaining
from troth.sweep.trial import SECONDS, Trial
from troth.verbs.explain import explain_each

_QUICK = 2.0  # maximum seconds for timing a method once
_TOGETHER = 8  # maximum number of texts that are timed together, as they are explained together
_MOST = 64  # maximum units of a text whose passes are timed with leave_one_out; longer ones with lime
_SAMPLES = range(8, 33)  # of lime; where even the fewest take too long, the whole text is timed alone
_CALIBRATION = 5.0  # maximum seconds for timing the passes once


def seconds_to_explain(
    model: TextClassifier,
    examples: Sequence[Example],
    methods: Mapping[str, Explainer],
    passes: Mapping[str, int],
    units: UnitKind = "word",
    segments: Segments = "first",
) -> float | None:
    """Estimated seconds for these model passes, from timing texts of about median length; None for an endpoint."""
    if model.spent or not examples:
        return None
    by_length = sorted(examples, key=lambda example: len(example.text))

    def middle(count: int) -> Sequence[Example]:
        """So many texts of about median length, but at most `_TOGETHER`."""
        count = min(count, _TOGETHER, len(by_length))
        start = (len(by_length) - count + 1) // 2
        return by_length[start : start + count]

    def take(method: str | Explainer, texts: Sequence[Example]) -> float:
        begun = time.perf_counter()
        for _ in explain_each(Prober(model), texts, method, units=units, segments=segments):
            pass
        return (time.perf_counter() - begun) / len(texts)

    with hidden():
        (units_of_middle,) = (encoding.n_units for encoding in model.encode(middle(1), units, segments))
        take("random", middle(1))  # warm-up
        begun, per_pass = time.perf_counter(), take("random", middle(1))
        affordable = int(_CALIBRATION / max(per_pass, 1e-9))
        if affordable >= _SAMPLES.start:
            few = f"lime(samples={min(affordable, _SAMPLES.stop - 1)})"
            known = "leave_one_out" if units_of_middle <= min(affordable, _MOST) else few
            timed: Explainer = catalog.build("explainers", known)
            counted = 1 + timed.passes(units_of_middle)
            texts = middle(max(1, affordable // counted))
            per_pass = min(take(timed, texts), take(timed, texts)) / counted
        total = per_pass * (sum(passes.values()) - sum(passes[name] for name in methods))  # passes of the proof
        for name, method in methods.items():
            counted = 1 + method.passes(units_of_middle)
            texts = middle(int(_QUICK / max(counted * per_pass, 1e-9)))
            quick = bool(texts) and not method.learns and time.perf_counter() - begun < SECONDS
            total += passes[name] * (min(take(method, texts), take(method, texts)) / counted if quick else per_pass)
    return total


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of a run."""

    cells: Mapping[str, int]  # number of cells by kind
    finished: int
    failed: int
    to_do: int
    passes: int  # model passes of the cells to do
    requests: int  # the passes that are requests to an endpoint
    seconds: float | None  # with this number of workers; None if nothing is known
    probed: int  # number of methods that were timed on a few examples
    problem: str = ""  # the error of the first of these that failed


class Estimator:
    """Estimates plans that share a run folder; timings from one plan are reused for the next."""

    def __init__(self, store: Store, context: Context | None = None) -> None:
        self._store, self._pace = store, Pace()
        self._folder = tempfile.TemporaryDirectory(prefix="troth-")  # for models that are trained while estimating
        self._trial = Trial(context or Context(store.folder), Path(self._folder.name), store.folder)
        for finished in store.cells():
            if not finished.error:
                passes = finished.forward + finished.backward
                self._pace.learn(finished.kind, finished.specs, finished.seconds, passes=passes)

    def estimate(self, plan: Plan, *, workers: int = 1, retry: bool = False) -> Estimate:
        """What is left to do and how long it may take, based on similar cells in the store or on a few examples."""
        failed = {cell.name for cell in self._store.cells() if cell.error and not retry}
        done = self._store.names() | plan.tables.keys()
        to_do = [cell for name, cell in plan.cells.items() if name not in done and name not in failed]
        before = self._trial.count
        with hidden():
            self._trial.learn(plan, to_do, self._pace)
        seconds = Remaining(to_do).seconds(self._pace)
        passes = {cell.name: self._pace.expect_passes(cell) for cell in to_do}
        return Estimate(
            cells=Counter(cell.kind for cell in plan.cells.values()),
            finished=sum(name in done for name in plan.cells),
            failed=len(failed & plan.cells.keys()),
            to_do=len(to_do),
            passes=round(sum(passes.values())),
            requests=round(sum(passes[cell.name] for cell in to_do if self._trial.is_endpoint(cell))),
            seconds=None if seconds is None else seconds / max(1, min(workers, len(to_do))),
            probed=self._trial.count - before,
            problem=self._trial.problem,
        )
