"""The tables of the FMM study: how well models do by training, masking ratio and epoch; how faithful each importance
measure is, next to the published areas; whether the erased inputs that were measured are in distribution; wall times.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from troth import statistics
from troth.metrics.formulas import Floats
from troth.studies import Section
from troth.studies._results import Line, Range, Results, draw_lines, estimate, over_seeds, percent
from troth.studies.fmm._experiment import (
    ENDS,
    INTERVAL,
    MARGIN,
    RANDOM,
    SIGNED,
    TRAIN,
    TRAININGS,
    VALIDATE,
    Case,
    FmmExperiment,
    areas,
    curves,
    measure_name,
    names,
    strategy,
)
from troth.studies.fmm._works import REFERENCES
from troth.validity.checking import LEVEL, VARIANTS
from troth.validity.masf import data_set_p_value


def performance(experiments: Sequence[FmmExperiment], results: Results) -> Iterator[Section]:
    """The performance on unmasked and 100 % masked inputs, then by masking ratio and by epoch."""
    rows: list[list[Any]] = []
    facts: dict[str, Any] = {}
    for experiment, training in itertools.product(experiments, TRAININGS):
        found = experiment.performed(results, TRAININGS[training])
        theirs = experiment.published_for(training, "fmm_performance", quantity="performance")
        rows.append(
            [experiment.name, training, *(percent(found[name]) for name in ENDS), 100 * experiment.majority,
             f"{found['converged']} of {len(experiment.seeds)}", theirs]
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
    """Unmasked and 100 % masked performance: the mean over data sets for each seed, without models that did not
    converge.
    """
    ends: dict[int, list[Floats]] = {}
    for experiment in experiments:
        for seed in experiment.converged(results, recipe):
            ends.setdefault(seed, []).append(experiment.curve(results, recipe, seed)[[0, -1]])
    means = np.array([np.mean(found, axis=0) for found in ends.values()]).reshape(-1, 2)
    return estimate(means[:, 0]), estimate(means[:, 1])


def _by_ratio(experiment: FmmExperiment, results: Results) -> Section:
    by_training = {
        training: [experiment.curve(results, recipe, seed) for seed in experiment.seeds]
        for training, recipe in TRAININGS.items()
    }
    lines = {training: over_seeds(experiment.ratios, by_seed) for training, by_seed in by_training.items()}
    ranges = {training: [*zip(line.values, line.low, line.high, strict=True)] for training, line in lines.items()}
    rows = [[training, *map(percent, values)] for training, values in ranges.items()]
    majority = {"class majority": experiment.majority}
    return Section(
        "performance", f"{experiment.name}: performance by masking ratio", ("training", *experiment.shares), rows,
        f"Tokens of the first text masked at random; {experiment.performance}, %. {INTERVAL}",
        {f"{experiment.name} by ratio": ranges},
        partial(draw_lines, panels={"": lines}, across="masked at random", up="performance", levels=majority),
    )  # fmt: skip


def _by_epoch(experiment: FmmExperiment, results: Results) -> Iterator[Section]:
    """Figure 16; empty if no training recorded its epochs."""
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
            theirs = experiment.published_for(training, "fmm_walltime_finetune", "minutes")
            rows.append([experiment.name, f"training, {training}", *_time([[cell] for cell in cells]), theirs])
        for training, explainers in asked.items():
            recipe = TRAININGS[training]
            for explainer in explainers:
                erased = [experiment.erased(recipe, explainer, seed) for seed in seeds]
                pairs = [[stored.get(cell.parents[0]), stored.get(cell.name)] for cell in erased]
                theirs = experiment.published_for(training, "fmm_walltime_importance", "minutes", explainer)
                rows.append([experiment.name, f"{measure_name(explainer)}, {training}", *_time(pairs), theirs])
            checks = [
                [stored.get(experiment.check(recipe, explainer, seed).name) for explainer in explainers]
                for seed in seeds
            ]
            theirs = experiment.published_for(training, "fmm_walltime_validation", "minutes")
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
    """Seconds and forward and backward rows: the sum over the cells of a seed, averaged over complete seeds."""
    whole = [cells for cells in by_seed if cells and all(cell is not None for cell in cells)]
    return [
        statistics.mean([float(sum(getattr(cell, what) for cell in cells)) for cells in whole])
        for what in ("seconds", "forward", "backward")
    ]


def faithfulness(
    experiments: Sequence[FmmExperiment], results: Results, asked: Mapping[str, Sequence[str]]
) -> Iterator[Section]:
    """Figure 5, Tables 1 and 11; then the mean over data sets."""
    together: dict[tuple[str, str], list[list[float]]] = {}
    for experiment in experiments:
        rows: list[list[Any]] = []
        facts: dict[str, Any] = {}
        lines: dict[tuple[str, str], Line] = {}
        notes: dict[str, None] = {}
        for training, explainers in asked.items():
            recipe = TRAININGS[training]
            converged = experiment.converged(results, recipe)
            if len(converged) < len(experiment.seeds):
                lost = len(experiment.seeds) - len(converged)
                notes[f"{training}: {lost} of {len(experiment.seeds)} seeds did not converge and have no RACU."] = None
            for explainer in explainers:
                stored = [results.scores(experiment.erased(recipe, explainer, seed)) for seed in converged]
                by_seed, name = list(filter(None, stored)), measure_name(explainer)
                if by_seed:
                    explained = [curves(scores, experiment.metric)[0] for scores in by_seed]
                    lines[training, name] = Line(experiment.ratios, np.mean(explained, axis=0).tolist())
                if explainer == RANDOM:
                    continue
                pairs = [areas(scores, experiment.metric) for scores in by_seed]
                acu, racu = (estimate([pair[place] for pair in pairs]) for place in range(2))
                whole = experiment.summarized(results, recipe, explainer, converged)
                notes |= dict.fromkeys(filter(None, [whole["undefined"]]))
                together.setdefault((training, name), []).append([acu[0], racu[0]])
                theirs = [
                    experiment.published_for(training, "fmm_faithfulness", column, explainer)
                    for column in ("acu", "racu", "rroar")
                ]
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
            "Signed measures can exceed 100 %: compare ACU. The paper has no faithfulness of plain models: their "
            "masked inputs may be out of distribution."
        )
        yield Section(
            "faithfulness", f"Figure 5 and Table 11: {experiment.name}, faithfulness", columns, rows,
            " ".join([words, *notes]), facts,
            partial(draw_lines, panels=_panels(lines), across="masked", up=experiment.performance, columns=2),
        )  # fmt: skip
    if len(experiments) > 1:
        rows = [
            [*key, *(100 * statistics.mean(column) for column in means.T), int((~np.isnan(means[:, 1])).sum())]
            for key, means in ((key, np.array(of_data)) for key, of_data in together.items())
        ]
        yield Section(
            "faithfulness", f"All data sets: {names(experiments)}", ("training", "measure", "ACU %", "RACU %", "of"),
            rows, "The mean over data sets, without runs that did not converge.",
            {"all": {" ".join(row[:2]): row[2:] for row in rows}},
        )  # fmt: skip


def _panels(lines: Mapping[tuple[str, str], Line]) -> dict[str, dict[str, Line]]:
    """Separate panels for absolute and signed measures and for each training that is explained; random order is in
    all.
    """
    trainings = dict.fromkeys(training for training, name in lines if name != "Random")
    return {
        f"{training}, {kind}": {
            name: line for (of, name), line in lines.items()
            if of == training and (name == "Random" or (name in SIGNED) == (kind == "signed"))
        }
        for training, kind in itertools.product(trainings, ("absolute", "signed"))
    }  # fmt: skip


def in_distribution(
    experiments: Sequence[FmmExperiment], results: Results, asked: Mapping[str, Sequence[str]]
) -> Iterator[Section]:
    """Figure 4 with three kinds of references; `asked` has the explainers of each training."""
    rows: list[list[Any]] = []
    facts: dict[str, Any] = {}
    for experiment in experiments:
        by_text, smallest = experiment.p_values(results, asked)
        by_ratio = {
            key: np.array([[data_set_p_value(column) for column in p.T] for p in by_seed])
            for key, by_seed in by_text.items()
        }
        for variant in VARIANTS:
            yield _p_by_ratio(experiment, by_ratio, variant)
        for training, references, variant in itertools.product(asked, REFERENCES, VARIANTS):
            keys = [(training, references, variant, explainer) for explainer in asked[training]]
            keys = [key for key in keys if key in by_text]
            if keys:
                parts = _distinct({key: by_ratio[key] for key in keys}, by_text)
                p = np.concatenate([part.ravel() for part in parts])
                out = [(part < LEVEL).sum(1) for part in parts]  # for every seed; one may lack an explainer
                below = [[float((by_seed[:, 1:] < LEVEL).mean()) for by_seed in by_text[key]] for key in keys]
                share = statistics.mean([statistics.mean(of_seeds) for of_seeds in below])
                lowest, least, cases = float(p.min()), smallest[keys[0][:3]], int((p < LEVEL).sum())
                rows.append([experiment.name, training, references, variant, f"{cases} of {len(p)}", lowest,
                             100 * share, least])  # fmt: skip
                facts[f"{experiment.name} {training} {references} {variant}"] = {
                    "out": cases, "of": len(p), "lowest": lowest, "texts_below": share, "smallest": least,
                    "out_by_seed": np.sum(out, 0).tolist() if len({len(part) for part in parts}) == 1 else None,
                }  # fmt: skip
    columns = ("data", "training", "references", "variant", f"p < {LEVEL}", "lowest p", f"texts with p < {LEVEL}, %",
               "smallest possible p")  # fmt: skip
    words = (
        "Cases: explainers × masking ratios above 0 × seeds, where completely masked texts count once for all "
        "explainers; a case's p is Simes's over all texts. Every training is "
        "tested on the erased inputs that were measured for it, against the same texts, whole, half masked (as in "
        "masked fine-tuning) or all masked. In-distribution is the null hypothesis: it cannot be proven."
    )
    yield Section(
        "in_distribution", f"Out of distribution: {names(experiments)}, by references", columns, rows, words, facts
    )


def _distinct(by_ratio: Mapping[Case, Floats], by_text: Mapping[Case, list[Floats]]) -> list[Floats]:
    """[seeds, inputs] the p-values above ratio 0, each distinct masked input once.

    When everything is masked, a text is the same input whichever explainer chose the order.
    """
    completely: dict[int, Floats] = {}  # by the number of texts, because a search has fewer
    for key, p in by_ratio.items():
        texts = len(by_text[key][0])
        if texts not in completely or len(completely[texts]) < len(p):
            completely[texts] = p[:, -1:]
    return [*(p[:, 1:-1] for p in by_ratio.values()), *completely.values()]


def _p_by_ratio(experiment: FmmExperiment, by_ratio: Mapping[Case, Floats], variant: str) -> Section:
    means = {
        (training, references, measure_name(explainer)): values.mean(0).tolist()
        for (training, references, tested, explainer), values in by_ratio.items()
        if tested == variant
    }
    panels: dict[str, dict[str, Line]] = {}
    for (training, references, measure), values in means.items():
        title = f"{training.replace('_', ' ')}\n{references} references"
        panels.setdefault(title, {})[measure] = Line(experiment.ratios, values)
    rows = [[*key, *values] for key, values in means.items()]
    columns = ("training", "references", "measure", *experiment.shares)
    how = "MaSF as published" if variant == "paper" else "Calibrated MaSF: uniform p-values under the null"
    return Section(
        "in_distribution", f"Figure 4: {experiment.name}, in-distribution p-values ({variant})", columns, rows,
        f"{how}. Simes's p-value over all texts, mean over seeds; below {LEVEL} is out of distribution.",
        {f"{experiment.name} {variant}": {" | ".join(key): values for key, values in means.items()}},
        partial(draw_lines, panels=panels, across="masked", up="p", columns=len(REFERENCES), levels={"0.05": LEVEL}),
    )  # fmt: skip
