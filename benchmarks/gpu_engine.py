"""Times two versions of troth in turns on the same GPU: a random model of BERT-base size and made-up texts.

    python benchmarks/gpu_engine.py OTHER/src                  # an NVIDIA GPU, bfloat16; about a minute
    python benchmarks/gpu_engine.py OTHER/src --device cpu --size tiny --dtype float32 --texts 64

`OTHER/src` is the source folder of the version to compare with, for example `git worktree add ../other v0.2.0`. Each
version is loaded in a process of its own, and only one of them works at a time. Every method is timed `--turns` times
per version, alternately; the table shows the best time in milliseconds per text, the rows read per text and the ratio
of the times. `--out` (by default the folder $OUT, if it is set) receives gpu_engine.json, and profiles of the methods
that are slower than `--limit`.
"""

import argparse
import cProfile
import gc
import io
import json
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_speed import SIZES, make_model, make_texts, make_tokenizer, measured

SOURCE = Path(__file__).resolve().parents[1] / "src"
# Tokens per text, method, share of the texts, and runs per turn: more of those that take only milliseconds.
WORKS = [
    (26, "gradient", 1, 5),
    (26, "leave_one_out", 1, 3),
    (26, "ig_20", 1, 2),
    (26, "aopc", 1, 5),
    (26, "recursive", 1, 1),
    (26, "beam_10", 8, 1),
    (128, "gradient", 1, 3),
    (128, "leave_one_out", 4, 1),
    (128, "ig_20", 2, 1),
    (128, "aopc", 2, 2),
]


def work_on(given: argparse.Namespace) -> None:
    """What a worker does: answers each request, a line of JSON, with the times of its runs."""
    import torch

    import troth

    if given.device == "cpu":
        torch.set_num_threads(1)
    network = make_model(given.size, given.device, given.dtype)
    model = troth.load_model(network, tokenizer=make_tokenizer())
    works: dict[tuple[int, str], Any] = {}

    def replied(tokens: int, method: str, share: int, runs: int, profile: bool) -> dict[str, Any]:
        if (tokens, method) not in works:
            texts = make_texts(max(8, given.texts // share), tokens - 2)
            works[tokens, method] = (*measured(method, model, texts), len(texts))
            works[tokens, method][0]()  # memory is allocated and kernels are chosen in the first run
        work, rows, count = works[tokens, method]
        if profile:
            recorder, text = cProfile.Profile(), io.StringIO()
            recorder.runcall(work)
            for order in ("tottime", "cumulative"):
                pstats.Stats(recorder, stream=text).sort_stats(order).print_stats(40)
            return {"profile": text.getvalue()}
        times = []
        for _ in range(runs):
            gc.collect()
            begun = time.perf_counter()
            work()
            times.append(1000 * (time.perf_counter() - begun) / count)
        return {"ms": [round(each, 4) for each in times], "rows": round(rows(), 1), "texts": count}

    print(json.dumps({"ready": troth.__file__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(replied(*json.loads(line))), flush=True)


class Worker:
    """One version of troth in a process of its own."""

    def __init__(self, source: Path, options: list[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source)}
        command = [sys.executable, __file__, str(source), "--worker", *options]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.source = source

    def reply(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"the worker of {self.source} ended with {self._process.wait()}")
        return json.loads(line)

    def ask(self, *request: Any) -> dict[str, Any]:
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self.reply()

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def compared(old: Worker, new: Worker, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One result per method: the times of both versions, turn by turn."""
    for tokens, method, share, runs in WORKS:
        if tokens not in given.tokens:
            continue
        turns: dict[str, list[list[float]]] = {"old": [], "new": []}
        result: dict[str, Any] = {"tokens": tokens, "method": method}
        for _ in range(given.turns):
            for name, worker in (("old", old), ("new", new)):
                reply = worker.ask(tokens, method, share, runs, False)
                turns[name].append(reply["ms"])
                result |= {f"{name}_rows": reply["rows"], "texts": reply["texts"]}
        best = {name: min(map(min, times)) for name, times in turns.items()}
        yield result | {
            "old_ms": best["old"], "new_ms": best["new"], "ratio": round(best["new"] / best["old"], 3), "turns": turns,
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="source folder of the version to compare with")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--tokens", default="26,128", help="lengths of the texts, comma-separated")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1.1, help="profile the methods with a larger ratio")
    parser.add_argument("--out", type=Path, default=os.environ.get("OUT"))
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.tokens = [int(each) for each in given.tokens.split(",")]
    if given.worker:
        work_on(given)
        return
    begun = time.perf_counter()
    options = ["--device", given.device, "--dtype", given.dtype, "--size", given.size, "--texts", str(given.texts)]
    old, new = (Worker(source.resolve(), options) for source in (given.other, SOURCE))  # both start at the same time
    for worker in (old, new):
        if not Path(worker.reply()["ready"]).is_relative_to(worker.source):
            sys.exit(f"{worker.source} has no package troth")
    print(f"both loaded after {time.perf_counter() - begun:.0f} s", flush=True)
    print(f"{'tokens':>6}  {'method':14} {'old ms':>9} {'new ms':>9} {'ratio':>6}   rows per text", flush=True)
    results = []
    for result in compared(old, new, given):
        results.append(result)
        numbers = f"{result['old_ms']:9.4f} {result['new_ms']:9.4f} {result['ratio']:6.2f}"
        rows = f"{result['old_rows']} {result['new_rows']}"
        print(f"{result['tokens']:6}  {result['method']:14} {numbers}   {rows}", flush=True)
        if given.out:
            (given.out / "gpu_engine.json").write_text(json.dumps(results, indent=1))
    for result in results:
        if given.out and result["ratio"] > given.limit and result["tokens"] == min(given.tokens):
            for name, worker in (("old", old), ("new", new)):
                profile = worker.ask(result["tokens"], result["method"], 1, 1, True)["profile"]
                (given.out / f"{result['method']}_{name}.txt").write_text(profile)
    for worker in (old, new):
        worker.end()
    print(f"{time.perf_counter() - begun:.0f} s in all")


if __name__ == "__main__":
    main()
