"""Executes a plan: stored cells and recorded errors are kept, and the rest is computed here or on a cluster."""

import math
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal
from uuid import uuid4

from troth.core import arguments
from troth.core.errors import TrothError, unknown
from troth.core.files import CannotWriteError, remedy
from troth.store.cells import Plan
from troth.store.specs import ModelSpec
from troth.store.store import Store
from troth.sweep import machine
from troth.sweep.context import Context
from troth.sweep.graph import Shard
from troth.sweep.ray_pool import ray_pool
from troth.sweep.scheduler import Outcome as Outcome
from troth.sweep.scheduler import Progress as Progress
from troth.sweep.scheduler import Scheduler
from troth.sweep.workers import Pool, Processes, ThisProcess

Engine = Literal["local", "ray"]

COMPACT_EVERY = 1_000  # newly stored cells
_MOST_WORKERS, _MOST_THREADS = 10_000, 1_024


def run(
    plan: Plan,
    store: Store,
    *,
    engine: Engine = "local",
    workers: int | None = 1,
    address: str | None = None,
    gpus: float | None = None,
    threads: int = 1,
    retry: bool = False,
    shard: Shard | None = None,
    progress: Callable[[Progress], None] | None = None,
    context: Context | None = None,
    command: str = "",
    compact_every: int = COMPACT_EVERY,
) -> Outcome:
    """Computes what the store does not have yet. A failed cell never stops the others, and Ctrl-C keeps finished cells.

    One worker runs in this process; several run in processes with `threads` threads each (None: one per GPU, or else
    one per core). With engine "ray", they are actors with `gpus` GPUs each, on this machine or on the cluster at
    `address`. `command` is recorded in run.json.
    """
    check_options(engine, workers, address, gpus, threads, shard)
    context = context or Context()
    context.store = store.folder.absolute()
    begun = time.monotonic()
    session = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "host": socket.gethostname(), "engine": engine,
        "command": command,
    }  # fmt: skip
    key = f"{session['started']} {uuid4().hex[:8]}"
    try:
        repaired = store.repair()
        store.note(
            versions=machine.versions(), hardware={socket.gethostname(): machine.hardware()}, planned=len(plan),
            sessions={key: session}, **plan.about,
        )  # fmt: skip
        scheduler = Scheduler(plan, store, retry, shard, progress, begun, repaired)
        if scheduler.graph.open:
            count = min(workers or len(machine.gpus()) or machine.cores(), scheduler.graph.open)
            pool: Pool
            if engine == "local" and count == 1:
                pool = ThisProcess(context, threads)
            else:
                _require_loadable(plan, context)
                context.forget()
                places = (str(context.store), str(context.home), threads, tuple(context.trusted))
                pool = Processes(count, *places) if engine == "local" else ray_pool(workers, address, gpus, *places)
            scheduler.carry_out(pool, compact_every)
        store.compact()
        outcome = scheduler.outcome()
        facts = {"computed": outcome.computed, "failed": len(outcome.failed), "seconds": round(outcome.seconds, 1)}
        store.note(sessions={key: {**session, **facts, "interrupted": outcome.interrupted}})
    except CannotWriteError as error:
        way_out = f"{remedy(error)} and run the same command again"
        raise CannotWriteError(f"{error}; finished cells are safe: {way_out}") from None
    finally:
        with suppress(OSError):
            store.claims.close()
    return outcome


def check_options(
    engine: str, workers: int | None, address: str | None, gpus: float | None, threads: int, shard: Shard | None
) -> None:
    """Raises an error for invalid options, before any work."""
    if engine not in ("local", "ray"):
        raise unknown("engine", engine, ["local", "ray"])
    if workers is not None:
        arguments.of_kind("workers", workers, int, "a whole number")
    if workers is not None and not 1 <= workers <= _MOST_WORKERS:
        raise TrothError(f"workers must be 1 to {_MOST_WORKERS:,}, not {workers}")
    if not 1 <= threads <= _MOST_THREADS:
        raise TrothError(f"threads must be 1 to {_MOST_THREADS:,}, not {threads}")
    if gpus is not None and not 0 <= gpus < math.inf:
        raise TrothError(f"gpus must be 0 or more, such as 0.5, not {gpus}")
    for option, value in (("address", address), ("gpus", gpus)):
        if value is not None and engine != "ray":
            raise TrothError(f"{option} needs the engine ray; add --engine ray, or leave --{option} {value} out")
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise TrothError(
            f"shard {shard[0]}/{shard[1]} does not exist; with four shards, the first is 1/4 and the last is 4/4"
        )


def _require_loadable(plan: Plan, context: Context) -> None:
    """Raises an error if the plan has a model or a method that other processes cannot load."""
    for cell in plan.cells.values():
        if tuple(cell.specs.get(f"explainer_{part}") for part in ("full", "code", "files")) in context.methods:
            raise TrothError(
                f"the method {cell.specs['explainer']} is in memory, where other processes cannot read it; put it into "
                "a file and name it (my_file.py:Name), or use 1 worker"
            )
        if (cell.specs.get("metric_full"), cell.specs.get("metric_code")) in context.metrics:
            raise TrothError(
                f"the metric {cell.specs['metric']} is in memory, where other processes cannot read it; put it into a "
                "file and name it (my_file.py:Name), or use 1 worker"
            )
        model = context.in_memory.get(ModelSpec.of(cell).key) if "model" in cell.specs else None
        if model is not None:
            raise TrothError(
                f"model {model.name} is in memory, where other processes cannot read it; save it, or use 1 worker"
            )
