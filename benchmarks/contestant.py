"""One contestant: a process that does what it is sent, a JSON line each way.

    python benchmarks/contestant.py captum

It runs in the contestant's own environment, so nothing but torch and transformers is taken for granted. Everyone
scores the tokens of the text (not the special ones) for the class the model predicts.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
import time
import warnings
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")


def memory(field: str) -> float:
    """VmRSS (now) or VmHWM (the most since it was last set back), in MB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))


def settle() -> None:
    """Gives free memory back to the system and sets the high-water mark back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as references:
        references.write("5")


def do(contestant: Any, job: dict[str, Any]) -> dict[str, Any]:
    try:
        timed = contestant.prepare(**job)
        settle()
        before, start = memory("VmRSS"), time.process_time()
        scores = timed()
        cpu = time.process_time() - start
        return {"cpu": cpu, "memory": memory("VmHWM") - before, **contestant.reply(scores)}
    except Exception as error:  # the others go on without this entry
        return {"error": _line(error)}


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def main() -> None:
    library = sys.argv[1]
    replies, sys.stdout = sys.stdout, sys.stderr  # what a library prints is not an answer
    warnings.filterwarnings("ignore")

    def answer(reply: dict[str, Any]) -> None:
        replies.write(json.dumps(reply) + "\n")
        replies.flush()

    try:
        import torch

        torch.set_num_threads(1)
        contestant = importlib.import_module(f"contestants.{library}").Contestant()
    except Exception as error:  # as it stands, this library does not run here
        answer({"error": _line(error)})
        return
    answer({"ready": library})
    for line in sys.stdin:
        answer(do(contestant, json.loads(line)))


if __name__ == "__main__":
    main()
