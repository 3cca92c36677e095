"""The results of a run as a list of tables, most of them with a figure, that every format renders.

The page of a run, plain HTML, csv, LaTeX, Markdown and figures all take their values from here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from troth.core.errors import TrothError
from troth.core.sheet import Column, Sheet, TableCell, plain_sheet
from troth.metrics import Summary
from troth.report import export, figures
from troth.report.board import Leaderboard
from troth.report.wording import folded, short_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TELLING = "Which metrics can tell real explanations from random ones?"
_TEXTS = {".csv": "csv", ".tex": "latex", ".md": "markdown"}
Rows = Sequence[Sequence[Any]]


class Exhibit(NamedTuple):
    """A table, optionally with a figure, and the name for its files."""

    name: str
    sheet: Sheet
    drawn: Mapping[str, bytes] = MappingProxyType({})  # the figure by file suffix, if it was drawn when it was computed


def _exhibit(
    name: str,
    title: str,
    fields: Sequence[str],
    rows: Rows,
    note: str = "",
    draw: Callable[[Figure], None] | None = None,
) -> Exhibit:
    return Exhibit(name, plain_sheet(title, fields, rows, [note] if note else [], draw))


def board_exhibits(board: Leaderboard) -> Iterator[Exhibit]:
    """All tables and figures of a leaderboard, as far as they were measured."""
    names, meta, title = short_names(board.metrics), board.meta, board.title
    yield Exhibit("leaderboard", board.sheet())
    erased = {
        (metric, explainer): summary
        for metric in board.metrics
        for explainer, summary in board.of_metric(metric).items()
        if "explained" in summary.extra
    }
    if erased:
        curves = [
            (*key, *map(float, point))
            for key, summary in erased.items()
            for point in zip(*(summary.extra[part] for part in ("ratios", "explained", "random")), strict=True)
        ]
        areas: Rows = [
            (*key, area, *map(float, numbers))
            for key, summary in erased.items()
            for area, numbers in (
                ("RACU", (summary.value, summary.low, summary.high)),
                ("ACU", (summary.extra["acu"], *summary.extra["acu_interval"])),
            )
        ]
        yield _exhibit(
            "curves",
            f"Performance as units are erased: {title}",
            ("metric", "explainer", "erased", "explained", "random"),
            curves,
            "Erased: the share of units; explained and random: in whose order.",
            lambda figure: figures.draw_curves(figure, _lines(erased, names)),
        )
        yield _exhibit(
            "racu",
            f"Area between the curves: {title}",
            ("metric", "explainer", "area", "value", "low", "high"),
            areas,
            "ACU: area between the curve of the explanation and that of random units; RACU: as a share of the "
            "largest that is possible. Intervals: 95 % over examples; 0: no better than random.",
            lambda figure: figures.draw_dots(
                figure,
                _grouped((f"{area} ({names[m]})", e, TableCell(*numbers)) for m, e, area, *numbers in areas),
                0.0,
            ),
        )
    if meta is not None and meta.diagnosticities:
        fields = ("metric", "value", "low", "high", "won", "tied", "lost", "undefined")
        rows: Rows = [[getattr(known, field) for field in fields] for known in meta.diagnosticities]
        yield _exhibit(
            "diagnosticity",
            f"{TELLING} {title}",
            ("metric", "diagnosticity", *fields[2:]),
            rows,
            "Diagnosticity: the share of pairs in which the metric puts the explanation before a random one.",
            lambda figure: figures.draw_dots(
                figure,
                _grouped(("diagnosticity", names[m], TableCell(float(row[0]), *row[1:3])) for m, *row in rows),
                0.5,
            ),
        )
    if meta is not None and meta.agreement:
        pairs = [(first, second, float(tau)) for (first, second), tau in meta.agreement.items()]
        compared = [names[known.metric] for known in meta.diagnosticities]
        yield _exhibit(
            "agreement",
            f"How far metrics agree on the ranking of explainers: {title}",
            ("metric", "other", "kendall_tau"),
            pairs,
            "Kendall's τ: 1 is the same ranking, −1 the opposite.",
            lambda figure: figures.draw_heat(
                figure, compared, {(names[first], names[second]): tau for first, second, tau in pairs}
            ),
        )
    if board.deciding:
        costs = [
            (explainer, metric, float(summary.value), 1000 * board.seconds[explainer], board.passes[explainer])
            for metric in board.deciding
            for explainer, summary in board.of_metric(metric).items()
        ]
        heads = {metric: Column(names[metric], board.directions[metric]).head for metric in board.deciding}
        yield _exhibit(
            "cost",
            f"Cost and faithfulness: {title}",
            ("explainer", "metric", "value", "ms", "passes"),
            costs,
            "ms and passes are per example.",
            lambda figure: figures.draw_costs(
                figure, board.seconds, _grouped((heads[m], e, value) for e, m, value, *_ in costs)
            ),
        )
    if board.stamps:
        stamps = [
            (metric, stamp.verdict, math.nan if stamp.p is None else float(stamp.p), stamp.ratio, stamp.why)
            for metric, stamp in board.stamps.items()
        ]
        of_stamp = ("metric", "verdict", "p", "lowest_at", "why")
        yield _exhibit("validity", f"Are erased inputs in distribution? {title}", of_stamp, stamps)
    if board.seeds > 1:
        spreads = [(*key, float(summary.spread), summary.seeds) for key, summary in board.summaries.items()]
        of_spread = ("explainer", "metric", "standard_deviation", "seeds")
        yield _exhibit("seeds", f"Standard deviation from seed to seed: {title}", of_spread, spreads)


def _lines(erased: Mapping[tuple[str, str], Summary], names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The curves by metric and name; the random curve is that of the metric's first explainer."""
    curves: dict[str, dict[str, Any]] = {}
    for (metric, explainer), summary in erased.items():
        lines, extra = curves.setdefault(names[metric], {}), summary.extra
        lines[explainer] = (extra["ratios"], extra["explained"])
        lines.setdefault("random", (extra["ratios"], extra["random"]))
    return curves


def _grouped(items: Iterable[tuple[str, str, Any]]) -> dict[str, dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = {}
    for group, name, value in items:
        groups.setdefault(group, {})[name] = value
    return groups


def notes(board: Leaderboard) -> dict[str, list[str]]:
    """Notes on a leaderboard: titles with the lines below them."""
    undefined = [
        f"{explainer} × {metric}: {count} undefined, {why}"
        for (explainer, metric), summary in board.summaries.items()
        for why, count in summary.undefined.items()
    ]
    parts = {
        TELLING: board.meta.sentences() if board.meta else [],
        "Undefined scores": undefined,
        "Not computed": folded(board.failures),
        "Skipped": folded(board.skipped),
    }
    return {title: lines for title, lines in parts.items() if lines}


def example_exhibits(facts: Mapping[str, Any]) -> Iterator[Exhibit]:
    """The tables and figures that are computed from single examples, from the facts of page_board.py."""
    title, labels = facts["title"], facts["labels"]
    if facts["curves"]:
        short = {metric["name"]: metric["short"] for metric in facts["metrics"]}
        panels = {
            f"{short[curve['metric']]}: share {'kept' if curve['kept'] else 'erased'}": curve["lines"]
            for curve in facts["curves"]
        }
        rows = [
            (curve["metric"], name, *point, line["examples"])
            for curve in facts["curves"]
            for name, line in curve["lines"].items()
            for point in zip(*(line[part] for part in ("ratios", "mean", "low", "high")), strict=True)
        ]
        yield _exhibit(
            "mean_curves",
            f"Probability of the class as units are erased or kept: {title}",
            ("metric", "explainer", "share", "mean", "low", "high", "examples"),
            rows,
            "Means over examples with 95 % intervals; share: of the units erased or, where the metric keeps, kept.",
            lambda figure: figures.draw_bands(figure, panels),
        )
    names, values = facts["agreement"]["explainers"]["names"], facts["agreement"]["explainers"]["values"]
    if len(names) > 1:
        pairs = {
            (names[row], names[column]): math.nan if values[row][column] is None else values[row][column]
            for row, column in combinations(range(len(names)), 2)
        }
        yield _exhibit(
            "explainer_agreement",
            f"How far explainers agree on which units matter: {title}",
            ("explainer", "other", "spearman"),
            [(*pair, value) for pair, value in pairs.items()],
            "Spearman's correlation of the magnitudes in a text, averaged over texts.",
            lambda figure: figures.draw_heat(figure, names, pairs),
        )
    words = [
        (explainer, labels[int(target)] if int(target) < len(labels) else target, *word.values())
        for explainer, by_class in facts["words"].items()
        for target, some in by_class.items()
        for word in some
    ]
    if words:
        first = next(iter(facts["words"]))
        yield _exhibit(
            "words",
            f"Most important words: {title}",
            ("explainer", "class", "word", "score", "examples"),
            words,
            "Scores are relative to the largest in their text, averaged over the texts a word is in and one more "
            "without it. The figure shows the first explainer.",
            lambda figure: figures.draw_bars(
                figure, _grouped((f"{e}: toward {c}", word, score) for e, c, word, score, _ in words if e == first)
            ),
        )
    if (known := facts["performance"]) is not None:
        bins = [(part["sure"], part["right"], part["examples"]) for part in known["calibration"]]
        yield _exhibit(
            "calibration",
            f"Is the model right as often as it is sure? {title}",
            ("sure", "right", "examples"),
            bins,
            f"Accuracy {known['accuracy']:.3f} [{known['low']:.3f}, {known['high']:.3f}] on {known['examples']} "
            f"labeled examples; calibration error {known['calibration_error']:.3f}.",
            lambda figure: figures.draw_calibration(figure, bins),
        )


def named(sheets: Iterable[Sheet]) -> list[Exhibit]:
    """Sheets as exhibits whose files have the names of their titles."""
    return [Exhibit(sheet.title, sheet) for sheet in sheets]


def write(folder: Path, shown: Iterable[Exhibit]) -> list[Path]:
    """Writes the files of every exhibit, numbered in order; other files in the folder are kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrothError(f"cannot write {folder}: {error.strerror}; choose another place") from None
    paths = []
    for number, (name, sheet, drawn) in enumerate(shown, start=1):
        stem = f"{number:02}-{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_') or 'table'}"
        contents = {ending: export.text([sheet], form).encode() for ending, form in _TEXTS.items()} | dict(drawn)
        if sheet.draw is not None:
            figure = figures.plot([sheet])
            contents |= {ending: figures.as_file(figure, ending) for ending in figures.ENDINGS}
        for ending, content in contents.items():
            paths.append(folder / f"{stem}{ending}")
            export.write(paths[-1], content, own=True)
    return paths
