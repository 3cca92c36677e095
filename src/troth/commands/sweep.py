"""Runs a plan file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from troth.commands import _options, _sweeping
from troth.core import terminal
from troth.core.errors import TrothError


def sweep(
    plan: Annotated[Path, "A TOML file: models, data, explainers, metrics, seeds."],
    out: Annotated[Path | None, "The run's folder; by default the plan's own, or runs/PLAN."] = None,
    engine: Annotated[str, "What runs the cells (pieces of work): local processes, or ray."] = "local",
    workers: _options.Workers = None,
    address: Annotated[str | None, "A Ray cluster: HOST:PORT, ray://HOST:PORT or auto."] = None,
    gpus: Annotated[float | None, "GPUs of each Ray worker, e.g. 0.5."] = None,
    threads: Annotated[int, "Threads of each worker."] = 1,
    retry: _options.Retry = False,
    shard: Annotated[str | None, "Compute one shard of the plan, such as 3/16."] = None,
    dry_run: _options.DryRun = False,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Runs a plan: models × data × explainers × metrics × seeds. Run it again and it resumes.

    Example: troth sweep plan.toml --engine ray --workers 8
    """
    from troth.store.store import Store
    from troth.sweep.context import Context
    from troth.sweep.estimate import Estimator
    from troth.sweep.plan_file import PlanFile
    from troth.sweep.run import run

    written = PlanFile.read(plan)
    _options.quieten()
    store = Store(out or written.out)
    part = _shard(shard)
    context = Context(store.folder)
    planned = written.plan(context)
    if dry_run:
        _sweeping.print_estimate(planned, store.folder, Estimator(store, context), workers, retry, as_json)
        return
    with _sweeping.run_bar(not as_json) as progress:
        outcome = run(
            planned, store, engine=engine, workers=workers, address=address, gpus=gpus, threads=threads,  # type: ignore[arg-type]  # checked there
            retry=retry, shard=part, progress=progress, context=context, command=" ".join(sys.argv),
        )  # fmt: skip
    _print_outcome(outcome, store.folder, as_json)
    if not as_json:
        store.refresh()
        _sweeping.print_boards(store, planned)
    if outcome.interrupted:
        raise SystemExit(130)
    if outcome.failed:
        raise SystemExit(1)


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit()):
        raise TrothError(f"--shard must be NUMBER/COUNT, such as 3/16, not {text!r}")
    return int(number), int(count)


def _print_outcome(outcome: Any, folder: Path, as_json: bool) -> None:
    if as_json:
        _options.print_json(
            {
                "run": str(folder), "complete": outcome.complete, "computed": outcome.computed, "found": outcome.stored,
                "failed": [
                    {"cell": cell.name, "kind": cell.kind, "specs": dict(cell.specs), "error": cell.error}
                    for cell in outcome.failed
                ],
                "blocked": len(outcome.blocked), "left": outcome.left, "interrupted": outcome.interrupted,
                "seconds": round(outcome.seconds, 2), "notes": list(outcome.notes),
            }
        )  # fmt: skip
        return
    for note in outcome.notes:
        terminal.echo(note, err=True)
    took = _sweeping.duration(outcome.seconds)
    terminal.echo(
        f"{folder}: cells (pieces of work) computed: {outcome.computed:,} in {took}, already stored: {outcome.stored:,}"
        + (f", failed: {len(outcome.failed):,}" if outcome.failed else "")
        + (f", not computed because of that: {len(outcome.blocked):,}" if outcome.blocked else "")
        + (f", left: {outcome.left:,}" if outcome.left else "")
    )
    for cell in outcome.failed[:10]:
        names = [str(cell.specs[key]) for key in ("model", "data", "explainer", "metric", "seed") if key in cell.specs]
        terminal.echo(f"  failed: {' · '.join(names) or f'{cell.kind} {cell.name}'}: {cell.error}", err=True)
    if outcome.failed:
        terminal.echo("run it again with --retry to try the failed cells again", err=True)
    if outcome.interrupted:
        terminal.echo("stopped; run the same command again to resume", err=True)
