"""kill -9 again and again: the one driver of all tests that end a run before it is done."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

PATIENCE = 600.0  # seconds for one run
# Processes are forked from one that has loaded all and done nothing, so that a start takes no time.
_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(
    ["torch", "transformers", "troth.cli", "troth.sweep.bench", "troth.studies", "accelerate"]
)


def begun(function: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """A function in a process of its own, which leads a group."""
    process = _server.Process(target=_lead, args=(function, arguments))
    process.start()
    return process


def _lead(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    import torch

    os.setpgid(0, 0)
    torch.set_num_threads(1)
    function(*arguments)


def command(arguments: list[str], folder: Path) -> None:
    """troth's command line in a folder; what it prints goes to the files out and err there."""
    from troth import cli

    os.chdir(folder)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = ["troth", *arguments]
    cli.main()


def kill(process: BaseProcess) -> bool:
    """Kills a process and all it started; whether it was still at work."""
    process.join(0)
    alive = process.exitcode is None
    assert process.pid is not None
    for end in (os.killpg, os.kill):  # the second where it leads no group yet
        with contextlib.suppress(ProcessLookupError):
            end(process.pid, signal.SIGKILL)
    process.join()
    return alive


def survives(start: Callable[[], BaseProcess], folder: Path, result: Callable[[], Any], kills: int) -> None:
    """Kills a run so often in the midst of its work, always a random bit further on, and lets it finish.

    The result must be that of the same run left alone; so must it whenever one was faster than its kill.
    """
    whole = changes(process := start(), folder)
    assert finish(process) == 0
    right, chance, done = result(), random.Random(kills), 0
    shutil.rmtree(folder)
    while done < kills:
        process = start()
        changes(process, folder, chance.randint(1, max(2, 2 * whole // (kills + 1))))
        time.sleep(chance.random() * 0.02)
        if kill(process):
            done += 1
        else:
            assert process.exitcode == 0
            assert result() == right
            shutil.rmtree(folder)
    assert finish(start()) == 0
    assert result() == right


def finish(process: BaseProcess) -> int | None:
    """Waits for a process that nobody disturbs."""
    process.join(PATIENCE)
    return process.exitcode


def changes(process: BaseProcess, folder: Path, most: int = 1 << 30) -> int:
    """How often a process changed the files of a folder, until it ends or has done so `most` times."""
    count, before, until = 0, _state(folder), time.monotonic() + PATIENCE
    while count < most and process.exitcode is None and time.monotonic() < until:
        time.sleep(0.003)
        after = _state(folder)
        count += after != before
        before = after
    return count


def _state(folder: Path) -> dict[str, int]:
    found = {}
    for place, folders, files in os.walk(folder):  # what goes meanwhile is passed over
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                found[f"{place}/{name}"] = os.lstat(f"{place}/{name}").st_mtime_ns
    return found
