"""How faithful each importance measure is: areas between the curves of performance, next to the published ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from troth.metrics.formulas import Floats
from troth.studies import Section
from troth.studies._trained import Results
from troth.studies.fmm import _figures
from troth.studies.fmm._experiment import RANDOM, SIGNED, TRAININGS, Experiment, measure_name, names, printed
from troth.studies.fmm._numbers import INTERVAL, areas, curves, mean, mean_curve, over_seeds, percent


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
                lines[training, name] = mean_curve([explained for explained, _ in both])
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
            "Signed measures can exceed 100 %: compare ACU. The paper has no faithfulness of plain models: their "
            "masked inputs may be out of distribution."
        )
        yield Section(
            "faithfulness", f"Figure 5 and Table 11: {experiment.name}, faithfulness", columns, rows,
            " ".join([words, *notes]), facts,
            partial(_figures.faithfulness, ratios=experiment.ratios, lines=lines, signed=SIGNED),
        )  # fmt: skip
    if len(experiments) > 1:
        rows = [
            [*key, 100 * mean([one[0] for one in found]), 100 * mean([one[1] for one in found]),
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
