"""Runs cells on a few examples in this process, so that an estimate knows their cost; nothing is stored.

For cells that would take too long even then, the cost is computed from their model passes and the seconds per pass.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from troth.core import catalog
from troth.store.cells import Cell, CellTimer, Plan, find_function
from troth.store.specs import CheckSpec, ExplanationSpec, MetricSpec, ModelSpec, ReferencesSpec
from troth.sweep.context import Context
from troth.sweep.pace import Pace
from troth.sweep.passes import explains_or_measures, is_own, lengths, methods, passes_of
from troth.sweep.workers import Task, carry_out, from_bytes, to_bytes
from troth.training import record

SECONDS = 15.0  # no cell is tried after this time
_FIRST, _MORE = 2, 8  # examples of the first run, which warms up, and of the measured run if the first was quick
_QUICK = 0.5  # seconds
_MOST = 500  # maximum passes per example of a cell that is tried
_CALIBRATION = "lime(samples=50)"  # the explainer from which the seconds per pass are measured
_LOOKED_AT = 200  # number of texts whose length is measured
_TRAINED_ON = ((8, 1), (64, 3))  # examples and epochs of a first training, and of a second one if the first was quick
_TRAININGS = ("training", "fresh")


@dataclass(frozen=True)
class _Tried:
    """The cost of a cell on some of its examples."""

    seconds: float
    passes: int = 0
    table: pa.Table | None = None  # None if it failed


class Trial:
    """Tries cells until `SECONDS` have passed, over all plans that it is given.

    `folder` is for its own files; `store` is the folder of the run.
    """

    def __init__(self, context: Context, folder: Path, store: Path) -> None:
        self.count = 0
        self.problem = ""  # the first error
        (folder / "files").mkdir()
        for made in (store / "files").glob("*"):  # models that have already been trained
            (folder / "files" / made.name).symlink_to(made.absolute())
        self._deadline = time.monotonic() + SECONDS
        self._context = Context(folder, context.home, context.trusted)
        self._context.share(context)
        self._plan = Plan()
        self._made_up: dict[str, Cell] = {}  # cells that are not part of a plan
        self._tried: dict[tuple[str, int], _Tried] = {}  # by cell and number of examples
        self._per_pass: dict[tuple[Any, Any], float] = {}  # seconds, by model and data
        # Seconds: constant part of a training, and seconds per character and epoch.
        self._trainings: dict[tuple[Any, ...], tuple[float, float]] = {}

    def learn(self, plan: Plan, cells: Iterable[Cell], pace: Pace) -> None:
        """Tries one cell of each method, the quickest first."""
        self._plan = plan
        order = {"training": 0, ExplanationSpec.kind: 1, MetricSpec.kind: 2}
        for cell in sorted(cells, key=lambda cell: (order.get(cell.kind, 3), passes_of(cell.specs, 24))):
            # A kind of cell that nothing is known about is tried even then.
            if time.monotonic() > self._deadline and pace.expect(cell) is not None:
                continue
            if timer := plan.probes.get(cell.kind):
                if not pace.knows(cell):
                    self.count += 1
                    seconds: CellTimer = find_function(timer)
                    pace.learn(cell.kind, cell.specs, seconds(cell, plan.tables, self._context))
            elif cell.kind in _TRAININGS:
                self._try_training(cell, pace)
            elif cell.kind == CheckSpec.kind:
                self._work_out_check(cell, pace)
            elif explains_or_measures(cell.runner):
                self._try_method(cell, pace)
            elif not pace.knows(cell):
                self._try_any(cell, pace)

    def _try_method(self, cell: Cell, pace: Pace) -> None:
        if not self._calibrate(cell, pace):
            return
        found = None if is_own(cell.specs) else methods(cell.specs["explainer_full"], cell.specs.get("metric_full"))
        again = found is not None and found[1] is not None and found[1].explains_again
        if pace.knows(cell, exactly=again):
            return
        counts = self._counts(cell)
        passes = sum(passes_of(cell.specs, count) for count in counts) / max(1, len(counts))
        per_example = (1 + passes) * self._per_pass[_place(cell)]
        rows = self._rows(cell)
        self.count += 1
        if passes > _MOST or per_example * _FIRST > self._deadline - time.monotonic():
            pace.learn(cell.kind, cell.specs, rows * per_example, passes=round(rows * passes))
            return
        tried, _ = self._carry_out(self._on_random(cell))
        if tried.table is not None and tried.table.num_rows:
            share = (1 + passes) * rows / self._work(cell, tried.table.num_rows)
            pace.learn(cell.kind, cell.specs, share * tried.seconds, passes=round(share * tried.passes))

    def _calibrate(self, cell: Cell, pace: Pace) -> bool:
        """Measures the time of a pass of this model on these data; returns whether more cells may be tried there."""
        place, explanation = _place(cell), self._explanation_of(cell)
        endpoint = self.is_endpoint(cell)
        if place not in self._per_pass:
            # For an endpoint, only requests that the run needs anyway are sent; the answers are remembered.
            few = self._explained_by("random" if endpoint else _CALIBRATION, explanation)
            if not endpoint:
                self._make(few, _FIRST)  # warm-up
            tried = self._make(few, _MORE)
            if tried.table is None or not tried.table.num_rows:
                return False
            work = self._work(few, tried.table.num_rows)
            self._per_pass[place] = tried.seconds / work
            pace.learn(few.kind, few.specs, tried.seconds, tried.table.num_rows, tried.passes)
        return not endpoint

    def is_endpoint(self, cell: Cell) -> bool:
        """Whether a cell uses a remote model, whose usage is counted."""
        named = str(cell.specs.get("model", ""))
        return "://" in named and self._context.model(ModelSpec.of(cell)).spent != ""

    def _work_out_check(self, cell: Cell, pace: Pace) -> None:
        """Estimates a check, which reads its references and every example at each masked share."""
        if pace.knows(cell) or _place(cell) not in self._per_pass:
            return
        spec = CheckSpec.of(cell)
        kinds = {self._cell(parent).kind: parent for parent in cell.parents}
        examples = self._plan.tables[cell.parents[0]].num_rows
        references = kinds.get(ReferencesSpec.kind)
        known = self._plan.tables[references].num_rows if references is not None else 0
        passes = known + (examples if known else examples / 2) * (1 + 1 / spec.step)
        pace.learn(cell.kind, cell.specs, passes * self._per_pass[_place(cell)], passes=round(passes))

    def _try_any(self, cell: Cell, pace: Pace) -> None:
        """Tries a cell of a study on a few examples."""
        tried, count = self._carry_out(cell)
        tables = [self._plan.tables[parent] for parent in cell.parents if parent in self._plan.tables]
        if tried.table is not None:
            self.count += 1
            share = max((table.num_rows for table in tables), default=count) / count
            pace.learn(cell.kind, cell.specs, tried.seconds * max(1.0, share))

    def _try_training(self, cell: Cell, pace: Pace) -> None:
        """Measures the constant time of a training, and that per character and epoch, on a few examples."""
        if pace.knows(cell, here=True):
            return
        kind = (cell.kind, cell.specs.get("recipe"), cell.specs["base"])
        if kind not in self._trainings:
            self.count += 1
            for examples, epochs in _TRAINED_ON:
                tried = self._train(cell, examples, epochs)
                if tried is None:
                    return
                self._trainings[kind] = tried
                if sum(tried) > _QUICK and examples * epochs * tried[1] > _QUICK:
                    break
        whole, per_character = self._trainings[kind]
        texts = self._plan.tables[cell.parents[0]].column("text").to_pylist()
        characters = sum(map(len, texts)) * float(cell.specs["settings"].get("epochs") or 1)
        pace.learn(cell.kind, cell.specs, whole + per_character * characters)

    def _train(self, cell: Cell, examples: int, epochs: int) -> tuple[float, float] | None:
        """Trains a stand-in for the model on few examples: (seconds besides training, per character and epoch)."""
        specs = {**cell.specs, "settings": {**cell.specs["settings"], "epochs": epochs}}
        few = Cell(cell.kind, specs, cell.parents, cell.runner)
        tried = self._make(few, examples)
        folder = self._context.folder_path(few.name)
        report = record.read(folder / record.NAME)
        if tried.table is None or report is None:
            return None
        seconds = float(report["seconds"])
        stand_in = self._context.folder_path(cell.name)
        with suppress(OSError):
            stand_in.symlink_to(folder.name)
        self._tried[cell.name, _MORE] = self._tried[cell.name, _FIRST] = tried
        texts = self._sample(cell.parents[0], examples).column("text").to_pylist()
        return max(0.0, tried.seconds - seconds), seconds / max(1, sum(map(len, texts)) * epochs)

    def _carry_out(self, cell: Cell) -> tuple[_Tried, int]:
        """Runs a cell on two examples, and on more if that was quick; also returns the number of examples."""
        tried = self._make(cell, _FIRST)
        if tried.table is None or tried.seconds > _QUICK:
            return tried, _FIRST
        return self._make(cell, _MORE), _MORE

    def _make(self, cell: Cell, count: int) -> _Tried:
        """Runs a cell on this number of examples."""
        if (cell.name, count) not in self._tried:
            parents = [self._table(parent, count) for parent in cell.parents]
            tried = _Tried(0.0)
            if None not in parents and cell.runner and not self._plan.probes.get(cell.kind):
                reply = carry_out(Task(cell, [to_bytes(parent) for parent in parents]), self._context)
                table = None if reply.error else from_bytes(reply.table)
                self.problem = self.problem or reply.error
                tried = _Tried(reply.seconds, reply.forward + reply.backward, table)
            self._tried[cell.name, count] = tried
        return self._tried[cell.name, count]

    def _table(self, name: str, count: int) -> pa.Table | None:
        if name in self._plan.tables:
            return self._sample(name, count)
        if (name, count) in self._tried:
            return self._tried[name, count].table
        cell = self._cell(name)
        if cell.kind in _TRAININGS:
            self._train(cell, *_TRAINED_ON[0])
            return self._tried[name, count].table if (name, count) in self._tried else None
        return self._make(cell, count).table

    def _sample(self, name: str, count: int) -> pa.Table:
        """A sample of this size, spread evenly over the lengths of the texts."""
        table = self._plan.tables[name]
        if "text" not in table.column_names or table.num_rows <= count:
            return table
        order = (
            sorted(range(table.num_rows), key=lambda row: (len(texts[row]), row))
            if (texts := table.column("text").to_pylist())
            else []
        )
        places = sorted(order[(2 * part + 1) * table.num_rows // (2 * count)] for part in range(count))
        return table.take(places)

    def _cell(self, name: str) -> Cell:
        return self._made_up.get(name) or self._plan.cells[name]

    def _explanation_of(self, cell: Cell) -> Cell:
        return cell if cell.kind == ExplanationSpec.kind else self._cell(cell.parents[0])

    def _rows(self, cell: Cell) -> int:
        """The number of examples of a cell."""
        rows = int(self._plan.tables[self._explanation_of(cell).parents[0]].num_rows)
        return min(rows, cell.specs.get("first") or rows)

    def _counts(self, cell: Cell) -> list[int]:
        """The number of units of texts of the cell's data."""
        data = self._explanation_of(cell).parents[0]
        units = cell.specs["units"]
        table = self._sample(data, _LOOKED_AT)
        return self._context.once(("lengths", data, units), lambda: lengths(cell.specs, table))

    def _work(self, cell: Cell, rows: int) -> float:
        """The passes for a sample of this size, plus one for each example."""
        counts = lengths(cell.specs, self._sample(self._explanation_of(cell).parents[0], rows))
        return float(sum(1 + passes_of(cell.specs, count) for count in counts))

    def _explained_by(self, explainer: str, explanation: Cell) -> Cell:
        """The same explanation cell with another explainer."""
        full = catalog.spec(catalog.build("explainers", explainer), full=True)
        specs = {**explanation.specs, "explainer": explainer, "explainer_full": full}
        for name in ("explainer_code", "explainer_files"):
            specs.pop(name, None)
        cell = Cell(explanation.kind, specs, explanation.parents, explanation.runner)
        self._made_up[cell.name] = cell
        return cell

    def _on_random(self, cell: Cell) -> Cell:
        """The same metric on random scores, which costs about as much, if its explanations take too long."""
        if cell.kind == ExplanationSpec.kind:
            return cell
        explanation = self._cell(cell.parents[0])
        found = None if is_own(cell.specs) else methods(cell.specs["explainer_full"], None)
        if found is None or all(found[0].passes(count) <= _MOST for count in self._counts(cell)):
            return cell
        return Cell(
            cell.kind, cell.specs, (self._explained_by("random", explanation).name, *cell.parents[1:]), cell.runner
        )


def _place(cell: Cell) -> tuple[Any, Any]:
    return cell.specs.get("model"), cell.specs.get("data")
