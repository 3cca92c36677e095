"""How much faster several seeds are side by side than one by one, and whether they come to the same.

    python scripts/measure/stacked.py --copies 10
    python scripts/measure/stacked.py --copies 10 --base "scratch(layers=2, hidden=64, dropout=0.0)"

Both ways train the same seeds on the same stories with the same mini-batches, in float32 without TF32, after a short
warm-up; the largest difference of any logit on the validation stories is said beside the times.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from troth.data import load_data
from troth.models.encoder import Encoder
from troth.training import bases
from troth.training.fit import fit, fit_stacked
from troth.training.loop import TrainingCopy
from troth.training.settings import Settings, settings
from troth.training.train import corpus_of

RECIPE = "masked"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--base", default="bilstm_attention(embedding=300, hidden=128)")
    options.add_argument("--data", default="babi", help="a data set of pairs or single texts; babi needs no files")
    options.add_argument("--copies", type=int, default=10)
    options.add_argument("--limit", type=int, default=2000, help="training examples")
    options.add_argument("--epochs", type=int, default=1)
    options.add_argument("--batch-size", type=int, default=32)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = options.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False

    data = f"babi(size={given.limit})" if given.data == "babi" else given.data
    training = load_data(data, split="train", limit=given.limit)
    validation = load_data(data, split="validation", limit=500)
    start = bases.build(given.base)
    chosen = settings(
        epochs=given.epochs, batch_size=given.batch_size, learning_rate=1e-3, schedule="constant", warmup=0.0,
        optimizer="adam", amsgrad=True, weight_decay=1e-5, precision="no", best_by="last", deterministic=False,
    )  # fmt: skip

    def models() -> list[Encoder]:
        return [start.build(training.examples, training.labels, seed, None) for seed in range(given.copies)]

    def one_by_one(encoders: list[Encoder], these: Settings, count: int) -> float:
        data = [corpus_of(encoders[0], part[:count]) for part in (training, validation)]
        started = now(given.device)
        for seed, model in enumerate(encoders):
            seeded = settings(**{**vars(these), "seed": seed})
            fit(model, RECIPE, data[0], data[1], seeded, cpu=given.device == "cpu")
        return now(given.device) - started

    def side_by_side(encoders: list[Encoder], these: Settings, count: int) -> float:
        data = [corpus_of(encoders[0], part[:count]) for part in (training, validation)]
        started = now(given.device)
        copies = [TrainingCopy(model, data[0], data[1], seed) for seed, model in enumerate(encoders)]
        fit_stacked(copies, RECIPE, these, device=given.device)
        return now(given.device) - started

    for warm_up in (one_by_one, side_by_side):
        warm_up(models()[:2], chosen, 2 * given.batch_size)
    apart, together = models(), models()
    slow, fast = one_by_one(apart, chosen, given.limit), side_by_side(together, chosen, given.limit)
    difference = max(largest_difference(one, other, validation) for one, other in zip(apart, together, strict=True))
    steps = -(-len(training) // given.batch_size) * given.epochs
    sys.stdout.write(
        f"{given.base} on {given.data}, {given.copies} seeds, {steps} steps each, {given.device}\n"
        f"one by one    {slow:8.2f} s\n"
        f"side by side  {fast:8.2f} s    {slow / fast:.1f} times as fast\n"
        f"largest difference of a logit {difference:.1e}\n"
    )


def now(device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


@torch.no_grad()
def largest_difference(one: Encoder, other: Encoder, examples: object) -> float:
    corpus = corpus_of(one, examples).to(one.device)
    index = torch.arange(len(corpus))
    rows = corpus.rows(index, torch.zeros(len(corpus), dtype=torch.int64), one)
    return float((one.forward(rows).logits - other.forward(rows).logits).abs().max())


if __name__ == "__main__":
    main()
