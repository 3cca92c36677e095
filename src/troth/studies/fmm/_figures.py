"""The figures of the FMM study, drawn from its tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from troth.metrics.formulas import Floats


def by_ratio(
    figure: Figure,
    ratios: Sequence[float],
    ranges: Mapping[str, Sequence[tuple[float, float, float]]],
    majority: float,
) -> None:
    """Performance by masking ratio, a line per training."""
    axes = figure.subplots()
    for training, values in ranges.items():
        line = axes.plot(ratios, [value for value, _, _ in values], marker="o", markersize=3, label=training)
        low, high = [one for _, one, _ in values], [one for _, _, one in values]
        axes.fill_between(ratios, low, high, alpha=0.2, color=line[0].get_color())
    axes.axhline(majority, linestyle="--", color="gray", label="class majority")
    axes.set_xlabel("masked at random")
    axes.set_ylabel("performance")
    axes.legend(fontsize=8)


def by_epoch(figure: Figure, means: Mapping[str, Sequence[float]]) -> None:
    """Validation performance by epoch."""
    axes = figure.subplots()
    for name, values in means.items():
        style = "--" if name.endswith(", masked") else "-"
        axes.plot(range(1, len(values) + 1), values, style, marker="o", markersize=3, label=name)
    axes.set_xlabel("epoch")
    axes.set_ylabel("validation performance")
    axes.legend(fontsize=8)


def p_by_ratio(
    figure: Figure, ratios: Sequence[float], means: Mapping[tuple[str, str, str], Sequence[float]], level: float
) -> None:
    """p by masking ratio: trainings down, references across, a line per measure."""
    trainings, references = ([*dict.fromkeys(key[place] for key in means)] for place in range(2))
    if not means:
        return
    panels = figure.subplots(len(trainings), len(references), squeeze=False, sharex=True, sharey=True)
    styles = _colors({measure for _, _, measure in means})
    for (training, kind, measure), values in means.items():
        axes = panels[trainings.index(training), references.index(kind)]
        axes.plot(ratios, values, color=styles[measure], linewidth=1, marker="o", markersize=2, label=measure)
    for row, training in enumerate(trainings):
        for column, kind in enumerate(references):
            panels[row, column].axhline(level, linestyle="--", color="gray", linewidth=0.8)
            panels[row, column].set_title(f"{training}, references {kind}", fontsize=8)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), fontsize=6, loc="outside right center")
    figure.supxlabel("masked", fontsize=9)
    figure.supylabel("p", fontsize=9)


def faithfulness(
    figure: Figure, ratios: Sequence[float], lines: Mapping[tuple[str, str], Floats], signed: Collection[str]
) -> None:
    """Performance by masking ratio in the order of each measure, next to random order: trainings down."""
    drawn = {key: values for key, values in lines.items() if len(values)}
    trainings = [*dict.fromkeys(training for training, name in drawn if name != "Random")]
    if not trainings:
        return
    panels = figure.subplots(len(trainings), 2, squeeze=False, sharex=True, sharey=True)
    styles = _colors({name for _, name in drawn})
    for row, training in enumerate(trainings):
        for column, kind in enumerate(("absolute", "signed")):
            axes = panels[row, column]
            for (of, name), values in drawn.items():
                if of != training or (name != "Random" and (name in signed) != (kind == "signed")):
                    continue
                style = "--" if name == "Random" else "-"
                color = "gray" if name == "Random" else styles[name]
                axes.plot(ratios, values, style, color=color, marker="o", markersize=2, label=name)
            axes.set_title(f"{training}, {kind}", fontsize=8)
            axes.legend(fontsize=6)
    figure.supxlabel("masked", fontsize=9)
    figure.supylabel("performance", fontsize=9)


def _colors(names: Collection[str]) -> dict[str, str]:
    """The same color for a name in every panel."""
    return {name: f"C{number % 10}" for number, name in enumerate(sorted(names))}
