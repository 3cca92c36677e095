"""The sections of the FMM study: our numbers next to those of Madsen et al. (2024)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from troth.metrics.formulas import Floats
from troth.studies import Section
from troth.studies._trained import Results
from troth.studies.fmm import _figures
from troth.studies.fmm._experiment import (
    MARGIN,
    RANDOM,
    SIGNED,
    TRAIN,
    TRAININGS,
    VALIDATE,
    Experiment,
    Range,
    areas,
    curves,
    measure_name,
    over_seeds,
    printed,
    strategy,
)
from troth.studies.fmm._works import REFERENCES, VARIANTS
from troth.validity.checking import LEVEL
from troth.validity.masf import data_set_p_value

INTERVAL = "Intervals: 95 %, BCa over seeds, as in the paper."


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
        f"Each data set's own metric on its test set. {INTERVAL} Converged: at least {100 * MARGIN:.0f} points over the "
        "class majority. all: the mean over data sets of each seed, without runs that did not converge."
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
        "performance", f"{experiment.name}: performance by masking ratio", ("training", *shares(experiment)), rows,
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
            means.setdefault(f"{training}, {inputs}", []).append(_mean(values))
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


P = dict[tuple[str, str, str, str], Floats]  # training, references, variant, explainer -> [seeds, ratios] data-set p


def in_distribution(
    experiments: Sequence[Experiment], results: Results, asked: Mapping[str, Sequence[str]]
) -> Iterator[Section]:
    """Figure 4 with three kinds of references; `asked`: the explainers of each training."""
    rows: list[list[Any]] = []
    facts: dict[str, Any] = {}
    for experiment in experiments:
        found, below, smallest = _p_values(experiment, results, asked)
        for variant in VARIANTS:
            yield _p_by_ratio(experiment, found, variant)
        for training, references, variant in itertools.product(asked, REFERENCES, VARIANTS):
            keys = [(training, references, variant, explainer) for explainer in asked[training]]
            p = np.concatenate([found[key][:, 1:].ravel() for key in keys if key in found] or [np.empty(0)])
            share = [below[key] for key in keys if key in below]
            if len(p):
                lowest, least = float(p.min()), smallest[training, references, variant]
                cases = int((p < LEVEL).sum())
                rows.append([experiment.name, training, references, variant, f"{cases} of {len(p)}", lowest,
                             100 * _mean(share), least])  # fmt: skip
                facts[f"{experiment.name} {training} {references} {variant}"] = {
                    "out": cases, "of": len(p), "lowest": lowest, "texts_below": _mean(share), "smallest": least,
                }  # fmt: skip
    columns = ("data", "training", "references", "variant", f"p < {LEVEL}", "lowest p", f"texts with p < {LEVEL}, %",
               "smallest possible p")  # fmt: skip
    words = (
        "Cases: explainers × masking ratios above 0 × seeds; a case's p is Simes's over all texts. Every training is "
        "tested on the erased inputs that were measured for it, against the same texts, whole, half masked (as in masked "
        "fine-tuning) or all masked. In-distribution is the null hypothesis: it cannot be proven."
    )
    yield Section(
        "in_distribution", f"Out of distribution: {names(experiments)}, by references", columns, rows, words, facts
    )


def _p_values(
    experiment: Experiment, results: Results, asked: Mapping[str, Sequence[str]]
) -> tuple[P, dict[tuple[str, str, str, str], float], dict[tuple[str, str, str], float]]:
    """Data-set p-values; the share of texts (and ratios above 0) below 0.05; the smallest p there could be."""
    found: dict[tuple[str, str, str, str], list[list[float]]] = {}
    below: dict[tuple[str, str, str, str], list[float]] = {}
    smallest: dict[tuple[str, str, str], float] = {}
    for training, explainers in asked.items():
        for explainer, seed in itertools.product(explainers, experiment.seeds):
            table = results.table(experiment.check(TRAININGS[training], explainer, seed))
            by_test: dict[tuple[str, str], list[list[float]]] = {}
            for row in [] if table is None else table.to_pylist():
                by_test.setdefault((row["references"], row["variant"]), []).append(row["p"])
                smallest[training, row["references"], row["variant"]] = row["smallest"]
            for (references, variant), values in by_test.items():
                p = np.array(values)  # [examples, ratios]
                key = (training, references, variant, explainer)
                found.setdefault(key, []).append([data_set_p_value(column) for column in p.T])
                below.setdefault(key, []).append(float((p[:, 1:] < LEVEL).mean()))
    return (
        {key: np.array(values) for key, values in found.items()},
        {key: _mean(values) for key, values in below.items()},
        smallest,
    )


def _p_by_ratio(experiment: Experiment, found: P, variant: str) -> Section:
    means = {
        (training, references, measure_name(explainer)): values.mean(0).tolist()
        for (training, references, tested, explainer), values in found.items()
        if tested == variant
    }
    rows = [[*key, *values] for key, values in means.items()]
    columns = ("training", "references", "measure", *shares(experiment))
    how = "MaSF as published" if variant == "paper" else "Calibrated MaSF: uniform p-values under the null"
    return Section(
        "in_distribution", f"Figure 4: {experiment.name}, in-distribution p-values ({variant})", columns, rows,
        f"{how}. Simes's p-value over all texts, mean over seeds; below {LEVEL} is out of distribution.",
        {f"{experiment.name} {variant}": {" | ".join(key): values for key, values in means.items()}},
        lambda figure: _figures.p_by_ratio(figure, experiment.ratios, means, LEVEL),
    )  # fmt: skip


def faithfulness(
    experiments: Sequence[Experiment], results: Results, asked: Mapping[str, Sequence[str]]
) -> Iterator[Section]:
    """Figure 5, Tables 1 and 11; then the mean over data sets."""
    together: dict[tuple[str, str], list[list[float]]] = {}
    for experiment in experiments:
        rows: list[list[Any]] = []
        facts: dict[str, Any] = {}
        lines: dict[tuple[str, str], Floats] = {}
        notes: dict[str, None] = {}
        for training, explainers in asked.items():
            recipe = TRAININGS[training]
            converged = experiment.converged_seeds(results, recipe)
            if len(converged) < len(experiment.seeds):
                lost = len(experiment.seeds) - len(converged)
                notes[f"{training}: {lost} of {len(experiment.seeds)} seeds did not converge and have no RACU."] = None
            for explainer in explainers:
                by_seed = [results.scores(experiment.erased(recipe, explainer, seed)) for seed in converged]
                by_seed = [scores for scores in by_seed if scores]
                name = measure_name(explainer)
                both = [curves(scores, experiment.metric) for scores in by_seed]
                lines[training, name] = _mean_curve([explained for explained, _ in both])
                if explainer == RANDOM:
                    continue
                pairs = [areas(scores, experiment.metric) for scores in by_seed]
                acu, racu = (over_seeds([pair[place] for pair in pairs]) for place in range(2))
                whole = _summary(experiment, results, recipe, explainer, converged)
                notes |= dict.fromkeys(filter(None, [whole.get("undefined", "")]))
                together.setdefault((training, name), []).append([acu[0], racu[0]])
                theirs = [printed("fmm_faithfulness", column, experiment.name, explainer)
                          for column in ("acu", "racu", "rroar")] if training == "masked" else [None] * 3  # fmt: skip
                of_texts = (whole["value"], whole["low"], whole["high"])
                rows.append([training, name, len(by_seed), percent(acu), percent(racu), percent(of_texts), *theirs])
                facts[f"{experiment.name} {training} {name}"] = {
                    "acu": acu, "racu": racu, "racu_over_texts": of_texts, "acu_over_texts": whole["acu"],
                    "by_seed": pairs, "texts": whole["count"], "seeds": converged,
                }  # fmt: skip
        columns = ("training", "measure", "seeds", "ACU %", "RACU %", "RACU %, over texts", "ACU, published", "RACU",
                   "R-ROAR")  # fmt: skip
        words = (
            f"{experiment.performance} as tokens of the first text are masked in the order of each measure, explained "
            f"again at every step, against random order. {INTERVAL} Over texts: examples drawn with all their seeds. "
            "Signed measures can exceed 100 %: compare ACU. The paper has no faithfulness of plain models: their masked "
            "inputs may be out of distribution."
        )
        yield Section(
            "faithfulness", f"Figure 5 and Table 11: {experiment.name}, faithfulness", columns, rows,
            " ".join([words, *notes]), facts,
            lambda figure, lines=lines, ratios=experiment.ratios: _figures.faithfulness(figure, ratios, lines, SIGNED),
        )  # fmt: skip
    if len(experiments) > 1:
        rows = [
            [*key, 100 * _mean([one[0] for one in found]), 100 * _mean([one[1] for one in found]),
             int(sum(not np.isnan(one[1]) for one in found))]
            for key, found in together.items()
        ]  # fmt: skip
        yield Section(
            "faithfulness", f"All data sets: {names(experiments)}", ("training", "measure", "ACU %", "RACU %", "of"),
            rows, "The mean over data sets, without runs that did not converge.",
            {"all": {" ".join(row[:2]): row[2:] for row in rows}},
        )  # fmt: skip


def _summary(
    experiment: Experiment, results: Results, recipe: str, explainer: str, seeds: Sequence[int]
) -> dict[str, Any]:
    table = results.table(experiment.summary(recipe, explainer, seeds)) if seeds else None
    if table is None:
        return {"value": np.nan, "low": np.nan, "high": np.nan, "acu": [np.nan] * 3, "count": 0}
    row = table.to_pylist()[0]
    extra = json.loads(row["extra"])
    acu = [extra["acu"], *extra["acu_interval"]] if "acu" in extra else [np.nan] * 3
    return {**{key: np.nan if value is None else value for key, value in row.items()}, "acu": acu}


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


def wall_time(
    experiments: Sequence[Experiment], results: Results, asked: Mapping[str, Sequence[str]]
) -> Iterator[Section]:
    """Tables 6 to 9."""
    stored = {cell.name: cell for cell in results.store.cells()}
    rows: list[list[Any]] = []
    for experiment in experiments:
        seeds = experiment.seeds
        for training, recipe in TRAININGS.items():
            cells = [stored.get(experiment.model(recipe, seed).name) for seed in seeds]
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
        "Mean over seeds; processes that share the device slow each other down, rows through the model do not depend on "
        "that. A measure: explaining at every step and the faithfulness evaluation together. Published: RoBERTa-base on "
        "a V100, whole test sets."
    )
    facts = {f"{row[0]} {row[1]}": dict(zip(("seconds", "forward", "backward"), row[2:5], strict=True)) for row in rows}
    yield Section("wall_time", f"Tables 6 to 9: wall times, {names(experiments)}", columns, rows, words, facts)


def _time(by_seed: Sequence[Sequence[Any]]) -> list[float]:
    """Seconds, rows forward and backward: what the cells of a seed took together, mean over seeds that are whole."""
    whole = [cells for cells in by_seed if cells and all(cell is not None for cell in cells)]
    return [
        _mean([float(sum(getattr(cell, what) for cell in cells)) for cells in whole])
        for what in ("seconds", "forward", "backward")
    ]


def percent(value: Range) -> str:
    """A range in percent as text.

    >>> percent((0.9, 0.85, 0.925)), percent((float("nan"),) * 3)
    ('90.0 [85.0, 92.5]', '–')
    """
    if np.isnan(value[0]):
        return "–"
    return f"{100 * value[0]:.1f} [{100 * value[1]:.1f}, {100 * value[2]:.1f}]"


def shares(experiment: Experiment) -> list[str]:
    """The masking ratios as column names."""
    return [f"{ratio:.0%}" for ratio in experiment.ratios]


def names(experiments: Sequence[Experiment]) -> str:
    """The data sets."""
    return ", ".join(experiment.name for experiment in experiments)


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _mean_curve(found: Sequence[Floats]) -> Floats:
    return np.mean(found, axis=0) if found else np.empty(0)
