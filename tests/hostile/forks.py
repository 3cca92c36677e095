"""The command line in a forked child: troth is imported once, then each call takes milliseconds and shares nothing.

forks.py reads one JSON line per child from standard input and answers with one: what each call did.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0  # seconds for one child


@dataclass(frozen=True)
class Said:
    """What a call did."""

    code: int
    out: str
    err: str
    written: list[str]  # what was not there before
    seconds: float  # of the processor, for all calls of the child
    megabytes: int  # the most memory that the child, or a child of its own, had


class Forks:
    """A process that forks a child for each call."""

    def __init__(self, **environment: str) -> None:
        variables = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}:{ROOT / 'tests' / 'support'}", **environment}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, cwd=ROOT
        )

    def __call__(self, *arguments: str, room: Path | None = None, **settings: Any) -> Said:
        """One call in a copy of the folder `room`."""
        (said,) = self.several([arguments], room=room, **settings)
        return said

    def several(self, calls: Iterable[Sequence[str]], *, room: Path | None = None, **settings: Any) -> list[Said]:
        """Calls in one child, one after another: a fork takes longer than refusing an option."""
        encoded = [[os.fsencode(argument).hex() for argument in arguments] for arguments in calls]
        given = {"calls": encoded, "room": room and str(room), **settings}
        self._process.stdin.write(json.dumps(given).encode() + b"\n")
        self._process.stdin.flush()
        return [Said(**answer) for answer in json.loads(self._process.stdout.readline())]

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=10)


def serve() -> None:
    warm()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin.buffer:
        answers.write(json.dumps(call(json.loads(line))).encode() + b"\n")
        answers.flush()
    os._exit(0)  # taking the libraries down takes seconds


def warm() -> None:
    """Does once what every child would do again: imports, the parser's tables, those that transformers builds."""
    import duckdb  # noqa: F401
    import torch
    import typer.main

    import troth
    from troth import cli
    from troth.commands import _options

    torch.set_num_threads(1)  # a pool of threads would not survive a fork
    for module in pkgutil.walk_packages(troth.__path__, "troth."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    _options.quieten()
    cli.app = typer.main.get_command(cli.app)  # built once, called alike
    for wrong in (["bench", "--limit", "x"], ["check", "--step", "x"], ["report"]):
        with contextlib.suppress(Exception):
            cli.app(wrong, standalone_mode=False)
    examples = troth.load_data("reviews", limit=1)
    troth.explain(troth.load_model("embedded"), examples, "leave_one_out")
    gc.collect()
    gc.freeze()  # a child that collects would copy every page


def call(given: dict[str, Any]) -> list[dict[str, Any]]:
    place = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        room = place / "room"
        if given["room"]:
            shutil.copytree(given["room"], room, symlinks=True)
        else:
            room.mkdir()
        child = os.fork()
        if child == 0:
            live(given, place, room)
        status, used = wait(child)
        usage = {"seconds": used.ru_utime + used.ru_stime, "megabytes": used.ru_maxrss >> 10}
        answers = place / "answers"
        lines = answers.read_text().splitlines() if answers.exists() else []
        finished = [json.loads(line) for line in lines]
        died = [{"code": status, "out": "", "err": "the child died", "written": []}]
        return [{**answer, **usage} for answer in finished + died * (len(given["calls"]) - len(finished))]
    finally:
        shutil.rmtree(place, ignore_errors=True)


def live(given: dict[str, Any], place: Path, room: Path) -> None:
    """The life of the child; it never returns."""
    import torch

    try:
        # A fork leaves torch's pool of threads to be made again; two loading threads at once would both try.
        torch.set_num_threads(1)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        before = tree(room)
        with open(place / "answers", "w") as answers:
            for arguments in given["calls"]:
                code = command([os.fsdecode(bytes.fromhex(one)) for one in arguments], given, place, room)
                texts = [(place / name).read_bytes().decode(errors="surrogateescape") for name in ("out", "err")]
                written = [path.encode(errors="replace").decode() for path in sorted(tree(room) - before)]
                answer = {"code": code, "out": texts[0], "err": texts[1], "written": written}
                answers.write(json.dumps(answer) + "\n")
    finally:
        os._exit(99)


def command(arguments: list[str], given: dict[str, Any], place: Path, room: Path) -> int:
    code = 99
    try:
        os.chdir(room)
        for number, name in ((1, "out"), (2, "err")):
            target = os.devnull if given.get("stdout") == "null" and number == 1 else str(place / name)
            (place / name).write_bytes(b"")
            if number == 1 and given.get("stdout") == "full":
                target = "/dev/full"
            opened = os.open(target, os.O_WRONLY)
            os.dup2(opened, number)
            os.close(opened)
        (place / "in").write_text(given.get("stdin", ""))
        os.dup2(os.open(given.get("stdin_from") or place / "in", os.O_RDONLY), 0)
        encoding = given.get("encoding", "utf-8")
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
        if given.get("stdout") == "closed":
            sys.stdout = None
            os.close(1)
        sys.argv = ["troth", *arguments]
        from troth import cli

        try:
            cli.main()
        except SystemExit as left:
            code = left.code or 0
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and given.get("stdout") not in ("full",):
                stream.flush()
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode(errors="replace"))
    return code


def wait(child: int) -> tuple[int, resource.struct_rusage]:
    """The child's exit code, 98 for one that had to be ended, and what it used."""
    pidfd = os.pidfd_open(child)
    try:
        late = not select.select([pidfd], [], [], PATIENCE)[0]
        if late:
            os.killpg(child, signal.SIGKILL)
        _, status, used = os.wait4(child, 0)
        return 98 if late else os.waitstatus_to_exitcode(status), used
    finally:
        os.close(pidfd)
        time.sleep(0)


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


if __name__ == "__main__":
    serve()
