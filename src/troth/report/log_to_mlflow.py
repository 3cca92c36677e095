"""Logs a bench to MLflow, in the active run or in a new one."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from troth.core.extras import importing
from troth.report.logged import logged

if TYPE_CHECKING:
    from troth.report.board import Leaderboard
    from troth.sweep.bench import Bench


def log_to_mlflow(board: Bench | Leaderboard) -> str:
    """Logs parameters, values with their intervals, tables, report.html and figures; returns the id of the run."""
    with importing("mlflow", "logging to MLflow"):
        import mlflow
    with logged(board) as found:
        active = mlflow.active_run()
        with nullcontext(active) if active is not None else mlflow.start_run(run_name=found.name) as run:
            mlflow.log_params(found.parameters)
            mlflow.log_metrics(found.numbers)
            for name, sheet in found.tables.items():
                columns = {field: [record[field] for record in sheet.records] for field in sheet.fields}
                mlflow.log_table(columns, f"tables/{name}.json")
            mlflow.log_artifacts(str(found.folder))
            return str(run.info.run_id)
