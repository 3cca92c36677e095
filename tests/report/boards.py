"""Leaderboards for tests: of plain numbers, and of a run that is stored without asking a model."""

import numpy as np
from tests.test_seeds import curve_score, run, store_scores

from troth.metrics import Summary
from troth.report.board import Leaderboard
from troth.validity.stamp import Stamp

SUFFICIENCIES = ("sufficiency(ratio=0.1)", "sufficiency(ratio=0.5)")


def board(values, directions, letters=None, beats=None, **options):
    """Explainer -> a number for each metric; intervals are 0.05 to both sides."""
    metrics = tuple(directions)
    summaries = {
        (explainer, metric): Summary(number, number - 0.05, number + 0.05, 9)
        for explainer, numbers in values.items()
        for metric, number in zip(metrics, numbers, strict=True)
    }
    costs = dict.fromkeys(values, 0.012)
    return Leaderboard(
        options.pop("model", "m"), options.pop("data", "d"), 9, tuple(values), metrics, directions, summaries, {},
        letters or {}, beats or {}, costs, costs, {}, None, **options,
    )  # fmt: skip


def many(metrics=6, explainers=5):
    """As wide as a usual bench, with every sign there is."""
    names = ["random", *(f"explainer_number_{number}(steps={number})" for number in range(1, explainers))]
    heads = {f"aopc_comprehensiveness_{number}(ratio=0.{number})": number % 2 == 0 for number in range(metrics)}
    values = {name: [0.1 * row + 0.01 * column for column in range(metrics)] for row, name in enumerate(names)}
    letters = {head: {name: "abcde"[row] + "f" for row, name in enumerate(names)} for head in heads}
    beats = {(name, head): row > 2 for row, name in enumerate(names) if row for head in heads}
    why = "this run checked inputs erased by mask_token only"
    stamps = {head: Stamp(0.25) if not number else Stamp(why=why) for number, head in enumerate(heads)}
    return board(values, heads, letters, beats, stamps=stamps)


def stored(folder):
    """Three explainers, two that differ only by an option; a metric that is no mean, and an undefined score."""
    store = run(folder)
    generator = np.random.default_rng(0)
    for place, explainer in enumerate(("random", "lime", "lime(samples=9)")):
        for metric in SUFFICIENCIES:
            store_scores(store, explainer, [*(generator.normal(size=9) - place), float("nan")], metric=metric)
        store_scores(store, explainer, [curve_score(generator) for _ in range(10)], metric="recursive_erasure")
    return store
