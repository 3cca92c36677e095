"""How busy a whole `troth bench` keeps a GPU: a random model of BERT-base size and made-up texts, nvidia-smi all along.

    python benchmarks/gpu_bench.py                        # an NVIDIA GPU; about a minute
    python benchmarks/gpu_bench.py --device cpu --size tiny --texts 20

One JSON line: the seconds of the whole command (from its start, imports and loading included), the mean utilization
over all of them, from the first work on and until the last, and second by second. The line is always printed: a command
that takes longer than --seconds, or whose watcher is told to end, is killed with all its processes, and `rc` is
negative. Nothing is downloaded.
"""

import argparse
import csv
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from gpu_speed import SIZES, emit, make_model, make_texts, make_tokenizer

EXPLAINERS = "gradient,leave_one_out,integrated_gradients(steps=50),kernel_shap(samples=300)"
METRICS = "aopc_comprehensiveness,aopc_sufficiency"
POLLS = 4  # a second
QUERY = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--dtype", help="bfloat16 on a GPU, float32 on a CPU unless said")
    parser.add_argument("--explainers", default=EXPLAINERS)
    parser.add_argument("--metrics", default=METRICS)
    parser.add_argument("--seconds", type=float, default=180, help="ends the command then; the line says so (rc < 0)")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, told_to_end)
    given.dtype = given.dtype or ("bfloat16" if given.device == "cuda" else "float32")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_model(given.size, "cpu", given.dtype).save_pretrained(place / "model")
        make_tokenizer().save_pretrained(place / "model")
        with (place / "texts.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "label"])
            rows.writerows([text, number % 2] for number, text in enumerate(make_texts(given.texts, given.tokens - 2)))
        command = [
            sys.executable, "-m", "troth", "bench", "--model", str(place / "model"), "--data", str(place / "texts.csv"),
            "--limit", "0", "--explainers", given.explainers, "--metrics", given.metrics, "--out", str(place / "run"),
        ]  # fmt: skip
        watched(command, given)


def watched(command: list[str], given: argparse.Namespace) -> None:
    """Runs the command and says how long it took and how busy the GPU was."""
    seen: list[float] = []
    begun = time.perf_counter()
    working = subprocess.Popen(command, stdout=sys.stderr, stderr=subprocess.STDOUT, start_new_session=True)
    poll = None
    if given.device == "cuda":
        every = str(1000 // POLLS)
        poll = subprocess.Popen([*QUERY, "-lms", every], stdout=subprocess.PIPE, text=True)
        threading.Thread(target=lambda: seen.extend(map(float, filter(str.strip, poll.stdout))), daemon=True).start()
    try:
        working.wait(given.seconds)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        killed(working)
    taken = time.perf_counter() - begun
    if poll is not None:
        poll.kill()
    emit(
        method="bench", dtype=given.dtype, texts=given.texts, tokens=given.tokens, explainers=given.explainers,
        metrics=given.metrics,
        rc=working.returncode, seconds=round(taken, 1), samples=len(seen), **busy(seen),
    )  # fmt: skip


def told_to_end(*_: object) -> None:
    raise KeyboardInterrupt


def killed(working: subprocess.Popen, patience: float = 3) -> None:
    """Asks the command to end, then ends it and all processes it has begun."""
    working.terminate()
    try:
        working.wait(patience)
    except subprocess.TimeoutExpired:
        os.killpg(working.pid, signal.SIGKILL)
        working.wait()


def busy(seen: list[float]) -> dict[str, float | list[int] | None]:
    """Percent: over all of the run, from the first work on, from there to the last, and second by second."""
    if not seen:
        return {"busy": None}
    at_work = [place for place, value in enumerate(seen) if value > 0]
    first, last = (at_work[0], at_work[-1] + 1) if at_work else (0, len(seen))
    means = {"busy": seen, "busy_once_begun": seen[first:], "busy_at_work": seen[first:last]}
    course = [round(statistics.mean(seen[start : start + POLLS])) for start in range(0, len(seen), POLLS)]
    return {**{name: round(statistics.mean(part), 1) for name, part in means.items()}, "course": course}


if __name__ == "__main__":
    main()
