"""The tables and figures of the page that rest on single examples: curves, agreement, words, calibration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from troth.core.sheet import plain_sheet
from troth.report import drawings
from troth.report.gallery import Exhibit

Facts = Mapping[str, Any]  # a board as page_board.py gives it


def overview(facts: Facts) -> Iterator[Exhibit]:
    """As far as the run has them."""
    if facts["curves"]:
        yield _curves(facts)
    if len(facts["agreement"]["explainers"]["names"]) > 1:
        yield _agreement(facts)
    if any(words for by_class in facts["words"].values() for words in by_class.values()):
        yield _words(facts)
    if facts["performance"] is not None:
        yield _calibration(facts)


def _curves(facts: Facts) -> Exhibit:
    rows: list[tuple[Any, ...]] = []
    short = {metric["name"]: metric["short"] for metric in facts["metrics"]}
    panels: dict[str, dict[str, Any]] = {}
    for curve in facts["curves"]:
        lines = panels[f"{short[curve['metric']]}: share {'kept' if curve['kept'] else 'erased'}"] = {}
        for name, line in curve["lines"].items():
            lines[name] = line
            points = zip(line["ratios"], line["mean"], line["low"], line["high"], strict=True)
            rows += [(curve["metric"], name, *point, line["examples"]) for point in points]
    sheet = plain_sheet(
        f"Probability of the class as units are erased or kept: {facts['title']}",
        ("metric", "explainer", "share", "mean", "low", "high", "examples"),
        rows,
        ["Means over examples with 95 % intervals; share: of the units erased or, where the metric keeps, kept."],
        draw=lambda figure: drawings.draw_bands(figure, panels),
    )
    return Exhibit("mean_curves", sheet)


def _agreement(facts: Facts) -> Exhibit:
    names, values = facts["agreement"]["explainers"]["names"], facts["agreement"]["explainers"]["values"]
    pairs = {
        (one, other): float("nan") if values[row][column] is None else values[row][column]
        for row, one in enumerate(names)
        for column, other in enumerate(names)
        if column > row
    }
    sheet = plain_sheet(
        f"How far explainers agree on which units matter: {facts['title']}",
        ("explainer", "other", "spearman"),
        [(*pair, value) for pair, value in pairs.items()],
        ["Spearman's correlation of the magnitudes in a text, averaged over texts."],
        draw=lambda figure: drawings.draw_heat(figure, names, pairs),
    )
    return Exhibit("explainer_agreement", sheet)


def _words(facts: Facts) -> Exhibit:
    labels = facts["labels"]
    groups: dict[str, dict[str, float]] = {}
    rows = []
    for place, (explainer, by_class) in enumerate(facts["words"].items()):
        for target, words in by_class.items():
            label = labels[int(target)] if int(target) < len(labels) else target
            rows += [(explainer, label, one["word"], one["score"], one["examples"]) for one in words]
            if place == 0 and words:
                groups[f"{explainer}: toward {label}"] = {one["word"]: one["score"] for one in words}
    sheet = plain_sheet(
        f"Most important words: {facts['title']}",
        ("explainer", "class", "word", "score", "examples"),
        rows,
        ["Scores are relative to the largest in their text, averaged over the texts a word is in and one more without "
         "it. The figure shows the first explainer."],
        draw=lambda figure: drawings.draw_bars(figure, groups),
    )  # fmt: skip
    return Exhibit("words", sheet)


def _calibration(facts: Facts) -> Exhibit:
    found = facts["performance"]
    rows = [(one["sure"], one["right"], one["examples"]) for one in found["calibration"]]
    sheet = plain_sheet(
        f"Is the model right as often as it is sure? {facts['title']}",
        ("sure", "right", "examples"),
        rows,
        [f"Accuracy {found['accuracy']:.3f} [{found['low']:.3f}, {found['high']:.3f}] on {found['examples']} labeled "
         f"examples; calibration error {found['calibration_error']:.3f}."],
        draw=lambda figure: drawings.draw_calibration(figure, rows),
    )  # fmt: skip
    return Exhibit("calibration", sheet)
