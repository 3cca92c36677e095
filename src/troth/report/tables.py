"""A leaderboard as a terminal table and as an HTML table."""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.report import page
from troth.report.board import RANDOM, Leaderboard, leaderboards
from troth.report.rows import LEADERBOARD as LEADERBOARD
from troth.report.rows import as_dict as as_dict
from troth.report.rows import as_table as as_table
from troth.store.store import Store
from troth.validity.stamp import Stamp

if TYPE_CHECKING:
    from rich.console import Group

_ARROWS = {True: "↑", False: "↓", None: ""}


def heads(board: Leaderboard) -> list[str]:
    """Metric names with an arrow to the better side."""
    return [f"{metric} {_ARROWS[board.directions[metric]]}".strip() for metric in board.metrics]


def cell(board: Leaderboard, explainer: str, metric: str) -> tuple[str, str, str]:
    """Value, interval and significance letters of one cell."""
    summary = board.summaries.get((explainer, metric))
    if summary is None or np.isnan(summary.value):
        return "–", "", ""
    return (
        f"{summary.value:.3f}",
        f"[{summary.low:.3f}, {summary.high:.3f}]",
        board.groups.get(metric, {}).get(explainer, ""),
    )


def table(board: Leaderboard, order: Sequence[str] | None = None, width: int = 80) -> Group:
    """For the terminal: best of a column in bold, dim where no better than random; a narrow one has its names below."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    wide = width >= 40 + sum(len(head) + 2 for head in heads(board))
    shown = Table(
        title=Text(board.title, "bold"), title_justify="left", box=None, padding=(0, 0, 0, 1), show_edge=False
    )
    shown.add_column("explainer", style="cyan", no_wrap=True)
    for number, metric in enumerate(board.metrics, start=1):
        arrow = _ARROWS[board.directions[metric]]
        shown.add_column(Text(heads(board)[number - 1] if wide else f"{number} {arrow}"), justify="right", no_wrap=True)
    shown.add_column("ms", justify="right", style="dim", no_wrap=True)
    if wide:
        shown.add_column("passes", justify="right", style="dim")
    best = {metric: board.sorted_by(metric)[0] for metric in board.metrics if board.directions[metric] is not None}
    for explainer in order or board.explainers:
        cells = []
        for metric in board.metrics:
            value, _, letters = cell(board, explainer, metric)
            shown_value = f"{value} {letters}".rstrip() if wide else value
            text = Text(shown_value, style="bold" if best.get(metric) == explainer else "")
            text.append(f"\n{_short_interval(board, explainer, metric)}", style="dim not bold")
            if explainer != RANDOM and board.beats_random.get((explainer, metric)) is False:
                text.stylize("dim")
            cells.append(text)
        cost = [f"{1000 * board.seconds[explainer]:.0f}", f"{board.passes[explainer]:.0f}"]
        shown.add_row(Text(explainer), *cells, *(cost if wide else cost[:1]))
    if board.stamps:
        shown.add_row("erased inputs in\ndistribution?", *(_verdict(board.stamps[metric]) for metric in board.metrics))
    legend = (
        [] if wide else [Text(f"{number}  {head}", style="dim") for number, head in enumerate(heads(board), start=1)]
    )
    return Group(shown, Text(), *legend)


def _verdict(stamp: Stamp) -> str:
    if stamp.p is None:
        return "not\ntested"
    verdict = "no\nevidence\nagainst" if stamp.verdict == "no evidence against" else "out"
    return f"{verdict}\np {stamp.p:.2g}"


def _short_interval(board: Leaderboard, explainer: str, metric: str) -> str:
    summary = board.summaries.get((explainer, metric))
    if summary is None or np.isnan(summary.low):
        return ""
    low, high = (
        f"{bound:.2f}".replace("0.", ".", 1) if abs(bound) < 1 else f"{bound:.1f}"
        for bound in (summary.low, summary.high)
    )
    return f"{low} {high}"


def html(board: Leaderboard) -> str:
    """Everything a reader of the report needs of one leaderboard, escaped."""
    rows = []
    for explainer in board.explainers:
        cells = [" ".join(filter(None, cell(board, explainer, metric))) for metric in board.metrics]
        rows.append([explainer, *cells, f"{1000 * board.seconds[explainer]:.0f}", f"{board.passes[explainer]:.0f}"])
    if board.stamps:
        stamps = [board.stamps[metric] for metric in board.metrics]
        rows.append(["erased inputs", *(stamp.verdict if stamp.p is None else str(stamp) for stamp in stamps), "", ""])
    parts = [page.table(board.title, ["explainer", *heads(board), "ms per example", "passes per example"], rows)]
    parts.append(_list(board.answer()))
    parts.append(
        '<p class="muted">95 % intervals in brackets. Explainers that share a letter do not differ significantly on '
        "that metric (paired t-tests, Holm's correction). An arrow points to the better side.</p>"
    )
    if board.meta is not None:
        parts.append(
            "<h2>Which metrics can tell real explanations from random ones?</h2>" + _list(board.meta.sentences())
        )
    untested = [f"{metric}: {stamp}" for metric, stamp in board.stamps.items() if stamp.p is None]
    if untested:
        parts.append("<h2>Not tested for being in distribution</h2>" + _list(untested))
    if board.seeds > 1:
        parts.append(_spreads(board))
    undefined = _undefined(board)
    if undefined:
        parts.append("<h2>Undefined scores</h2>" + _list(undefined))
    if board.failures:
        parts.append("<h2>Not computed</h2>" + _list(f"{what}: {why}" for what, why in board.failures.items()))
    if board.skipped:
        parts.append("<h2>Skipped</h2>" + _list(f"{what}: {why}" for what, why in board.skipped.items()))
    return "".join(parts)


def _undefined(board: Leaderboard) -> list[str]:
    return [
        f"{explainer} × {metric}: {count} undefined, {why}"
        for (explainer, metric), summary in board.summaries.items()
        for why, count in summary.undefined.items()
    ]


def _spreads(board: Leaderboard) -> str:
    rows = []
    for explainer in board.explainers:
        row = (board.summaries.get((explainer, metric)) for metric in board.metrics)
        spreads = [
            "–" if cell is None or np.isnan(cell.spread) else f"{cell.spread:.3f} ({cell.seeds})" for cell in row
        ]
        rows.append([explainer, *spreads])
    caption = "Standard deviation from seed to seed (number of seeds); not part of the intervals above"
    return page.table(caption, ["explainer", *board.metrics], rows)


def _list(lines: Any) -> str:
    return "<ul>" + "".join(f"<li>{markup.escape(line)}</li>" for line in lines) + "</ul>"


def write_report(store: Store, path: Path, computed: Sequence[Leaderboard] = ()) -> None:
    """One page with every leaderboard of a run; those that are `computed` and still hold are not computed again."""
    page.write(path, f"troth: {store.folder.name}", [html(board) for board in leaderboards(store, computed=computed)])
