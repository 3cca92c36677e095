"""How long cells take, judged by those like them and by how often each asks the model.

Of a plan that was not run yet, by cells like these in the store or by a try on a few examples.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.progress import hidden
from troth.core.units import spans_of
from troth.explainers import Explainer
from troth.metrics import Metric
from troth.store.cells import Cell, CellTimer, Plan, find_function
from troth.store.specs import ExplanationSpec, MetricSpec
from troth.store.store import Store
from troth.sweep.context import Context
from troth.sweep.workers import Task, carry_out, from_bytes, to_bytes

_PROBE = 4  # examples
_MOST = 500  # passes per example that are tried; for more, the time is worked out
_FEW = "lime(samples=50)"  # what a pass takes is learned from
_SAME = ("metric", "explainer", "recipe", "model")  # specs that decide how long an example takes
_UNITS = 24  # of a text, where only the relation of two methods counts
_BESIDE = 6  # passes that reading, encoding and storing an example is worth
_MEASURING = 8  # passes of a metric, about
_SELDOM = 0.85  # of the explanations a metric asks for at most: the last is for the few that were of another class


class Pace:
    """Seconds per pass, by likeness: the same method on the same model, the same method, the same kind, any kind."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[Any, ...], float] = defaultdict(float)
        self._passes: Counter[tuple[Any, ...]] = Counter()

    def learn(self, kind: str, specs: Mapping[str, Any], seconds: float, examples: int | None = None) -> None:
        for key in _likenesses(kind, specs):
            self._seconds[key] += seconds
            self._passes[key] += (examples or _examples(specs)) * _weight(specs)

    def knows(self, cell: Cell) -> bool:
        """Whether a cell of the same method has been seen."""
        return list(_likenesses(cell.kind, cell.specs))[2] in self._passes

    def expect(self, cell: Cell) -> float | None:
        """Seconds a cell will take; None where nothing like it was seen."""
        for key in _likenesses(cell.kind, cell.specs):
            if self._passes[key]:
                return self._seconds[key] / self._passes[key] * _examples(cell.specs) * _weight(cell.specs)
        return None


class Remaining:
    """Cells still to be done, counted by likeness, so that the time left is cheap to work out."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._counts: Counter[tuple[Any, ...]] = Counter()
        self._samples: dict[tuple[Any, ...], Cell] = {}
        for cell in cells:
            self._counts[_likeness(cell)] += 1
            self._samples.setdefault(_likeness(cell), cell)

    def remove(self, cell: Cell) -> None:
        self._counts[_likeness(cell)] -= 1

    def seconds(self, pace: Pace) -> float | None:
        """What all of them will take one after the other; those nothing is known of count as the others' mean."""
        estimated = unknown = 0
        total = 0.0
        for key, count in self._counts.items():
            seconds = pace.expect(self._samples[key])
            if seconds is None:
                unknown += count
            else:
                estimated, total = estimated + count, total + seconds * count
        if not estimated:
            return None if unknown else 0.0
        return total / estimated * (estimated + unknown)


def _likeness(cell: Cell) -> tuple[Any, ...]:
    return (*next(_likenesses(cell.kind, cell.specs)), _examples(cell.specs))


def _likenesses(kind: str, specs: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    *methods, model = (specs.get(name) for name in _SAME)
    yield (kind, *methods, model)
    yield (kind, *methods)
    yield (kind, next((method for method in methods if method is not None), None))
    yield (kind,)
    if "explainer_full" in specs:
        yield ("passes",)  # an explanation and a metric both mostly wait for the model


def _examples(specs: Mapping[str, Any]) -> int:
    numbers = [int(specs[name]) for name in ("examples", "first") if specs.get(name)]
    return min(numbers, default=1)


def _weight(specs: Mapping[str, Any]) -> int:
    """How much work an example is, in passes of the model; 1 for what is neither an explanation nor a metric."""
    explainer, metric = specs.get("explainer_full"), specs.get("metric_full")
    return 1 if explainer is None else _passes(str(explainer), None if metric is None else str(metric))


@lru_cache(maxsize=4096)
def _passes(explainer: str, metric: str | None) -> int:
    try:
        method: Explainer = catalog.build("explainers", explainer)
        explaining = method.passes(_UNITS)
        if metric is None:
            return _BESIDE + explaining
        judge: Metric = catalog.build("metrics", metric)
        again = judge.for_explainer(method).explanations()
        return _BESIDE + max(_MEASURING, judge.passes(_UNITS)) + round(max(0, again - _SELDOM) * explaining)
    except (TrothError, OSError):  # a method of the user's own: nothing is known of it before it has run
        return _BESIDE + _MEASURING


@dataclass(frozen=True)
class Estimate:
    """What a run would do."""

    cells: Mapping[str, int]  # by kind
    finished: int
    failed: int
    to_do: int
    seconds: float | None  # with so many workers; None where nothing is known
    probed: int  # methods that were tried on a few examples


def estimate(
    plan: Plan, store: Store, *, workers: int = 1, context: Context | None = None, retry: bool = False
) -> Estimate:
    """What is left to do and how long it may take, from cells like these in the store or a try on a few examples."""
    pace = Pace()
    stored = store.cells()
    for finished in stored:
        if not finished.error:
            pace.learn(finished.kind, finished.specs, finished.seconds)
    failed = {cell.name for cell in stored if cell.error and not retry}
    done = store.names() | plan.tables.keys()
    to_do = [cell for name, cell in plan.cells.items() if name not in done and name not in failed]
    trial = _Trial(plan, context or Context(store.folder))
    with hidden():
        for cell in to_do:
            if not pace.knows(cell):
                trial.try_out(cell, pace)
    seconds = Remaining(to_do).seconds(pace)
    return Estimate(
        cells=Counter(cell.kind for cell in plan.cells.values()),
        finished=sum(name in done for name in plan.cells),
        failed=len(failed & plan.cells.keys()),
        to_do=len(to_do),
        seconds=None if seconds is None else seconds / max(1, min(workers, len(to_do))),
        probed=trial.count,
    )


class _Trial:
    """Carries cells out on the first examples of their data, in this process, and stores nothing.

    Explanations of too many passes (beam search on long texts) are estimated from what a pass takes.
    """

    def __init__(self, plan: Plan, context: Context) -> None:
        self.count = 0
        self._plan, self._context = plan, context
        self._tables: dict[str, pa.Table | None] = {}
        self._paces: dict[tuple[Any, str], float] = {}  # seconds per pass, by model and data

    def try_out(self, cell: Cell, pace: Pace) -> None:
        if cell.kind in self._plan.probes:
            if self._plan.probes[cell.kind]:
                self.count += 1
                timer: CellTimer = find_function(self._plan.probes[cell.kind])
                pace.learn(cell.kind, cell.specs, timer(cell, self._plan.tables, self._context))
            return
        costly = self._passes(cell) > _MOST
        seconds, table = self._make(self._explained_by("random", cell) if costly else cell)
        if table is not None and table.num_rows:
            self.count += 1
            more = table.num_rows * self._explaining(cell) if costly else 0.0
            pace.learn(cell.kind, cell.specs, seconds + more, table.num_rows)

    def _passes(self, cell: Cell) -> float:
        """Of one explanation, on average over the first examples."""
        tables = [self._plan.tables[parent].slice(0, _PROBE) for parent in cell.parents if parent in self._plan.tables]
        texts = [text for table in tables if "text" in table.column_names for text in table.column("text").to_pylist()]
        if not texts or cell.kind not in (ExplanationSpec.kind, MetricSpec.kind):
            return 0.0
        spec = ExplanationSpec.of(cell)
        spans = spans_of(spec.units)
        method = self._context.explainer(spec)
        return sum(method.passes(len(spans(text))) for text in texts) / len(texts)

    def _explaining(self, cell: Cell) -> float:
        """Seconds per example of the explanations that were not tried, from what a pass takes."""
        explanations = 1
        if cell.kind == MetricSpec.kind:
            spec = MetricSpec.of(cell)
            explanations = self._context.metric(spec).for_explainer(self._context.explainer(spec)).explanations()
        key = (cell.specs.get("model"), cell.parents[-1])
        if key not in self._paces:
            whole = cell if cell.kind == "explanation" else self._plan.cells[cell.parents[0]]
            few = self._explained_by(_FEW, whole)
            seconds, table = self._make(few)
            count = 0 if table is None else table.num_rows
            self._paces[key] = seconds / max(1.0, count * self._passes(few))
        return explanations * self._passes(cell) * self._paces[key]

    def _explained_by(self, explainer: str, cell: Cell) -> Cell:
        """The same cell with another explainer."""
        full = catalog.spec(catalog.build("explainers", explainer), full=True)
        specs, parents = {**cell.specs, "explainer": explainer, "explainer_full": full}, cell.parents
        specs.pop("explainer_code", None)
        if cell.kind != "explanation":
            explanation = self._explained_by(explainer, self._plan.cells[parents[0]])
            self._tables[explanation.name] = self._make(explanation)[1]
            parents = (explanation.name, *parents[1:])
        return Cell(cell.kind, specs, parents, cell.runner)

    def _make(self, cell: Cell) -> tuple[float, pa.Table | None]:
        parents = [self._table(parent) for parent in cell.parents]
        if any(parent is None for parent in parents) or cell.kind in self._plan.probes:
            return 0.0, None
        task = Task(cell, [to_bytes(parent) for parent in parents])
        reply = carry_out(task, self._context)
        return reply.seconds, None if reply.error else from_bytes(reply.table)

    def _table(self, name: str) -> pa.Table | None:
        if name not in self._tables:
            if name in self._plan.tables:
                self._tables[name] = self._plan.tables[name].slice(0, _PROBE)
            else:
                cell = self._plan.cells.get(name)
                self._tables[name] = None if cell is None else self._make(cell)[1]
        return self._tables[name]
