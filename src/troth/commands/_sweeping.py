"""What commands that carry out a plan share: the bar with the time left, and the estimate of a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from troth.commands import _options
from troth.core import terminal


def print_estimate(plan: Any, store: Any, workers: int | None, context: Any, retry: bool, as_json: bool) -> None:
    from troth.sweep.estimate import estimate
    from troth.sweep.machine import cores, gpus

    count = workers or len(gpus()) or cores()
    expected = estimate(plan, store, workers=count, context=context, retry=retry)
    if as_json:
        _options.print_json(
            {
                "cells": dict(expected.cells), "finished": expected.finished, "failed": expected.failed,
                "to_do": expected.to_do, "seconds": expected.seconds, "workers": count, "probed": expected.probed,
                **{name: plan.about[name] for name in ("trainings", "fits") if name in plan.about},
            }
        )  # fmt: skip
        return
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in expected.cells.items())
    terminal.echo(f"{sum(expected.cells.values()):,} cells ({kinds}) into {store.folder}")
    if "trainings" in plan.about:
        terminal.echo(f"{plan.about['trainings']:,} trainings, side by side in {expected.cells['training']:,} cells")
    if "fits" in plan.about:
        fits = plan.about["fits"]
        passes = f"{fits['forward']:,} passes of the explained model and {fits['backward']:,} back through it"
        terminal.echo(f"attribution models: {fits['trainings']:,} trainings (trials included), {passes}")
    terminal.echo(f"{expected.finished:,} finished, {expected.failed:,} failed before, {expected.to_do:,} to do")
    took = "unknown" if expected.seconds is None else f"about {duration(expected.seconds)} with {count} workers"
    how = f"; {expected.probed} methods were tried on a few examples" if expected.probed else ""
    terminal.echo(f"time: {took}{how}")


def duration(seconds: float) -> str:
    """A time in the usual units.

    >>> duration(4.2), duration(75), duration(7500)
    ('4 s', '1 min 15 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@contextmanager
def shown(wanted: bool) -> Iterator[Callable[[Any], None] | None]:
    """A bar with the time left, on standard error."""
    from rich.progress import BarColumn, Progress, TextColumn

    from troth.core.terminal import Console

    if not wanted:
        yield None
        return
    columns = (
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} cells"),
        TextColumn("{task.description}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("planning", total=0)

        def show(now: Any) -> None:
            left = "" if now.left is None else f"{duration(now.left)} left"
            parts = [left, f"{now.failed} failed" if now.failed else "", "stopping …" if now.stopping else ""]
            text = ", ".join(filter(None, parts))
            bar.update(task, completed=now.done, total=now.total, description=text)

        yield show
