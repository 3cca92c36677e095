"""Prompted and continuation models on one device: seconds per text, what sharing saves, and whether scores agree.

python scripts/measure/continuation.py --device cuda [--model FOLDER] [--dtype float32]

Without a folder it is a random Llama of SmolLM2-135M's shape. 400 tokens of prompt, 30 of text, 40 of continuation.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from prefix import random_model, words

import troth

EXPLAINERS = ("leave_one_out", "integrated_gradients(steps=20, baseline=mask)", "input_x_gradient", "lime(samples=200)")
METRICS = ("aopc_comprehensiveness", "recursive_erasure(step=0.25)")


def timed(device: str, work: Any) -> tuple[float, Any]:
    """Seconds, and the result: of a second run, when everything is warm."""
    for _ in range(2):
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        begun = time.perf_counter()
        found = work()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        seconds = time.perf_counter() - begun
    return seconds, found


def forget(model: Any) -> None:
    model._prefixes, model._trunks = type(model._prefixes)(), type(model._trunks)()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--model")
    parser.add_argument("--texts", type=int, default=4)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.model:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(options.model)
        network = AutoModelForCausalLM.from_pretrained(options.model, dtype=getattr(torch, options.dtype)).eval()
    else:
        network, tokenizer = random_model()
        network = network.to(getattr(torch, options.dtype))
    network = network.to(options.device)
    prompt, text = f"{words(tokenizer, 398)} {{text}} is", words(tokenizer, 30)
    texts = [f"{text}{' a' * number}" for number in range(options.texts)]
    asked: dict[str, dict[str, Any]] = {
        "one-token words": {"prompt": prompt, "class_words": ["good", "bad"]},
        "longer words": {"prompt": prompt, "class_words": ["good film", "bad film", "the book"]},
        "continuation": {"prompt": prompt, "continuation": words(tokenizer, 40)},
        "generate=40": {"prompt": prompt, "generate": 40},
    }
    print(f"{options.device} {options.dtype} torch {torch.__version__}, {options.texts} texts; milliseconds per text")
    for name, kind in asked.items():
        model: Any = troth.load_model(network, tokenizer, chat=False, **kind)
        if "generate" in kind:
            seconds, encodings = timed(options.device, lambda model=model: model.encode([troth.Example("0", text)]))
            print(f"{name:16} writing {1000 * seconds:.1f} ({len(encodings[0].written)} tokens)")
        for explainer in EXPLAINERS:

            def explain(model: Any = model, explainer: str = explainer) -> Any:
                forget(model)
                return troth.explain(model, texts, explainer, units="token", progress=False)

            seconds, found = timed(options.device, explain)
            line = f"{name:16} {explainer.partition('(')[0]:22} {1000 * seconds / len(texts):9.1f}"
            if explainer == "leave_one_out":
                model.shares_prefix = False
                apart, others = timed(options.device, explain)
                model.shares_prefix = True
                gap = max(float(np.abs(a.scores - b.scores).max()) for a, b in zip(found, others, strict=True))
                size = max(float(np.abs(b.scores).max()) for b in others)
                line += f"   without sharing {1000 * apart / len(texts):9.1f} ({apart / seconds:.1f} x), "
                line += f"largest difference {gap:.2g} of scores up to {size:.2g}"
                for metric in METRICS:
                    spent, scores = timed(
                        options.device,
                        lambda metric=metric, found=found, model=model: troth.measure(
                            model, found, metric, explainer="leave_one_out"
                        ),
                    )
                    mean = float(np.mean([score.value for score in scores]))
                    line += (
                        f"\n{name:16} {metric.partition('(')[0]:22} {1000 * spent / len(texts):9.1f}   mean {mean:.4g}"
                    )
            print(line, flush=True)
        if "continuation" in kind or "generate" in kind:
            seconds, found = timed(
                options.device,
                lambda model=model: troth.explain(
                    model, texts, "leave_one_out", units="token", target="each", progress=False
                ),
            )
            print(f"{name:16} {'leave_one_out, each':22} {1000 * seconds / len(texts):9.1f}   {len(found)} rows")
    if options.device.startswith("cuda"):
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
