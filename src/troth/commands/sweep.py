"""Carries out a plan file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from troth.commands import _options


def sweep(
    plan: Annotated[Path, typer.Argument(help="A TOML file: models, data, explainers, metrics, seeds.")],
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default the plan's own, or runs/PLAN.")] = None,
    engine: Annotated[str, typer.Option(help="local (processes) or ray.")] = "local",
    workers: Annotated[int | None, typer.Option(help="How many; by default one a GPU, else one a core.")] = None,
    address: Annotated[str | None, typer.Option(help="A Ray cluster: HOST:PORT, ray://HOST:PORT or auto.")] = None,
    gpus: Annotated[float | None, typer.Option(help="GPUs of each Ray worker, e.g. 0.5.")] = None,
    threads: Annotated[int, typer.Option(help="Threads of each worker.")] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Try failed cells again.")] = False,
    shard: Annotated[str | None, typer.Option(help="Which of several sweeps over one folder this is: 3/16.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done, and how long it takes.")
    ] = False,
    as_json: _options.Json = False,
) -> None:
    """Carries out a plan of models × data × explainers × metrics × seeds; run it again to go on where it stopped.

    Example: troth sweep plan.toml --engine ray --workers 8
    """
    from troth.sweep.context import Context
    from troth.sweep.plan_file import PlanFile
    from troth.sweep.run import run
    from troth.sweep.store import Store

    written = PlanFile.read(plan)
    _options.quieten()
    store = Store(out or written.out)
    part = _shard(shard)
    context = Context(store.folder)
    planned = written.plan(context)
    if dry_run:
        _say_estimate(planned, store, workers, context, retry, as_json)
        return
    with _shown(not as_json) as progress:
        outcome = run(
            planned, store, engine=engine, workers=workers, address=address, gpus=gpus, threads=threads,  # type: ignore[arg-type]  # checked there
            retry=retry, shard=part, progress=progress, context=context, command=" ".join(sys.argv),
        )  # fmt: skip
    _say_outcome(outcome, store.folder, as_json)
    if outcome.interrupted:
        raise SystemExit(130)
    if outcome.failed:
        raise SystemExit(1)


def _shard(text: str | None) -> tuple[int, int] | None:
    from troth.errors import TrothError

    if text is None:
        return None
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit()):
        raise TrothError(f"--shard is NUMBER/COUNT, such as 3/16, not {text!r}")
    return int(number), int(count)


def _say_estimate(plan: Any, store: Any, workers: int | None, context: Any, retry: bool, as_json: bool) -> None:
    from troth.sweep.crews import cores, gpus
    from troth.sweep.estimate import estimate

    count = workers or len(gpus()) or cores()
    found = estimate(plan, store, workers=count, context=context, retry=retry)
    if as_json:
        _options.print_json(
            {
                "cells": dict(found.cells), "finished": found.finished, "failed": found.failed, "to_do": found.to_do,
                "seconds": found.seconds, "workers": count, "probed": found.probed,
            }
        )  # fmt: skip
        return
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in found.cells.items())
    typer.echo(f"{sum(found.cells.values()):,} cells ({kinds}) into {store.folder}")
    typer.echo(f"{found.finished:,} finished, {found.failed:,} failed before, {found.to_do:,} to do")
    took = "unknown" if found.seconds is None else f"about {duration(found.seconds)} with {count} workers"
    how = f"; {found.probed} methods were tried on a few examples" if found.probed else ""
    typer.echo(f"time: {took}{how}")


def _say_outcome(outcome: Any, folder: Path, as_json: bool) -> None:
    if as_json:
        _options.print_json(
            {
                "run": str(folder), "complete": outcome.complete, "computed": outcome.computed, "found": outcome.found,
                "failed": [{"cell": one.name, "kind": one.kind, "specs": dict(one.specs), "error": one.error} for one in outcome.failed],
                "blocked": len(outcome.blocked), "left": outcome.left, "interrupted": outcome.interrupted,
                "seconds": round(outcome.seconds, 2), "notes": list(outcome.notes),
            }
        )  # fmt: skip
        return
    for note in outcome.notes:
        typer.echo(note, err=True)
    typer.echo(
        f"{folder}: {outcome.computed:,} cells computed in {duration(outcome.seconds)}, {outcome.found:,} were there"
        + (f", {len(outcome.failed):,} failed" if outcome.failed else "")
        + (f", {len(outcome.blocked):,} could not be made because of that" if outcome.blocked else "")
        + (f", {outcome.left:,} are left" if outcome.left else "")
    )
    for one in outcome.failed[:10]:
        typer.echo(f"  failed: {_called(one)}: {one.error}", err=True)
    if outcome.failed:
        typer.echo("run it again with --retry to try failed cells once more", err=True)
    if outcome.interrupted:
        typer.echo("stopped; run the same command again to go on", err=True)


def _called(cell: Any) -> str:
    names = [str(cell.specs[key]) for key in ("model", "data", "explainer", "metric", "seed") if key in cell.specs]
    return " · ".join(names) or f"{cell.kind} {cell.name}"


def duration(seconds: float) -> str:
    """A time as people say it.

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
def _shown(wanted: bool) -> Iterator[Callable[[Any], None] | None]:
    """A bar with the time left, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    if not wanted:
        yield None
        return
    columns = (
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} cells"),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(now: Any) -> None:
            left = "" if now.left is None else f"{duration(now.left)} left"
            parts = [left, f"{now.failed} failed" if now.failed else "", "stopping …" if now.stopping else ""]
            text = ", ".join(filter(None, parts))
            bar.update(task, completed=now.done, total=now.total, description=text)

        yield show
