"""Figures 2 and 3 of the soft-metrics study: NS and NC at each length of the rationale."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from troth import statistics
from troth.metrics._erasing import AOPC_RATIOS
from troth.studies import Section
from troth.studies._figures import Line, draw_lines
from troth.studies._results import Results
from troth.studies.soft._experiment import (
    HARD,
    METHODS,
    SOFT,
    Pairs,
    SoftExperiment,
    by_ratio,
    mean_diagnosticity,
)

Specs = Mapping[str, Sequence[str]]  # metric of the paper's tables -> specs
Curves = Mapping[tuple[str, ...], Sequence[float]]  # data, metric and perhaps attribution -> values by ratio
_RATIOS = tuple(f"{ratio:.0%}" for ratio in AOPC_RATIOS)


def lengths(experiments: Sequence[SoftExperiment], results: Results, specs: Specs) -> Iterator[Section]:
    faithfulness: dict[tuple[str, ...], list[float]] = {}
    shares: dict[tuple[str, ...], list[float]] = {}  # diagnosticity, mean over attributions
    for experiment, metric in itertools.product(experiments, HARD):
        spec = specs[metric][0]
        by_method = {name: by_ratio(experiment, results, name, metric, spec) for name in (*METHODS, "random")}
        for name, scores in by_method.items():
            by_place = scores.reshape(-1, len(AOPC_RATIOS)).T
            faithfulness[experiment.name, metric, name] = [statistics.mean(values) for values in by_place]
        shares[experiment.name, metric] = [
            statistics.mean([Pairs(by_method[name][..., place], by_method["random"][..., place]).diagnosticity
                             for name in METHODS])
            for place in range(len(AOPC_RATIOS))
        ]  # fmt: skip
    soft: dict[tuple[str, ...], list[float]] = {
        (experiment.name, metric): [mean_diagnosticity(experiment, results, specs[metric][0])] * len(AOPC_RATIOS)
        for experiment, metric in itertools.product(experiments, SOFT)
    }
    yield Section(
        "lengths", "Figure 2: NS and NC by rationale length", ("data", "metric", "attribution", *_RATIOS),
        _rows(faithfulness), "Means over texts and seeds.", {"faithfulness": _named(faithfulness)},
        partial(draw_lines, panels=_panels(faithfulness), across="rationale length", up="NS or NC"),
    )  # fmt: skip
    yield Section(
        "lengths", "Figure 3: diagnosticity by rationale length", ("data", "metric", *_RATIOS),
        [*_rows(shares), *_rows(soft)], "Means over attributions; the soft metrics have no length.",
        {"diagnosticity": _named(shares)},
        partial(draw_lines, panels=_panels({**shares, **soft}), across="rationale length", up="diagnosticity"),
    )  # fmt: skip


def _rows(curves: Curves) -> list[list[Any]]:
    return [[*key, *values] for key, values in curves.items()]


def _named(curves: Curves) -> dict[str, Sequence[float]]:
    return {" ".join(key): values for key, values in curves.items()}


def _panels(curves: Curves) -> dict[str, dict[str, Line]]:
    """By all but the last word of a curve's name, which is its own."""
    panels: dict[str, dict[str, Line]] = {}
    for (*panel, name), values in curves.items():
        panels.setdefault(", ".join(panel), {})[name] = Line(AOPC_RATIOS, values)
    return panels
