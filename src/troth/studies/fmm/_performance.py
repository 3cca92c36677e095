"""How well models do that were trained in different ways, by masking ratio and by epoch, and what everything took."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from troth import statistics
from troth.metrics.formulas import Floats
from troth.studies import Section
from troth.studies._results import Line, Range, Results, draw_lines, estimate, percent
from troth.studies.fmm._experiment import (
    ENDS,
    INTERVAL,
    MARGIN,
    TRAIN,
    TRAININGS,
    VALIDATE,
    FmmExperiment,
    measure_name,
    names,
    printed,
    strategy,
)


def performance(experiments: Sequence[FmmExperiment], results: Results) -> Iterator[Section]:
    """Unmasked and 100 % masked; then by masking ratio and by epoch."""
    rows: list[list[Any]] = []
    facts: dict[str, Any] = {}
    for experiment, training in itertools.product(experiments, TRAININGS):
        found = experiment.performed(results, TRAININGS[training])
        theirs = printed("fmm_performance", "value", experiment.name, quantity="performance")
        rows.append(
            [experiment.name, training, *(percent(found[name]) for name in ENDS), 100 * experiment.majority,
             f"{found['converged']} of {len(experiment.seeds)}", theirs if training == "masked" else None]
        )  # fmt: skip
        facts.setdefault(experiment.name, {"majority": experiment.majority, "performance": experiment.performance})
        facts[experiment.name][training] = found
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


def everywhere(experiments: Sequence[FmmExperiment], results: Results, recipe: str) -> tuple[Range, Range]:
    """Unmasked and 100 % masked performance: of each seed the mean over data sets, without what did not converge."""
    ends: dict[int, list[Floats]] = {}
    for experiment in experiments:
        for seed in experiment.converged(results, recipe):
            ends.setdefault(seed, []).append(experiment.curve(results, recipe, seed)[[0, -1]])
    means = np.array([np.mean(found, axis=0) for found in ends.values()]).reshape(-1, 2)
    return estimate(means[:, 0]), estimate(means[:, 1])


def _by_ratio(experiment: FmmExperiment, results: Results) -> Section:
    ranges = {
        training: list(
            map(estimate, np.transpose([experiment.curve(results, recipe, seed) for seed in experiment.seeds]))
        )
        for training, recipe in TRAININGS.items()
    }
    rows = [[training, *map(percent, values)] for training, values in ranges.items()]
    lines = {training: Line(experiment.ratios, *zip(*values, strict=True)) for training, values in ranges.items()}
    majority = {"class majority": experiment.majority}
    return Section(
        "performance", f"{experiment.name}: performance by masking ratio", ("training", *experiment.shares), rows,
        f"Tokens of the first text masked at random; {experiment.performance}, %. {INTERVAL}",
        {f"{experiment.name} by ratio": ranges},
        partial(draw_lines, panels={"": lines}, across="masked at random", up="performance", levels=majority),
    )  # fmt: skip


def _by_epoch(experiment: FmmExperiment, results: Results) -> Iterator[Section]:
    """Figure 16; nothing where no training has told how it went."""
    means: dict[str, list[float]] = {}
    chosen: dict[str, list[int]] = {}
    for training, recipe in TRAININGS.items():
        histories = list(filter(None, (results.rows(experiment.history(recipe, seed)) for seed in experiment.seeds)))
        chosen[training] = [next(row["epoch"] for row in rows if row["chosen"]) for rows in histories]
        scores: dict[tuple[str, int], list[float]] = {}
        for row in itertools.chain(*histories):
            scores.setdefault((row["inputs"], row["epoch"]), []).append(row["score"])
        for (inputs, _), values in sorted(scores.items()):
            means.setdefault(f"{training}, {inputs}", []).append(statistics.mean(values))
    if not means:
        return
    epochs = range(1, 1 + max(map(len, means.values())))
    lines = {name: Line(epochs[: len(values)], values) for name, values in means.items()}
    rows = [[name, *(100 * value for value in values)] for name, values in means.items()]
    words = "Mean over seeds. Chosen epochs: " + "; ".join(
        f"{training} {', '.join(map(str, epochs_of))}" for training, epochs_of in chosen.items()
    )
    yield Section(
        "performance", f"Figure 16: {experiment.name}, validation performance by epoch",
        ("training, inputs", *map(str, epochs)), rows, f"{words}.",
        {f"{experiment.name} by epoch": means, f"{experiment.name} chosen epochs": chosen},
        partial(draw_lines, panels={"": lines}, across="epoch", up="validation performance"),
    )  # fmt: skip


def ablation(experiments: Sequence[FmmExperiment], results: Results) -> Iterator[Section]:
    """Figures 8 to 11: training by validation strategy."""
    for experiment in experiments:
        rows: list[list[Any]] = []
        facts: dict[str, Any] = {}
        for train, validate in itertools.product(TRAIN, VALIDATE):
            facts[f"{train} {validate}"] = found = experiment.performed(results, strategy(train, validate))
            of_seeds = f"{found['converged']} of {len(experiment.seeds)}"
            rows.append([TRAIN[train], VALIDATE[validate], *(percent(found[name]) for name in ENDS), of_seeds])
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


def wall_time(
    experiments: Sequence[FmmExperiment], results: Results, asked: Mapping[str, Sequence[str]]
) -> Iterator[Section]:
    """Tables 6 to 9."""
    stored = {cell.name: cell for cell in results.store.cells()}
    rows: list[list[Any]] = []
    for experiment in experiments:
        seeds = experiment.seeds
        for training, recipe in TRAININGS.items():
            cells = [stored.get(experiment.train(recipe, seed).name) for seed in seeds]
            theirs = printed("fmm_walltime_finetune", "minutes", experiment.name) if training == "masked" else None
            rows.append([experiment.name, f"training, {training}", *_time([[cell] for cell in cells]), theirs])
        for training, explainers in asked.items():
            recipe = TRAININGS[training]
            for explainer in explainers:
                erased = [experiment.erased(recipe, explainer, seed) for seed in seeds]
                pairs = [[stored.get(cell.parents[0]), stored.get(cell.name)] for cell in erased]
                theirs = printed("fmm_walltime_importance", "minutes", experiment.name, explainer)
                what = f"{measure_name(explainer)}, {training}"
                rows.append([experiment.name, what, *_time(pairs), theirs if training == "masked" else None])
            checks = [
                [stored.get(experiment.check(recipe, explainer, seed).name) for explainer in explainers]
                for seed in seeds
            ]
            theirs = printed("fmm_walltime_validation", "minutes", experiment.name) if training == "masked" else None
            rows.append([experiment.name, f"in-distribution, {training}", *_time(checks), theirs])
    columns = ("data", "what", "seconds", "forward rows", "backward rows", "published, minutes")
    words = (
        "Mean over seeds; processes that share the device slow each other down, rows through the model do not depend "
        "on that. A measure: explaining at every step and the faithfulness evaluation together. Published: "
        "RoBERTa-base on a V100, whole test sets."
    )
    facts = {f"{row[0]} {row[1]}": dict(zip(("seconds", "forward", "backward"), row[2:5], strict=True)) for row in rows}
    yield Section("wall_time", f"Tables 6 to 9: wall times, {names(experiments)}", columns, rows, words, facts)


def _time(by_seed: Sequence[Sequence[Any]]) -> list[float]:
    """Seconds, rows forward and backward: what the cells of a seed took together, mean over seeds that are whole."""
    whole = [cells for cells in by_seed if cells and all(cell is not None for cell in cells)]
    return [
        statistics.mean([float(sum(getattr(cell, what) for cell in cells)) for cells in whole])
        for what in ("seconds", "forward", "backward")
    ]
