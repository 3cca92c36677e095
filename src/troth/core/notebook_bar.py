"""A progress bar in a notebook: the browser's own, in the colors of the theme; rich's would need ipywidgets."""

from __future__ import annotations

import html
import time
from importlib import import_module
from typing import Any

from rich.live import Live
from rich.progress import BarColumn, Progress, Task
from rich.text import Text

_PAUSE = 0.2  # seconds between two pictures: every one is sent to the browser


class NotebookLive(Live):
    """Stands in for the part of rich's bars that writes to the screen."""

    def __init__(self, bar: Progress) -> None:
        super().__init__(console=bar.console, auto_refresh=False)
        self._bar = bar
        self._picture: Any = None
        self._last = 0.0

    def start(self, refresh: bool = False) -> None:
        if not self._started:
            self._started, self._last = True, time.monotonic()
            self._picture = _notebook().display(_notebook().HTML(picture(self._bar)), display_id=True)

    def refresh(self) -> None:
        if self._picture is not None and time.monotonic() - self._last >= _PAUSE:
            self._last = time.monotonic()
            self._picture.update(_notebook().HTML(picture(self._bar)))

    def stop(self) -> None:
        """Leaves nothing behind."""
        if self._picture is not None:
            self._picture.update(_notebook().HTML(""))
        self._started, self._picture = False, None


def _notebook() -> Any:
    """IPython's way to show things; only a notebook has it."""
    return import_module("IPython.display")


def picture(bar: Progress) -> str:
    """The tasks of a bar as HTML, a line each."""
    return "".join(f"<div>{' '.join(_column(column, task) for column in bar.columns)}</div>" for task in bar.tasks)


def _column(column: Any, task: Task) -> str:
    if isinstance(column, BarColumn):
        known = (
            f' value="{task.completed:g}" max="{task.total:g}"' if task.total else ""
        )  # unknown: it moves on its own
        return f'<progress{known} style="width:16em;max-width:40%" aria-label="progress"></progress>'
    shown = column if isinstance(column, str) else column(task)
    return html.escape(shown.plain if isinstance(shown, Text) else str(shown))
