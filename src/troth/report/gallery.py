"""Every table and figure of a run as files for a paper: csv, LaTeX, Markdown, and SVG, PDF and PNG where drawn."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from troth.core.errors import TrothError
from troth.core.sheet import Cell, Column, Sheet, plain_sheet
from troth.metrics._diagnosticity import MetaReport
from troth.report import drawings, export, figures
from troth.report.board import Leaderboard
from troth.report.board_sheet import short_names

_TEXTS = {".csv": "csv", ".tex": "latex", ".md": "markdown"}


class Exhibit(NamedTuple):
    """A table, perhaps with its figure, and the name of its files."""

    name: str
    sheet: Sheet
    drawn: Mapping[str, bytes] = MappingProxyType({})  # the figure by ending, where it was drawn when it was computed


def exhibits(board: Leaderboard) -> Iterator[Exhibit]:
    """All that a leaderboard has to show, as far as it was measured."""
    yield Exhibit("leaderboard", board.sheet())
    yield from _curves(board)
    if board.meta is not None and board.meta.diagnosticities:
        yield Exhibit("diagnosticity", _diagnosticity(board, board.meta))
    if board.meta is not None and board.meta.agreement:
        yield Exhibit("agreement", _agreement(board, board.meta))
    if board.deciding:
        yield Exhibit("cost", _cost(board))
    if board.stamps:
        yield Exhibit("validity", _validity(board))
    if board.seeds > 1:
        yield Exhibit("seeds", _spreads(board))


def write(folder: Path, shown: Iterable[Exhibit]) -> list[Path]:
    """The files of every exhibit, numbered in order; other files of the folder stay."""
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


def _curves(board: Leaderboard) -> Iterator[Exhibit]:
    """Performance as more is erased, and the area between an explanation's curve and the random one, where measured."""
    names = short_names(board.metrics)
    rows, areas = [], []
    curves: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    dots: dict[str, dict[str, Cell]] = {}
    for metric in board.metrics:
        for explainer in board.explainers:
            summary = board.summaries.get((explainer, metric))
            if summary is None or "ratios" not in summary.extra or "explained" not in summary.extra:
                continue
            extra, lines = summary.extra, curves.setdefault(names[metric], {})
            lines[explainer] = (extra["ratios"], extra["explained"])
            lines.setdefault("random", (extra["ratios"], extra["random"]))
            points = zip(extra["ratios"], extra["explained"], extra["random"], strict=True)
            rows += [(metric, explainer, *map(float, point)) for point in points]
            relative = Cell(float(summary.value), float(summary.low), float(summary.high))
            low, high = extra["acu_interval"]
            absolute = Cell(float(extra["acu"]), float(low), float(high))
            for head, cell in {"RACU": relative, "ACU": absolute}.items():
                dots.setdefault(f"{head} ({names[metric]})", {})[explainer] = cell
                areas.append((metric, explainer, head, cell.value, cell.low, cell.high))
    if not rows:
        return
    yield Exhibit(
        "curves",
        plain_sheet(
            f"Performance as units are erased: {board.title}",
            ("metric", "explainer", "erased", "explained", "random"),
            rows,
            ["Erased: the share of units; explained and random: in whose order."],
            draw=lambda figure: drawings.draw_curves(figure, curves),
        ),
    )
    yield Exhibit(
        "racu",
        plain_sheet(
            f"Area between the curves: {board.title}",
            ("metric", "explainer", "area", "value", "low", "high"),
            areas,
            [
                "ACU: area between the curve of the explanation and that of random units; RACU: as a share of the "
                "largest that is possible. Intervals: 95 % over examples; 0: no better than random."
            ],
            draw=lambda figure: drawings.draw_dots(figure, dots, level=0.0),
        ),
    )


def _diagnosticity(board: Leaderboard, meta: MetaReport) -> Sheet:
    names = short_names(board.metrics)
    cells = {one.metric: Cell(float(one.value), float(one.low), float(one.high)) for one in meta.diagnosticities}
    rows = [
        (one.metric, one.value, one.low, one.high, one.won, one.tied, one.lost, one.undefined)
        for one in meta.diagnosticities
    ]
    plain = plain_sheet(
        f"Which metrics can tell real explanations from random ones? {board.title}",
        ("metric", "diagnosticity", "low", "high", "won", "tied", "lost", "undefined"),
        rows,
        ["Diagnosticity: the share of pairs in which the metric puts the explanation before a random one."],
    )
    return replace(
        plain,
        draw=lambda figure: drawings.draw_dots(
            figure, {"diagnosticity": {names[metric]: cell for metric, cell in cells.items()}}, level=0.5
        ),
    )


def _agreement(board: Leaderboard, meta: MetaReport) -> Sheet:
    names = short_names(board.metrics)
    compared = [one.metric for one in meta.diagnosticities]
    values = {(names[first], names[second]): tau for (first, second), tau in meta.agreement.items()}
    return plain_sheet(
        f"How far metrics agree on the ranking of explainers: {board.title}",
        ("metric", "other", "kendall_tau"),
        [(first, second, float(tau)) for (first, second), tau in meta.agreement.items()],
        ["Kendall's τ: 1 is the same ranking, −1 the opposite."],
        draw=lambda figure: drawings.draw_heat(figure, [names[metric] for metric in compared], values),
    )


def _cost(board: Leaderboard) -> Sheet:
    names = short_names(board.metrics)
    values = {
        metric: {
            explainer: float(board.summaries[explainer, metric].value)
            for explainer in board.explainers
            if (explainer, metric) in board.summaries
        }
        for metric in board.deciding
    }
    rows = [
        (explainer, metric, value, 1000 * board.seconds[explainer], board.passes[explainer])
        for metric, by_explainer in values.items()
        for explainer, value in by_explainer.items()
    ]
    heads = {Column(names[metric], board.directions[metric]).head: values[metric] for metric in values}
    return plain_sheet(
        f"Cost and faithfulness: {board.title}",
        ("explainer", "metric", "value", "ms", "passes"),
        rows,
        ["ms and passes are per example."],
        draw=lambda figure: drawings.draw_costs(figure, board.seconds, heads),
    )


def _validity(board: Leaderboard) -> Sheet:
    rows = [
        (metric, stamp.verdict, math.nan if stamp.p is None else float(stamp.p), stamp.ratio, stamp.why)
        for metric, stamp in board.stamps.items()
    ]
    return plain_sheet(
        f"Are erased inputs in distribution? {board.title}", ("metric", "verdict", "p", "lowest_at", "why"), rows
    )


def _spreads(board: Leaderboard) -> Sheet:
    rows = [
        (explainer, metric, float(summary.spread), summary.seeds)
        for (explainer, metric), summary in board.summaries.items()
    ]
    title = f"Standard deviation from seed to seed: {board.title}"
    return plain_sheet(title, ("explainer", "metric", "standard_deviation", "seeds"), rows)
