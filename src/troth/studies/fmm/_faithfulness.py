"""How faithful each importance measure is: areas between the curves of performance, next to the published ones."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from troth import statistics
from troth.studies import Section
from troth.studies._figures import Line, draw_lines
from troth.studies._numbers import estimate, percent
from troth.studies._results import Results
from troth.studies.fmm._experiment import RANDOM, SIGNED, TRAININGS, FmmExperiment, measure_name, names, printed
from troth.studies.fmm._numbers import INTERVAL, areas, curves


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
