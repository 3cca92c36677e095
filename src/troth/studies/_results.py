"""What a store holds of the cells of a study that trains models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import torch

from troth.core.errors import TrothError
from troth.core.types import Score
from troth.statistics import Floats
from troth.store.cells import Cell, Plan
from troth.store.store import Store
from troth.store.tables import table_to_scores
from troth.training.quality import quality


class Results:
    """What a store holds of a plan's cells; a cell that failed has no rows, which is not an error."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def table(self, cell: Cell) -> pa.Table | None:
        """A cell's rows."""
        return self.store.table(cell.name) if self.store.has(cell.name) else None

    def rows(self, cell: Cell) -> list[dict[str, Any]]:
        """The same as dictionaries."""
        table = self.table(cell)
        return [] if table is None else table.to_pylist()

    def scores(self, cell: Cell) -> list[Score]:
        """A metric's, one per example."""
        table = self.table(cell)
        return [] if table is None else table_to_scores(table)

    def values(self, cell: Cell) -> Floats:
        """A metric's values; NaN where one is undefined."""
        return np.array([score.value for score in self.scores(cell)], np.float64)

    def predicted(self, cell: Cell, split: str = "test") -> tuple[Any, Any]:
        """Labels and predictions of a trained model."""
        rows = [row for row in self.rows(cell) if row["split"] == split]
        return np.array([row["label"] for row in rows]), np.array([row["predicted"] for row in rows])

    def quality(self, cell: Cell, metric: Any = "macro_f1", split: str = "test") -> float:
        """How well a trained model does."""
        rows = [row for row in self.rows(cell) if row["split"] == split]
        if not rows:
            return float("nan")
        logits = torch.tensor([row["probabilities"] for row in rows]).clamp(min=1e-12).log()
        return quality(metric, logits, torch.tensor([row["label"] for row in rows]))

    def troubles(self, plan: Plan) -> str:
        """What failed and why, each error once; where no model could be trained, that is for the user to fix."""
        failures = [self.store.failure(name) for name in plan.cells if not self.store.has(name)]
        errors: dict[tuple[str, str], dict[str, None]] = {}  # (kind, why) -> methods
        for failure in failures:
            if failure is not None:
                methods = filter(None, (failure.specs.get("explainer"), failure.specs.get("metric")))
                errors.setdefault((failure.kind, failure.error), {})[" × ".join(methods)] = None
        words = [
            f"{kind} failed{f' ({named})' if (named := ', '.join(filter(None, methods))) else ''}: {why}"
            for (kind, why), methods in errors.items()
        ]
        trainings = list(plan.of("training"))
        if errors and trainings and not any(self.store.has(cell.name) for cell in trainings):
            raise TrothError(words[0])
        return "; ".join(words)
