"""Figures 2 and 3 of the soft-metrics study: NS and NC at each length of the rationale."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from troth.metrics._erasing import AOPC_RATIOS
from troth.studies import Section
from troth.studies._results import Results
from troth.studies.soft._experiment import (
    HARD,
    METHODS,
    SOFT,
    Pairs,
    SoftExperiment,
    by_ratio,
    mean_diagnosticity,
    means,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
            faithfulness[experiment.name, metric, name] = means(scores, axis=(0, 1)).tolist()
        wins = [
            [
                Pairs(by_method[name][..., place], by_method["random"][..., place]).diagnosticity
                for place in range(len(AOPC_RATIOS))
            ]
            for name in METHODS
        ]
        shares[experiment.name, metric] = means(wins, axis=0).tolist()
    soft: dict[tuple[str, ...], float] = {
        (experiment.name, metric): mean_diagnosticity(experiment, results, specs[metric][0])
        for experiment, metric in itertools.product(experiments, SOFT)
    }
    yield Section(
        "lengths", "Figure 2: NS and NC by rationale length", ("data", "metric", "attribution", *_RATIOS),
        _rows(faithfulness), "Means over texts and seeds.", {"faithfulness": _named(faithfulness)},
        partial(_draw_faithfulness, curves=faithfulness),
    )  # fmt: skip
    flat = {key: [value] * len(AOPC_RATIOS) for key, value in soft.items()}
    yield Section(
        "lengths", "Figure 3: diagnosticity by rationale length", ("data", "metric", *_RATIOS),
        [*_rows(shares), *_rows(flat)], "Means over attributions; the soft metrics have no length.",
        {"diagnosticity": _named(shares)}, partial(_draw_diagnosticity, shares=shares, soft=soft),
    )  # fmt: skip


def _rows(curves: Curves) -> list[list[Any]]:
    return [[*key, *values] for key, values in curves.items()]


def _named(curves: Curves) -> dict[str, Sequence[float]]:
    return {" ".join(key): values for key, values in curves.items()}


def _draw_faithfulness(figure: Figure, curves: Curves) -> None:
    panels = list(dict.fromkeys(key[:2] for key in curves))
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for (*about, method), values in curves.items():
            if tuple(about) == panel:
                style = "--" if method == "random" else "-"
                axes.plot(AOPC_RATIOS, values, style, marker="o", markersize=3, label=method)
        axes.set_title(", ".join(panel), fontsize=9)
        axes.set_xlabel("rationale length")
    axes.legend(fontsize=7)


def _draw_diagnosticity(figure: Figure, shares: Curves, soft: Mapping[tuple[str, ...], float]) -> None:
    names = list(dict.fromkeys(name for name, _ in shares))
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for metric in HARD:
            axes.plot(AOPC_RATIOS, shares[name, metric], marker="o", markersize=3, label=metric)
        for metric, color in zip(SOFT, ("C2", "C3"), strict=True):
            axes.axhline(soft[name, metric], linestyle="--", label=metric, color=color)
        axes.axhline(0.5, color="gray", linewidth=0.5)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("rationale length")
        axes.set_ylabel("diagnosticity")
    axes.legend(fontsize=7)
