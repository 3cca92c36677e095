"""Progress bars on standard error, only in a terminal or a notebook, so that the output of commands can be piped."""

import html
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, TypeVar

from rich import progress
from rich.live import Live
from rich.text import Text

from troth.core import terminal
from troth.core.terminal import Console

T = TypeVar("T")

_SOON = 1.0  # seconds; shorter tasks show no bar
EVERY = 10.0  # seconds between two lines where no bar is visible
_PAUSE = 0.2  # seconds between two updates of a notebook, each of which is sent to the browser
_shown = ContextVar("_shown", default=True)


@contextmanager
def hidden() -> Iterator[None]:
    """Hides bars in this block, because a run shows its own bar and several processes share one terminal."""
    before = _shown.set(False)
    try:
        yield
    finally:
        _shown.reset(before)


@contextmanager
def lines(wanted: bool, text: Callable[[], str]) -> Iterator[None]:
    """Prints a line to standard error every ten seconds where no bar is visible (a log, a pipe)."""
    if not wanted or not _shown.get() or watched():
        yield
        return
    done = threading.Event()

    def tell() -> None:
        while not done.wait(EVERY):
            if line := text():
                terminal.echo(line, err=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class Bar(progress.Progress):
    """A bar that disappears when it is done, and is not shown if output goes to a file or pipe."""

    def __init__(self, *columns: progress.ProgressColumn, shown: bool = True) -> None:
        super().__init__(*columns, console=Console(stderr=True), transient=True, disable=not (shown and watched()))
        if self.console.is_jupyter:
            self.live = NotebookLive(self)

    def update(self, *args: Any, **options: Any) -> None:
        super().update(*args, **options)
        self._show()

    def advance(self, *args: Any, **options: Any) -> None:
        super().advance(*args, **options)
        self._show()

    def _show(self) -> None:
        """Refreshes a notebook; in a terminal a thread does so, but notebook output must come from the main thread."""
        if self.console.is_jupyter:
            self.refresh()


def watched() -> bool:
    """Whether a bar would be visible."""
    console = Console(stderr=True)
    return (console.is_terminal or console.is_jupyter) and _shown.get()


def track(items: Iterable[T], total: int, title: str, *, shown: bool) -> Iterator[T]:
    """Yields the items with a progress bar and the time left, if they take longer than a moment."""
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    line = Bar(*columns, shown=shown)
    task, begun = line.add_task(title, total=total), time.monotonic()

    def text() -> str:
        done, passed = line.tasks[0].completed, time.monotonic() - begun
        left = f", about {duration(passed * (total - done) / done)} left" if done else ""
        return f"{title}: {done:,.0f} of {total:,} after {duration(passed)}{left}"

    # The first item may take minutes, so a timer shows the bar. In a notebook it must come from the main thread.
    starting = threading.Timer(_SOON, line.start)
    starting.daemon = True
    try:
        with lines(shown, text):
            if shown and watched() and not line.console.is_jupyter:
                starting.start()
            for item in items:
                line.advance(task)
                if not line.live.is_started and time.monotonic() - begun > _SOON:
                    line.start()
                yield item
    finally:
        starting.cancel()
        if starting.is_alive():
            starting.join()
        line.stop()


def duration(seconds: float) -> str:
    """A duration in the usual units.

    >>> duration(4.2), duration(75), duration(7500)
    ('4 s', '1 min 15 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def expected(seconds: float) -> str:
    """An expected duration.

    >>> expected(0.3), expected(75)
    ('under 1 s', 'about 1 min 15 s')
    """
    return "under 1 s" if seconds < 0.5 else f"about {duration(seconds)}"


@contextmanager
def run_bar(wanted: bool) -> Iterator[Callable[[Any], None] | None]:
    """The bar of a run with the time left; yields a function to call with its progress (`sweep.scheduler.Progress`)."""
    if not wanted:
        yield None
        return
    columns = (
        progress.BarColumn(),
        progress.TextColumn("{task.completed:.0f} of {task.total:.0f} cells (pieces of work)"),
        progress.TextColumn("{task.description}"),
    )
    begun, last = time.monotonic(), [""]  # no line before the work begins, so that an early error is printed alone

    def told() -> str:
        return last[0] and f"{last[0]} (after {duration(time.monotonic() - begun)})"

    with Bar(*columns) as line, lines(True, told):
        task = line.add_task("planning", total=0)

        def show(now: Any) -> None:
            left = "" if now.left is None else f"{duration(now.left)} left"
            parts = [left, f"{now.failed} failed" if now.failed else "", "stopping …" if now.stopping else ""]
            text = ", ".join(filter(None, parts))
            last[0] = f"{now.done:.0f} of {now.total:.0f} cells (pieces of work){text and f', {text}'}"
            line.update(task, completed=now.done, total=now.total, description=text)

        yield show


class NotebookLive(Live):
    """Replaces the part of rich's bars that writes to the screen: in a notebook, the browser draws the bar.

    It uses the colors of the theme; rich's version would need ipywidgets.
    """

    def __init__(self, bar: progress.Progress) -> None:
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
        """Removes the bar."""
        if self._picture is not None:
            self._picture.update(_notebook().HTML(""))
        self._started, self._picture = False, None


def _notebook() -> Any:
    """IPython's display module, which exists only in notebooks."""
    return import_module("IPython.display")


def picture(bar: progress.Progress) -> str:
    """The tasks of a bar as HTML, one line each."""
    return "".join(f"<div>{' '.join(_column(column, task) for column in bar.columns)}</div>" for task in bar.tasks)


def _column(column: Any, task: progress.Task) -> str:
    if isinstance(column, progress.BarColumn):
        known = (
            f' value="{task.completed:g}" max="{task.total:g}"' if task.total else ""
        )  # without a total, the bar is animated
        return f'<progress{known} style="width:16em;max-width:40%" aria-label="progress"></progress>'
    shown = column if isinstance(column, str) else column(task)
    return html.escape(shown.plain if isinstance(shown, Text) else str(shown))
