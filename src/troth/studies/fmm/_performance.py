"""How well models do that were trained in different ways: unmasked, masked, by masking ratio and by epoch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from troth.metrics.formulas import Floats
from troth.studies import Section
from troth.studies._trained import Results
from troth.studies.fmm import _figures
from troth.studies.fmm._experiment import MARGIN, TRAIN, TRAININGS, VALIDATE, Experiment, names, printed, strategy
from troth.studies.fmm._numbers import INTERVAL, Range, mean, over_seeds, percent


def performance(experiments: Sequence[Experiment], results: Results) -> Iterator[Section]:
    """Unmasked and 100 % masked; then by masking ratio and by epoch."""
    rows: list[list[Any]] = []
    facts: dict[str, Any] = {}
    for experiment, training in itertools.product(experiments, TRAININGS):
        found = [experiment.curve(results, TRAININGS[training], seed) for seed in experiment.seeds]
        converged = len(experiment.converged_seeds(results, TRAININGS[training]))
        ends = {"unmasked": over_seeds([one[0] for one in found]), "all masked": over_seeds([one[-1] for one in found])}
        theirs = printed("fmm_performance", "value", experiment.name, quantity="performance")
        rows.append(
            [experiment.name, training, *map(percent, ends.values()), 100 * experiment.majority,
             f"{converged} of {len(experiment.seeds)}", theirs if training == "masked" else None]
        )  # fmt: skip
        facts.setdefault(experiment.name, {"majority": experiment.majority, "performance": experiment.performance})
        facts[experiment.name][training] = {
            "by_seed": [one.tolist() for one in found], "converged": converged, **ends,
        }  # fmt: skip
    if len(experiments) > 1:
        rows += [["all", training, *map(percent, everywhere(experiments, results, recipe)), None, None, None]
                 for training, recipe in TRAININGS.items()]  # fmt: skip
    columns = ("data", "training", "unmasked %", "100 % masked %", "class majority %", "converged", "published, masked")
    words = (
        f"Each data set's own metric on its test set. {INTERVAL} Converged: at least {100 * MARGIN:.0f} points over "
        "the class majority. all: the mean over data sets of each seed, without runs that did not converge."
    )
    yield Section("performance", f"Figures 2 and 3: performance on {names(experiments)}", columns, rows, words, facts)
    for experiment in experiments:
        yield _by_ratio(experiment, results)
        yield from _by_epoch(experiment, results)


def everywhere(experiments: Sequence[Experiment], results: Results, recipe: str) -> tuple[Range, Range]:
    """Unmasked and 100 % masked performance: of each seed the mean over data sets, without what did not converge."""
    ends: dict[int, list[Floats]] = {}
    for experiment in experiments:
        for seed in experiment.converged_seeds(results, recipe):
            ends.setdefault(seed, []).append(experiment.curve(results, recipe, seed)[[0, -1]])
    means = np.array([np.mean(found, axis=0) for found in ends.values()]).reshape(-1, 2)
    return over_seeds(means[:, 0].tolist()), over_seeds(means[:, 1].tolist())


def _by_ratio(experiment: Experiment, results: Results) -> Section:
    ranges = {
        training: [over_seeds(list(values)) for values in
                   np.transpose([experiment.curve(results, recipe, seed) for seed in experiment.seeds])]
        for training, recipe in TRAININGS.items()
    }  # fmt: skip
    rows = [[training, *(percent(value) for value in values)] for training, values in ranges.items()]
    return Section(
        "performance", f"{experiment.name}: performance by masking ratio", ("training", *experiment.shares), rows,
        f"Tokens of the first text masked at random; {experiment.performance}, %. {INTERVAL}",
        {f"{experiment.name} by ratio": ranges},
        lambda figure: _figures.by_ratio(figure, experiment.ratios, ranges, experiment.majority),
    )  # fmt: skip


def _by_epoch(experiment: Experiment, results: Results) -> Iterator[Section]:
    """Figure 16; nothing where no training has told how it went."""
    means: dict[str, list[float]] = {}
    chosen: dict[str, list[int]] = {}
    for training, recipe in TRAININGS.items():
        tables = [results.table(experiment.history(recipe, seed)) for seed in experiment.seeds]
        histories = [table.to_pylist() for table in tables if table is not None]
        chosen[training] = [next(row["epoch"] for row in rows if row["chosen"]) for rows in histories]
        scores: dict[tuple[str, int], list[float]] = {}
        for row in itertools.chain(*histories):
            scores.setdefault((row["inputs"], row["epoch"]), []).append(row["score"])
        for (inputs, _), values in sorted(scores.items()):
            means.setdefault(f"{training}, {inputs}", []).append(mean(values))
    if not means:
        return
    epochs = max(map(len, means.values()))
    rows = [[name, *(100 * value for value in values)] for name, values in means.items()]
    words = "Mean over seeds. Chosen epochs: " + "; ".join(
        f"{training} {', '.join(map(str, epochs_of))}" for training, epochs_of in chosen.items()
    )
    yield Section(
        "performance", f"Figure 16: {experiment.name}, validation performance by epoch",
        ("training, inputs", *map(str, range(1, epochs + 1))), rows, f"{words}.",
        {f"{experiment.name} by epoch": means, f"{experiment.name} chosen epochs": chosen},
        lambda figure: _figures.by_epoch(figure, means),
    )  # fmt: skip


def ablation(experiments: Sequence[Experiment], results: Results) -> Iterator[Section]:
    """Figures 8 to 11: training by validation strategy."""
    for experiment in experiments:
        rows: list[list[Any]] = []
        facts: dict[str, Any] = {}
        for train, validate in itertools.product(TRAIN, VALIDATE):
            recipe = strategy(train, validate)
            found = [experiment.curve(results, recipe, seed) for seed in experiment.seeds]
            ends = over_seeds([one[0] for one in found]), over_seeds([one[-1] for one in found])
            converged = len(experiment.converged_seeds(results, recipe))
            rows.append(
                [TRAIN[train], VALIDATE[validate], *map(percent, ends), f"{converged} of {len(experiment.seeds)}"]
            )
            facts[f"{train} {validate}"] = {
                "unmasked": ends[0], "all masked": ends[1], "by_seed": [one.tolist() for one in found],
                "converged": converged,
            }  # fmt: skip
        columns = ("training", "validation", "unmasked %", "100 % masked %", "converged")
        words = (
            f"{experiment.performance} on the test set. {INTERVAL} Class majority: {100 * experiment.majority:.1f} %. "
            "Masked fine-tuning is use 50/50 with use both, plain fine-tuning no masking twice, only masking masking "
            "twice (Table 10)."
        )
        yield Section(
            "ablation", f"Figures 8 to 11: {experiment.name}, training by validation strategy", columns, rows, words,
            {experiment.name: facts},
        )  # fmt: skip
