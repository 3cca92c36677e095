"""Carries out a plan file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from troth.commands import _options, _sweeping
from troth.core import terminal


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
    from troth.store.store import Store
    from troth.sweep.context import Context
    from troth.sweep.plan_file import PlanFile
    from troth.sweep.run import run

    written = PlanFile.read(plan)
    _options.quieten()
    store = Store(out or written.out)
    part = _shard(shard)
    context = Context(store.folder)
    planned = written.plan(context)
    if dry_run:
        _sweeping.say_estimate(planned, store, workers, context, retry, as_json)
        return
    with _sweeping.shown(not as_json) as progress:
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
    from troth.core.errors import TrothError

    if text is None:
        return None
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit()):
        raise TrothError(f"--shard is NUMBER/COUNT, such as 3/16, not {text!r}")
    return int(number), int(count)


def _say_outcome(outcome: Any, folder: Path, as_json: bool) -> None:
    if as_json:
        _options.print_json(
            {
                "run": str(folder), "complete": outcome.complete, "computed": outcome.computed, "found": outcome.stored,
                "failed": [_failure(one) for one in outcome.failed],
                "blocked": len(outcome.blocked), "left": outcome.left, "interrupted": outcome.interrupted,
                "seconds": round(outcome.seconds, 2), "notes": list(outcome.notes),
            }
        )  # fmt: skip
        return
    for note in outcome.notes:
        terminal.echo(note, err=True)
    took = _sweeping.duration(outcome.seconds)
    terminal.echo(
        f"{folder}: {outcome.computed:,} cells computed in {took}, {outcome.stored:,} were there"
        + (f", {len(outcome.failed):,} failed" if outcome.failed else "")
        + (f", {len(outcome.blocked):,} could not be made because of that" if outcome.blocked else "")
        + (f", {outcome.left:,} are left" if outcome.left else "")
    )
    for one in outcome.failed[:10]:
        terminal.echo(f"  failed: {_called(one)}: {one.error}", err=True)
    if outcome.failed:
        terminal.echo("run it again with --retry to try failed cells once more", err=True)
    if outcome.interrupted:
        terminal.echo("stopped; run the same command again to go on", err=True)


def _failure(cell: Any) -> dict[str, Any]:
    return {"cell": cell.name, "kind": cell.kind, "specs": dict(cell.specs), "error": cell.error}


def _called(cell: Any) -> str:
    names = [str(cell.specs[key]) for key in ("model", "data", "explainer", "metric", "seed") if key in cell.specs]
    return " · ".join(names) or f"{cell.kind} {cell.name}"
