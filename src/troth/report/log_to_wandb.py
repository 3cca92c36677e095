"""Logs a bench to Weights & Biases: offline, unless WANDB_MODE is set otherwise."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from troth.core.extras import importing
from troth.report.logged import logged

if TYPE_CHECKING:
    from troth.report.board import Leaderboard
    from troth.sweep.bench import Bench


def log_to_wandb(board: Bench | Leaderboard) -> str:
    """Logs the same as `log_to_mlflow`, in the active run or in a new one; returns the id of the run."""
    with importing("wandb", "logging to Weights & Biases"):
        import wandb
    with logged(board) as found:
        active = wandb.run
        mode = os.environ.get("WANDB_MODE", "offline")
        run = active or wandb.init(project="troth", name=found.name, mode=mode, settings={"silent": True})
        run.config.update(dict(found.parameters), allow_val_change=True)
        run.summary.update(dict(found.numbers))
        for name, sheet in found.tables.items():
            rows = [[record[field] for field in sheet.fields] for record in sheet.records]
            run.log({f"tables/{name}": wandb.Table(columns=list(sheet.fields), data=rows, allow_mixed_types=True)})
        files = wandb.Artifact("report", type="report")
        files.add_dir(str(found.folder))
        run.log_artifact(files)
        if active is None:
            run.finish()
        return str(run.id)
