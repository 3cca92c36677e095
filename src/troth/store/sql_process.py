"""Runs one SELECT in a process of its own, which is ended after a time limit and has a memory limit.

DuckDB's own limits do not cover everything: a value of a gigabyte is not counted in `memory_limit`, and some functions
cannot be interrupted. The operating system can limit a process and can always end it.
"""

import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from troth.core.errors import TrothError
from troth.core.extras import importing
from troth.core.reading import size

_STATM = Path("/proc/self/statm")
_THREADS = 4
_SLACK = 128 << 20  # for DuckDB itself and the stacks of its threads


@dataclass(frozen=True)
class QueryLimits:
    """The limits of a query."""

    seconds: float = 60.0
    memory: int = 1 << 30  # bytes

    @property
    def answer(self) -> int:
        """The largest size of an answer in bytes; as Python objects it takes several times as much."""
        return self.memory // 4


@dataclass(frozen=True)
class Sources:
    """The data that a query can read: tables in memory, views over them, and the files of one folder."""

    folder: str
    tables: dict[str, pa.Table]
    views: Sequence[str]


def select(sources: Sources, sql: str, limits: QueryLimits, rows: int = 0) -> pa.Table:
    """Returns the answer, or its first `rows` rows. Ctrl-C ends the process and is raised as usual."""
    with importing("sql", "a query"):
        import duckdb  # noqa: F401  (before the fork, which then shares it)

    with _process(sources, sql, limits, rows) as (answers, process):
        deadline, schema, batches, taken = time.monotonic() + limits.seconds, None, list[pa.RecordBatch](), 0
        while True:
            if not answers.poll(max(0.0, deadline - time.monotonic())):
                more = f"ask for less, or allow more: --seconds {10 * limits.seconds:g}"
                raise TrothError(f"the query was stopped after {limits.seconds:g} seconds; {more}")
            try:
                kind, value = answers.recv()
            except EOFError:
                process.join()
                raise _out_of_memory(limits, f"its process ended with code {process.exitcode}") from None
            if kind == "rows":
                batches.append(value)
                taken += value.nbytes
                if taken > limits.answer:
                    raise TrothError(
                        f"the answer has more than {size(limits.answer)}, a quarter of the memory that a "
                        "query may use; "
                        f"select fewer rows, or allow more: --memory {size(4 * limits.memory, '')}"
                    )
            elif kind == "schema":
                schema = value
            elif kind == "end":
                return pa.Table.from_batches(batches, schema)
            else:
                raise _out_of_memory(limits) if kind == "memory" else TrothError(value)


@contextmanager
def _process(sources: Sources, sql: str, limits: QueryLimits, rows: int) -> Iterator[tuple[Connection, Any]]:
    # Forking a process whose libraries may have started threads works on Linux only; elsewhere a new process is
    # spawned.
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    answers, questions = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sources, sql, limits, rows, questions), daemon=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the child starts no thread before DuckDB does
            process.start()
        questions.close()
        yield answers, process
    finally:
        if process.pid is not None:
            process.kill()
            process.join()
        answers.close()


def _out_of_memory(limits: QueryLimits, how: str = "") -> TrothError:
    more = f"ask for less, or allow more: --memory {size(4 * limits.memory, '')}"
    return TrothError(f"the query needs more than {size(limits.memory)} of memory{how and f' ({how})'}; {more}")


def _work(sources: Sources, sql: str, limits: QueryLimits, rows: int, answers: Connection) -> None:
    """The main function of the child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    if hasattr(signal, "setitimer"):  # ends the process if the parent was killed
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limits.seconds + 5)
    import duckdb

    try:
        _bound_memory(limits.memory + _SLACK)
        for answer in _answers(sources, sql, limits, rows):
            answers.send(answer)
    except (duckdb.Error, pa.ArrowException, OSError, MemoryError, TrothError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        if isinstance(error, MemoryError) or lines[0].startswith("Out of Memory"):
            answers.send(("memory", ""))
        else:
            answers.send(("error", " ".join(lines[:2]) if len(lines) > 1 and "Candidate" in lines[1] else lines[0]))


def _answers(sources: Sources, sql: str, limits: QueryLimits, rows: int) -> Iterator[tuple[str, Any]]:
    import duckdb

    connection = duckdb.connect()
    for setting, value in {
        "memory_limit": f"{limits.memory}B",
        "temp_directory": "",  # no temporary files
        "threads": min(_THREADS, os.cpu_count() or 1),
        "allowed_directories": [sources.folder],
        "enable_external_access": False,
        "lock_configuration": True,
    }.items():
        connection.execute(f"set {setting} = ?", [value])
    for name, table in sources.tables.items():
        connection.register(name, table)
    for view in sources.views:
        connection.execute(view)
    kinds = [str(statement.type).rpartition(".")[2] for statement in connection.extract_statements(sql)]
    if kinds != ["SELECT"]:
        other = next((kind for kind in kinds if kind != "SELECT"), "nothing" if not kinds else "several statements")
        raise TrothError(f"a run can only be read: write one SELECT, not {other}")
    relation = connection.sql(sql)
    names = _numbered(relation.columns)
    reader = (relation.limit(rows) if rows else relation).to_arrow_reader(10_000)
    yield "schema", pa.schema([field.with_name(name) for field, name in zip(reader.schema, names, strict=True)])
    for batch in reader:
        yield "rows", batch.rename_columns(names)
    yield "end", None


def _numbered(names: Sequence[str]) -> list[str]:
    """Makes names unique: a, a, a_2 become a, a_3, a_2."""
    taken, unique = set(names), list[str]()
    for name in names:
        number, free = 2, name
        while free in unique or (free != name and free in taken):
            free, number = f"{name}_{number}", number + 1
        unique.append(free)
    return unique


def _bound_memory(more: int) -> None:
    """Limits how many bytes this process may allocate from now on; only possible on Linux."""
    if sys.platform != "linux":
        return
    import resource

    taken = resource.getpagesize() * int(_STATM.read_text().split()[5])
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = taken + more if hard == resource.RLIM_INFINITY else min(taken + more, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
