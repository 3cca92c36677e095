"""Counts the modules of troth in which functions run while a command does its work: how far a reader has to walk.

    python scripts/measure/walks.py                  # explain, bench, study and serve, each in its own process
    python scripts/measure/walks.py explain --list   # with the functions of each module

Code that runs while a module is imported does not count. PYTHONPATH selects the version of troth that is counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

TEXTS = "text,label\na wonderful film,positive\na dull and awful film,negative\nthe cast is good,positive\n"


def explain(folder: Path) -> None:
    _run("explain", "a wonderful film", "-e", "leave_one_out")


def bench(folder: Path) -> None:
    (folder / "texts.csv").write_text(TEXTS)
    options = ["-e", "leave_one_out", "-e", "gradient", "--metrics", "comprehensiveness", "--workers", "1"]
    _run("bench", "--model", "embedded", "--data", str(folder / "texts.csv"), *options, "--out", str(folder / "run"))


def study(folder: Path) -> None:
    options = ["--only", "synthetic", "--limit", "8", "--workers", "1", "--out", str(folder / "run")]
    _run("study", "roar(epochs=1)", *options)


def serve(folder: Path) -> None:
    from starlette.testclient import TestClient

    from troth.models import load_model
    from troth.serve.app import build
    from troth.serve.runs import Runs

    app = build({"embedded": load_model("embedded")}, Runs(folder), port=8765)
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        asked = {"text": "a wonderful film", "model": "embedded", "explainers": ["leave_one_out"]}
        reply = client.post("/api/explain", json=asked, headers={"Origin": "http://127.0.0.1:8765"})
        assert reply.status_code == 200, reply.text


COMMANDS: dict[str, Callable[[Path], None]] = {work.__name__: work for work in (explain, bench, study, serve)}


def _run(*arguments: str) -> None:
    from typer.testing import CliRunner

    from troth.cli import app

    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, (result.output, result.exception)


class Walk:
    """The functions of troth that ran, by module; a profile function for `sys.setprofile`."""

    def __init__(self) -> None:
        self.functions: defaultdict[str, set[str]] = defaultdict(set)
        self._importing: Counter[int] = Counter()  # by thread

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event not in ("call", "return") or module.partition(".")[0] != "troth":
            return
        if frame.f_code.co_name == "<module>":
            self._importing[threading.get_ident()] += 1 if event == "call" else -1
        elif event == "call" and not self._importing[threading.get_ident()]:
            self.functions[module].add(frame.f_code.co_qualname)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("command", nargs="?", choices=list(COMMANDS), help="by default all of them")
    options.add_argument("--list", action="store_true", help="list the functions of each module")
    given = options.parse_args()
    if given.command is None:
        for command in COMMANDS:
            subprocess.run([sys.executable, __file__, command, *["--list"] * given.list], check=False)
        return
    walk = Walk()
    with tempfile.TemporaryDirectory() as folder:
        threading.setprofile(walk)
        sys.setprofile(walk)
        try:
            COMMANDS[given.command](Path(folder))
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    rooms = Counter([*module.split("."), ""][1] for module in walk.functions)
    by_room = ", ".join(f"{room or 'troth'} {count}" for room, count in sorted(rooms.items()))
    print(f"{given.command}: {len(walk.functions)} modules ({by_room})")
    for module in sorted(walk.functions) if given.list else ():
        print(f"    {module}: {', '.join(sorted(walk.functions[module]))}")


if __name__ == "__main__":
    main()
