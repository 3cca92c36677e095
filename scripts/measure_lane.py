"""The fast lane against the model's own reading, on this machine: the same numbers, and in what time.

    python scripts/measure_lane.py                      # one CPU thread, BERT of 6 layers of 384
    python scripts/measure_lane.py --size base --device cuda --dtype bfloat16 --texts 1024

A random BERT of the named size; seconds are of the whole `explain`, medians over turns that readers take alternately.
"""

import argparse
import random
import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from transformers import BertConfig, BertForSequenceClassification

import troth

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import fakes

SIZES = {"small": (6, 384, 12), "base": (12, 768, 12)}


def network(size: str) -> BertForSequenceClassification:
    layers, width, heads = SIZES[size]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(fakes.wordpiece()), hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * width, num_labels=2, initializer_range=0.05,
    )  # fmt: skip
    return BertForSequenceClassification(config).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=26, help="about how many tokens a text has")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=["gradient", "integrated_gradients(steps=20)", "leave_one_out"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = network(given.size).to(given.device, getattr(torch, given.dtype))
    tokenizer = fakes.wordpiece()
    drawn = random.Random(0)
    near = range(given.tokens - 6, given.tokens + 3)
    texts = [" ".join(drawn.choices(fakes.WORDS, k=drawn.choice(near))) for _ in range(given.texts)]
    exact = troth.load_model(model, tokenizer)
    readers = {"plain": exact, "lane": exact, "fast": troth.load_model(model, tokenizer, precision="fast")}
    for method in given.methods:
        seconds: dict[str, list[float]] = {name: [] for name in readers}
        scores: dict[str, list[np.ndarray]] = {}
        for _ in range(given.turns + 1):
            for name, reader in readers.items():
                with reader.at_rest(), reader._fused.closed() if name == "plain" else nullcontext():
                    begun = time.perf_counter()
                    attributions = troth.explain(reader, texts, method, units="token", progress=False)
                    seconds[name].append(time.perf_counter() - begun)
                scores[name] = [attribution.scores for attribution in attributions]
        plain = statistics.median(seconds["plain"][1:])
        for name in readers:
            ours = statistics.median(seconds[name][1:])
            pairs = list(zip(scores[name], scores["plain"], strict=True))
            apart = max(np.abs(own - other).max() / np.abs(other).max() for own, other in pairs)
            ranks = np.mean([spearmanr(own, other).statistic for own, other in pairs])
            sys.stdout.write(
                f"{method:32} {name:6} {1000 * ours / len(texts):9.3f} ms per text, {plain / ours:5.2f} times plain, "
                f"largest difference {apart:.1e}, rank correlation {ranks:.4f}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
