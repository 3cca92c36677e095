"""Contestants as processes that live through the whole run and take turns, so what else the machine does hits all."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from statistics import median
from typing import Any

from inputs import make_texts
from install import python_of
from works import SIZES, Contender, Work

HERE = Path(__file__).parent
OURS = Contender("troth")
FAST = Contender("troth", "fast")
FLOOR = Contender("floor")
ONCE = ("inseq",)  # so slow that one run must do, without one to warm up
SAME = 1e-3  # scores that differ by less than this share of the largest one are the same


class Process:
    """A contestant, alive until the end; it answers in JSON lines."""

    def __init__(self, library: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent / "src")}
        self.process = subprocess.Popen(
            [str(python_of(library)), str(HERE / "contestant.py"), library],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        self.ready = self._reply()

    def run(self, **job: Any) -> dict[str, Any]:
        if "error" in self.ready:
            return self.ready
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return self._reply()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()

    def _reply(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        reply: dict[str, Any] = json.loads(line) if line else {"error": "its process ended"}
        return reply


class Contestants:
    """A process per library, begun when it is first needed."""

    def __init__(self, models: dict[str, Path]) -> None:
        self.models = models
        self.processes: dict[str, Process] = {}

    def run(self, contender: Contender, work: Work, texts: list[str]) -> dict[str, Any]:
        library = contender.library
        if not python_of(library).exists():
            return {"error": "not installed"}
        if library not in self.processes:
            self.processes[library] = Process(library)
        return self.processes[library].run(
            work=work.name, model=str(self.models[work.size]), texts=texts, setting=contender.setting,
            options=dict(work.options),
        )  # fmt: skip

    def close(self) -> None:
        for process in self.processes.values():
            process.close()


def contest(work: Work, contestants: Contestants, turns: int, seconds: float) -> dict[str, Any]:
    """Everybody in turn: at least once, then until the turns or the CPU seconds are over. Whoever fails is left out."""
    texts = make_texts(work.texts, SIZES[work.size])
    taking_part = [FLOOR, OURS, FAST, *work.peers]
    runs: dict[Contender, list[dict[str, Any]]] = {contender: [] for contender in taking_part}
    errors: dict[Contender, str] = {}

    def everybody(given: list[str], counts: bool) -> None:
        for contender in taking_part:
            if contender in errors or (contender.library in ONCE and (runs[contender] or not counts)):
                continue
            reply = contestants.run(contender, work, given)
            if "error" in reply:
                errors[contender] = reply["error"]
            elif counts:
                runs[contender].append(reply)

    everybody([" ".join(texts[0].split()[:12])], counts=False)  # what a first call costs does not count
    for turn in range(turns):
        spent = sum(run["cpu"] for contender, given in runs.items() if contender.library not in ONCE for run in given)
        if turn and spent * (turn + 1) / turn > seconds:
            break
        everybody(texts, counts=True)
    return _result(work, len(texts), runs, errors)


def _result(
    work: Work, texts: int, runs: dict[Contender, list[dict[str, Any]]], errors: dict[Contender, str]
) -> dict[str, Any]:
    ours = [] if OURS in errors else runs[OURS]
    result: dict[str, Any] = {
        "work": work.name, "size": SIZES[work.size].name, "texts": work.texts, "key": work.key,
        "options": dict(work.options), "turns": len(ours), "contenders": [],
    }  # fmt: skip
    operations = work.floor_operations()
    for contender, given in runs.items():
        row: dict[str, Any] = {"name": contender.name}
        if contender in errors or OURS in errors:
            row["error"] = errors.get(contender, "")
        elif contender == FLOOR:
            if operations is None:
                continue
            row["peak"] = median(run["peak_operations"] for run in given)
            row["ms"] = 1000 * operations / row["peak"] / texts
            row["ratio"] = median(
                run["cpu"] / (operations / least["peak_operations"]) for run, least in zip(ours, given, strict=True)
            )
        else:
            row["ms"] = 1000 * median(run["cpu"] for run in given) / texts
            row["memory"] = median(run["memory"] for run in given)
            # How many times as long they take as we do.
            row["ratio"] = median(theirs["cpu"] / run["cpu"] for run, theirs in zip(ours, given, strict=False))
            row["same"] = None if work.sampled else _difference(ours[0]["scores"], given[0]["scores"]) < SAME
        result["contenders"].append(row)
    return result


def _difference(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """The largest difference of two scores, as a share of the largest score."""
    if [len(scores) for scores in ours] != [len(scores) for scores in theirs]:
        return float("inf")
    pairs = [pair for one, other in zip(ours, theirs, strict=True) for pair in zip(one, other, strict=True)]
    return max(abs(a - b) for a, b in pairs) / (max(abs(b) for _, b in pairs) or 1)
