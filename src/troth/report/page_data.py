"""All that the page of a run shows, as JSON: computed from stored rows, the same in report.html and in `troth serve`.

`report` is small and drawn at once; `examples` is large, has the same boards in the same order, and may come later.
docs/report_page.md describes both.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from troth.core.sheet import Sheet
from troth.report.board import Leaderboard, leaderboards
from troth.report.gallery import Exhibit
from troth.report.glossary import TERMS
from troth.report.page_board import page_board
from troth.store.store import Store

VERSION = 2
_PICTURES = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True, eq=False)
class PageData:
    """Both parts; `examples` has a list for each board."""

    report: dict[str, Any]
    examples: list[list[dict[str, Any]]]


def page_data(store: Store, computed: Sequence[Leaderboard] = (), exhibits: Sequence[Exhibit] = ()) -> PageData:
    """What is stored so far, and the tables and figures of a study, where it is one.

    Leaderboards that are `computed` and still hold are not computed again.
    """
    cells = {cell.name: cell for cell in store.cells() if not cell.error}
    parts = [
        page_board(store, board, [cells[name] for name in sorted(board.cells) if name in cells])
        for board in leaderboards(store, computed=computed)
    ]
    about = store.about() or {}
    done, planned = len(cells), about.get("planned") or 0
    report = document(
        store.folder.name,
        boards=[board for board, _ in parts],
        tables=[table(sheet, _picture(drawn)) for _, sheet, drawn in exhibits],
        provenance={key: about[key] for key in _PROVENANCE if key in about},
        unfinished={"done": done, "planned": planned} if done < planned else None,
    )
    return PageData(report, [entries for _, entries in parts])


_PROVENANCE = ("created", "versions", "hardware", "sessions", "models", "data", "seeds", "methods")


def document(title: str, **parts: Any) -> dict[str, Any]:
    """What every page has; parts that are not named are empty."""
    empty: dict[str, Any] = {"boards": [], "tables": [], "checks": [], "provenance": {}, "unfinished": None}
    return {"version": VERSION, "title": title, "glossary": TERMS, **empty, **parts}


def table(sheet: Sheet, figure: str | None = None) -> dict[str, Any]:
    """Texts are those of every other format; numbers are there to sort by."""
    return {
        "title": sheet.title,
        "figure": figure,
        "columns": [{"head": column.head, "number": column.number} for column in sheet.columns],
        "rows": [
            [{"text": cell.text, "value": cell.value if isinstance(cell.value, int | float) and cell.defined else None}
             for cell in row]
            for row in sheet.rows
        ],
        "notes": list(sheet.notes),
    }  # fmt: skip


def _picture(drawn: Mapping[str, bytes]) -> str | None:
    """A figure as an address that holds all of it, in the smaller of two forms; none where it was not drawn."""
    smallest = min((ending for ending in _PICTURES if ending in drawn), key=lambda one: len(drawn[one]), default=None)
    if smallest is None:
        return None
    return f"data:{_PICTURES[smallest]};base64,{base64.b64encode(drawn[smallest]).decode()}"
