"""A leaderboard as an HTML page; on a terminal it is `table`."""

from __future__ import annotations

import html as markup
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from troth.core.sheet import Cell, Sheet
from troth.report import export, page, run_page
from troth.report.board import Leaderboard, leaderboards
from troth.report.board_sheet import folded, sheet
from troth.report.gallery import Exhibit
from troth.report.page_data import page_data
from troth.report.rows import LEADERBOARD as LEADERBOARD
from troth.report.rows import as_dict as as_dict
from troth.report.rows import as_table as as_table
from troth.report.screen import table as table
from troth.store.store import Store


def html(board: Leaderboard) -> str:
    """Everything a reader of the report needs of one leaderboard, escaped."""
    shown = sheet(board)
    rows = [list(row) for row in shown.rows]
    if board.stamps:
        stamps = [board.stamps[metric] for metric in board.metrics]
        verdicts = [stamp.verdict if stamp.p is None else str(stamp) for stamp in stamps]
        rows.append([Cell(text) for text in ("erased inputs", *verdicts, "", "")])
    parts = [page.table(shown.title, [column.head for column in shown.columns], rows)]
    parts.append(_list(board.answer()))
    parts.append(f'<p class="muted">{markup.escape(" ".join(shown.notes))}</p>')
    if board.meta is not None:
        parts.append(
            "<h2>Which metrics can tell real explanations from random ones?</h2>" + _list(board.meta.sentences())
        )
    untested = {metric: str(stamp) for metric, stamp in board.stamps.items() if stamp.p is None}
    if untested:
        parts.append("<h2>Not tested for being in distribution</h2>" + _list(folded(untested)))
    if board.seeds > 1:
        parts.append(_spreads(board))
    undefined = _undefined(board)
    if undefined:
        parts.append("<h2>Undefined scores</h2>" + _list(undefined))
    if board.failures:
        parts.append("<h2>Not computed</h2>" + _list(folded(board.failures)))
    if board.skipped:
        parts.append("<h2>Skipped</h2>" + _list(folded(board.skipped)))
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
        rows.append([Cell(text) for text in (explainer, *spreads)])
    caption = "Standard deviation from seed to seed (number of seeds); not part of the intervals above"
    return page.table(caption, ["explainer", *board.metrics], rows)


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{markup.escape(line)}</li>" for line in lines) + "</ul>"


def write_report(
    store: Store, path: Path, computed: Sequence[Leaderboard] = (), exhibits: Sequence[Exhibit] = ()
) -> None:
    """One page with every leaderboard of a run and the tables and figures of a study.

    Leaderboards that are `computed` and still hold are not computed again.
    """
    is_own = path.parent.resolve() == store.folder.resolve()
    export.write(path, report_text(store, computed, exhibits).encode(), own=is_own)


def report_text(
    store: Store,
    computed: Sequence[Leaderboard] = (),
    exhibits: Sequence[Exhibit] = (),
    budget: float = run_page.BUDGET,
    home: str = "",
) -> str:
    """The same as text; examples beyond the budget in bytes are left out, and `home` is the page to go back to."""
    boards = leaderboards(store, computed=computed)
    plain = [plain_table(sheet) for _, sheet, _ in exhibits if sheet.rows]
    return run_page.render(page_data(store, boards, exhibits), [*plain, *map(html, boards)], budget, home)


def plain_table(sheet: Sheet) -> str:
    """A table for browsers without scripts."""
    return page.table(sheet.title, [column.head for column in sheet.columns], sheet.rows)
