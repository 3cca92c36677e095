"""A line that shows how far a training is, its loss and its last score."""

from __future__ import annotations

from rich import progress

from troth.core.progress import Bar


class Progress(Bar):
    """On standard error, so that what a command prints can be piped on."""

    def __init__(self, steps: int, done: int, *, shown: bool) -> None:
        super().__init__(
            progress.TextColumn("epoch {task.fields[epoch]}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("loss {task.fields[loss]}  {task.fields[score]}"),
            progress.TimeRemainingColumn(),
            shown=shown,
        )
        self._task = self.add_task("", total=steps, completed=done, epoch="", loss="", score="")

    def step(self, epoch: int, epochs: int, loss: float) -> None:
        """One more step is done."""
        self.update(self._task, advance=1, epoch=f"{epoch}/{epochs}", loss=f"{loss:.4f}")

    def end_epoch(self, metric: str, score: float, best_epoch: int) -> None:
        """Shows the epoch's score."""
        self.update(self._task, score=f"{metric} {100 * score:.1f} % (best: epoch {best_epoch})")
