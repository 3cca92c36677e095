"""Masked fine-tuning of the distilled base on SST-2, and its plainly fine-tuned twin; `--recipe` chooses.

The best epoch is chosen on a twentieth of the training data; SST-2's validation set is only scored at the end.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from troth.training.train import train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", default="masked")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=None)
    options = parser.parse_args()
    trained = train(
        options.recipe, "sst2", str(options.base), options.out, hold_out=0.05, tests=["validation"], max_length=128,
        limit=options.limit, epochs=options.epochs, batch_size=options.batch_size, learning_rate=options.learning_rate,
        seed=options.seed,
    )  # fmt: skip
    print(json.dumps(trained.scores))


if __name__ == "__main__":
    main()
