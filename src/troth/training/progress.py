"""A line that shows how far a training is, its loss and its last score."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich import progress

from troth.core.progress import bar


class Progress:
    """On standard error, so that what a command prints can be piped on."""

    def __init__(self, steps: int, done: int, *, shown: bool) -> None:
        columns = (
            progress.TextColumn("epoch {task.fields[epoch]}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("loss {task.fields[loss]}  {task.fields[score]}"),
            progress.TimeRemainingColumn(),
        )
        self._bar = bar(*columns, shown=shown)
        self._task = self._bar.add_task("", total=steps, completed=done, epoch="", loss="", score="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def advance(self, epoch: int, epochs: int, loss: float) -> None:
        """One more step."""
        self._bar.update(self._task, advance=1, epoch=f"{epoch}/{epochs}", loss=f"{loss:.4f}")

    def say(self, metric: str, score: float, best_epoch: int) -> None:
        """The score of the epoch that ended."""
        self._bar.update(self._task, score=f"{metric} {100 * score:.1f} % (best: epoch {best_epoch})")
