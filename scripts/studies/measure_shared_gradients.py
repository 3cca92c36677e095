"""Do gradients that are shared between repeated tokens explain the slow flips that SaLoss published?

    python scripts/studies/measure_shared_gradients.py shared.csv --models runs/study-saloss/files/* --data sst
    python scripts/studies/measure_shared_gradients.py shared.csv --models embedded --data reviews --examples 200

The authors' released code takes gradients of the rows of the embedding matrix, so a token's gradient is the sum over
every place where it stands, in all texts of a mini-batch of 8. The word vector is the same in all these places, so a
shared score is the sum of the signed scores there. It also divides integrated gradients by their signed sum, which
turns their order round where the sum is negative. Flips of one or several models (seeds), tokens replaced by padding as
in that code: gradients of each place alone, shared within a text, and within a mini-batch.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from troth.core.types import Attribution, Example
from troth.data import load_data
from troth.engine.prober import Prober
from troth.models import load_model
from troth.studies.saloss._experiment import FLIPS, METHODS
from troth.sweep.runners import over_sum
from troth.verbs.explain import explain_each
from troth.verbs.measure import measure_each

SHARED = {"each place": 0, "text": 1, "mini-batch": 8}  # texts that share a token's gradient
GRADIENTS = ("input_x_gradient", "integrated_gradients")  # of word vectors
DIVIDED = ("attention_x_gradient", "integrated_gradients")  # by their signed sum


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--models", nargs="+", required=True, help="folders, one per seed")
    options.add_argument("--data", default="sst")
    options.add_argument("--examples", type=int, default=0, help="of the test set; 0: all")
    given = options.parse_args()
    data = load_data(given.data, "test")
    data = data.limit(given.examples, seed=0) if given.examples else data
    rows = [
        {"data": given.data, "seed": seed, **row}
        for seed, model in enumerate(given.models)
        for row in flips(Prober(load_model(model)), data.examples)
    ]
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    means = defaultdict(list)
    for row in rows:
        means[row["attribution"], row["shared"], row["over_sum"]].append(row["value"])
    for key, values in means.items():
        print(*key, f"{np.nanmean(values):.3f}")


def flips(prober: Prober, examples: Sequence[Example]) -> Iterator[dict[str, Any]]:
    """The share of tokens padded before a prediction flips, by example."""
    for method, (explainer, magnitude) in METHODS.items():
        alone = list(explain_each(prober, examples, explainer, units="token"))
        for name, size in SHARED.items() if method in GRADIENTS else (("each place", 0),):
            attributions = shared(alone, size) if size else alone
            for divided in (False, True) if method in DIVIDED else (False,):
                ranked = [_ranked(one, magnitude, divided) for one in attributions]
                about = {"attribution": method, "shared": name, "over_sum": divided}
                for one, score in zip(ranked, measure_each(prober, ranked, FLIPS["released"]), strict=True):
                    yield {**about, "example_id": one.example.id, "value": round(score.value, 4)}


def shared(attributions: Sequence[Attribution], size: int) -> list[Attribution]:
    """Every token's score is the sum over all places where that token stands in `size` texts."""
    found = []
    for start in range(0, len(attributions), size):
        batch = attributions[start : start + size]
        ids = [_ids(one) for one in batch]
        totals: dict[int, float] = defaultdict(float)
        for one, tokens in zip(batch, ids, strict=True):
            for token, score in zip(tokens, one.scores, strict=True):
                totals[token] += float(score)
        found += [
            replace(one, scores=np.array([totals[token] for token in tokens], np.float32))
            for one, tokens in zip(batch, ids, strict=True)
        ]
    return found


def _ids(attribution: Attribution) -> list[int]:
    """The token of each unit."""
    encoding = attribution.question.encoding
    first = [(encoding.units == unit).nonzero()[0, 0] for unit in range(encoding.n_units)]
    return [int(encoding.ids[place]) for place in first]


def _ranked(attribution: Attribution, magnitude: bool, divided: bool) -> Attribution:
    return attribution.magnitude() if magnitude else over_sum(attribution) if divided else attribution


if __name__ == "__main__":
    main()
