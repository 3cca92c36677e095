"""Benches in which no explainer is better than random: what depends on what, and how often a verdict names one."""

import unicodedata
from functools import partial

import numpy as np

from troth.core.types import Example, Score
from troth.data import Data, load_data
from troth.report.board import leaderboards
from troth.store.cells import Cell
from troth.store.specs import DataSpec
from troth.store.store import Store
from troth.store.tables import EXPLANATIONS, examples_to_table, scores_to_table

SETTING = {
    "model": "m", "model_fingerprint": "f", "units": "word", "target": "predicted", "segments": "first",
    "masking": "mask_token",
}  # fmt: skip
METRICS = {"comprehensiveness": "comprehensiveness(ratio=0.2)", "sufficiency": "sufficiency(ratio=0.2)"}


def board_of(folder, examples, scores):
    """The leaderboard of a run with these scores: explainer -> metric -> a number per example."""
    store, data = Store(folder), Data("d", examples)
    store.note(seeds=[0])
    source = {"data": data.name, "split": None, "data_fingerprint": data.fingerprint}
    parent = DataSpec(**source).cell()
    store.write(parent, examples_to_table(examples))
    ids = [example.id for example in examples]
    rows = [{"example_id": name, "truncated": 0} for name in ids]
    for explainer, by_metric in scores.items():
        specs = {**SETTING, **source, "explainer": explainer, "seed": 0}
        explanation = Cell("explanation", specs, (parent.name,))
        store.write(explanation, EXPLANATIONS.empty_table().from_pylist(rows, schema=EXPLANATIONS))
        for metric, numbers in by_metric.items():
            of_metric = {**specs, "metric": metric, "metric_full": METRICS[metric]}
            cell = Cell("metric", of_metric, (explanation.name, parent.name))
            store.write(cell, scores_to_table(ids, [Score(float(number)) for number in numbers]))
    store.refresh()
    (board,) = leaderboards(store)
    return board


def keyed(generator, keys, explainers=("random", "mine", "other"), within=0.0):
    """Scores that are random by key, alike for every explainer; `within` is what examples of one key differ by."""
    names = list(dict.fromkeys(keys))
    scores = {}
    for explainer in explainers:
        scores[explainer] = {}
        for metric in METRICS:
            by_key = dict(zip(names, generator.beta(0.4, 1.2, size=len(names)), strict=True))
            noise = within * generator.normal(size=len(keys))
            scores[explainer][metric] = np.array([by_key[key] for key in keys]) + noise
    return scores


REVIEWS = [example.text for example in load_data("reviews")]
WORDS = sorted({word for text in REVIEWS for word in text.split()})


def disguised(generator, text):
    """The same text with other blanks, case, punctuation or Unicode forms."""
    wide = "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() and letter.isascii() else letter for letter in text)
    return str(
        generator.choice([
            text + " " * int(generator.integers(1, 9)), text.upper(), text.rstrip(".!?") + "!!", wide, f"\t{text}\n",
            text.replace(" ", "  "), text.replace(",", ""), unicodedata.normalize("NFD", text), f"“{text}”",
        ])
    )  # fmt: skip


def changed(generator, text):
    """The same text with one word replaced, added or dropped."""
    words = text.split()
    place, kind = int(generator.integers(len(words))), int(generator.integers(3))
    words[place : place + (kind != 1)] = [str(generator.choice(WORDS))] if kind != 2 else []
    return " ".join(words)


def unchanged(generator, text):
    return text


def copies(generator, texts, change, times=20):
    """So many texts of ten words or more, each so many times as `change` leaves it, and the number of its text."""
    chosen = generator.choice([text for text in REVIEWS if len(text.split()) >= 10], size=texts, replace=False)
    keys = np.repeat(np.arange(texts), times)
    return [Example(str(place), change(generator, str(chosen[key]))) for place, key in enumerate(keys)], keys.tolist()


def sentences(generator, documents, most=18):
    """Up to so many sentences of each document, all different, and the number of the document."""
    sizes = generator.integers(1, most + 1, size=documents)
    keys = np.repeat(np.arange(documents), sizes)
    texts = generator.choice(REVIEWS, size=len(keys), replace=False)
    examples = [
        Example(str(place), str(text), group=f"document {key}")
        for place, (text, key) in enumerate(zip(texts, keys, strict=True))
    ]
    return examples, keys.tolist()


# name -> examples and what their scores are keyed by; how much examples of one key differ
NULLS = {
    **{f"{n} texts × 20 ids": (partial(copies, texts=n, change=unchanged), 0.0) for n in (5, 12, 20)},
    **{f"{n} texts × 20, disguised": (partial(copies, texts=n, change=disguised), 0.0) for n in (5, 12, 20)},
    **{f"{n} texts × 20, one word changed": (partial(copies, texts=n, change=changed), 0.02) for n in (5, 12, 20)},
    **{f"sentences of {n} documents": (partial(sentences, documents=n), 0.05) for n in (5, 8, 10, 12, 20)},
    "40 different texts": (partial(copies, texts=40, change=unchanged, times=1), 0.0),
}  # fmt: skip


def null_board(name, seed, folder):
    """The leaderboard of one bench of this kind."""
    generator = np.random.default_rng([seed, *name.encode()])
    make, within = NULLS[name]
    examples, keys = make(generator)
    return board_of(folder / f"{seed}", examples, keyed(generator, keys, within=within))
