"""Bars on standard error, where somebody watches: a terminal or a notebook. What a command prints can be piped on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from rich import progress

from troth.core.terminal import Console

T = TypeVar("T")

_SOON = 1.0  # seconds; what is done by then needs no bar
_shown = ContextVar("_shown", default=True)


@contextmanager
def hidden() -> Iterator[None]:
    """No bars in this block: a run shows its own, and many processes share one terminal."""
    before = _shown.set(False)
    try:
        yield
    finally:
        _shown.reset(before)


class Bar(progress.Progress):
    """A bar that vanishes when it is done; none where nobody watches."""

    def __init__(self, *columns: progress.ProgressColumn, shown: bool = True) -> None:
        super().__init__(*columns, console=Console(stderr=True), transient=True, disable=not (shown and watched()))
        if self.console.is_jupyter:
            from troth.core.notebook_bar import NotebookLive

            self.live = NotebookLive(self)

    def update(self, *args: Any, **options: Any) -> None:
        super().update(*args, **options)
        self._show()

    def advance(self, *args: Any, **options: Any) -> None:
        super().advance(*args, **options)
        self._show()

    def _show(self) -> None:
        """A terminal has a thread that does so; in a notebook only what comes from the main one is in its place."""
        if self.console.is_jupyter:
            self.refresh()


def watched() -> bool:
    """Whether anybody would see a bar."""
    console = Console(stderr=True)
    return (console.is_terminal or console.is_jupyter) and _shown.get()


def track(items: Iterable[T], total: int, title: str, *, shown: bool) -> Iterator[T]:
    """The items, with a bar of how many have come and the time left, if that takes longer than a moment."""
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    line = Bar(*columns, shown=shown)
    task, begun = line.add_task(title, total=total), time.monotonic()
    try:
        for item in items:
            line.advance(task)
            if not line.live.is_started and time.monotonic() - begun > _SOON:
                line.start()
            yield item
    finally:
        line.stop()
