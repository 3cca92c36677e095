"""Are the erased inputs that were measured in distribution? By training, explainer and what they are compared with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from troth import statistics
from troth.metrics.formulas import Floats
from troth.studies import Section
from troth.studies._figures import Line, draw_lines
from troth.studies._results import Results
from troth.studies.fmm._experiment import TRAININGS, FmmExperiment, measure_name, names
from troth.studies.fmm._works import REFERENCES
from troth.validity.checking import LEVEL, VARIANTS
from troth.validity.masf import data_set_p_value

P = dict[tuple[str, str, str, str], Floats]  # training, references, variant, explainer -> [seeds, ratios] data-set p


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
