"""How faithful each importance measure is: areas between the curves of performance, next to the published ones. Are the
erased inputs that were measured in distribution? By training, explainer and what they are compared with.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from troth import statistics
from troth.metrics.formulas import Floats
from troth.studies import Section
from troth.studies._results import Line, Results, draw_lines, estimate, percent
from troth.studies.fmm._experiment import (
    INTERVAL,
    RANDOM,
    SIGNED,
    TRAININGS,
    FmmExperiment,
    areas,
    curves,
    measure_name,
    names,
    printed,
)
from troth.studies.fmm._works import REFERENCES
from troth.validity.checking import LEVEL, VARIANTS
from troth.validity.masf import data_set_p_value

P = dict[tuple[str, str, str, str], Floats]  # training, references, variant, explainer -> [seeds, ratios] data-set p


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
                explained = [curves(scores, experiment.metric)[0] for scores in by_seed]
                if explained:
                    lines[training, name] = Line(experiment.ratios, np.mean(explained, axis=0).tolist())
                if explainer == RANDOM:
                    continue
                pairs = [areas(scores, experiment.metric) for scores in by_seed]
                acu, racu = (estimate([pair[place] for pair in pairs]) for place in range(2))
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
    """Absolute and signed measures apart, a row for each training that is explained; random order is in all."""
    trainings = dict.fromkeys(training for training, name in lines if name != "Random")
    return {
        f"{training}, {kind}": {
            name: line for (of, name), line in lines.items()
            if of == training and (name == "Random" or (name in SIGNED) == (kind == "signed"))
        }
        for training, kind in itertools.product(trainings, ("absolute", "signed"))
    }  # fmt: skip


def _summary(
    experiment: FmmExperiment, results: Results, recipe: str, explainer: str, seeds: Sequence[int]
) -> dict[str, Any]:
    rows = results.rows(experiment.summary(recipe, explainer, seeds)) if seeds else []
    if not rows:
        return {"value": np.nan, "low": np.nan, "high": np.nan, "acu": [np.nan] * 3, "count": 0}
    (row,) = rows
    extra = json.loads(row["extra"])
    acu = [extra["acu"], *extra["acu_interval"]] if "acu" in extra else [np.nan] * 3
    return {**{key: np.nan if value is None else value for key, value in row.items()}, "acu": acu}


def in_distribution(
    experiments: Sequence[FmmExperiment], results: Results, asked: Mapping[str, Sequence[str]]
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
            share = statistics.mean([below[key] for key in keys if key in below])
            if len(p):
                lowest, least = float(p.min()), smallest[training, references, variant]
                cases = int((p < LEVEL).sum())
                rows.append([experiment.name, training, references, variant, f"{cases} of {len(p)}", lowest,
                             100 * share, least])  # fmt: skip
                facts[f"{experiment.name} {training} {references} {variant}"] = {
                    "out": cases, "of": len(p), "lowest": lowest, "texts_below": share, "smallest": least,
                }  # fmt: skip
    columns = ("data", "training", "references", "variant", f"p < {LEVEL}", "lowest p", f"texts with p < {LEVEL}, %",
               "smallest possible p")  # fmt: skip
    words = (
        "Cases: explainers × masking ratios above 0 × seeds; a case's p is Simes's over all texts. Every training is "
        "tested on the erased inputs that were measured for it, against the same texts, whole, half masked (as in "
        "masked fine-tuning) or all masked. In-distribution is the null hypothesis: it cannot be proven."
    )
    yield Section(
        "in_distribution", f"Out of distribution: {names(experiments)}, by references", columns, rows, words, facts
    )


def _p_values(
    experiment: FmmExperiment, results: Results, asked: Mapping[str, Sequence[str]]
) -> tuple[P, dict[tuple[str, str, str, str], float], dict[tuple[str, str, str], float]]:
    """Data-set p-values; the share of texts (and ratios above 0) below 0.05; the smallest p there could be."""
    found: dict[tuple[str, str, str, str], list[list[float]]] = {}
    below: dict[tuple[str, str, str, str], list[float]] = {}
    smallest: dict[tuple[str, str, str], float] = {}
    for training, explainers in asked.items():
        for explainer, seed in itertools.product(explainers, experiment.seeds):
            by_test: dict[tuple[str, str], list[list[float]]] = {}
            for row in results.rows(experiment.check(TRAININGS[training], explainer, seed)):
                by_test.setdefault((row["references"], row["variant"]), []).append(row["p"])
                test = (training, row["references"], row["variant"])
                smallest[test] = max(row["smallest"], smallest.get(test, 0.0))
            for (references, variant), values in by_test.items():
                p = np.array(values)  # [examples, ratios]
                key = (training, references, variant, explainer)
                found.setdefault(key, []).append([data_set_p_value(column) for column in p.T])
                below.setdefault(key, []).append(float((p[:, 1:] < LEVEL).mean()))
    return (
        {key: np.array(values) for key, values in found.items()},
        {key: statistics.mean(values) for key, values in below.items()},
        smallest,
    )


def _p_by_ratio(experiment: FmmExperiment, found: P, variant: str) -> Section:
    means = {
        (training, references, measure_name(explainer)): values.mean(0).tolist()
        for (training, references, tested, explainer), values in found.items()
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
