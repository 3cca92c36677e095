"""The page of a run or a check: one file with the page's script, its style and all its data; nothing is fetched.

The data is JSON, computed from stored rows, the same in report.html and in `troth serve`: `report` is small and drawn
at once; `examples` is large, has the same boards in the same order, and may be loaded later
(docs/guide/report_page.md). The script and the style are built from page/ and included in the package. Browsers without
scripts show plain tables.
"""

from __future__ import annotations

import base64
import html as markup
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth.core import numbers
from troth.core.sheet import NOTHING, Sheet, TableCell, plain_sheet, without_nan
from troth.report import export, figures
from troth.report.board import Leaderboard, leaderboards
from troth.report.exhibits import TELLING, Exhibit, board_exhibits, notes
from troth.report.page_board import page_board
from troth.report.page_examples import BUDGET as BUDGET
from troth.report.page_examples import packed
from troth.report.wording import folded
from troth.store.store import Store

if TYPE_CHECKING:
    from troth.validity.checking import Check
    from troth.validity.randomization import Randomization

VERSION = 2
_PICTURES = {".svg": "image/svg+xml", ".png": "image/png"}
_DASHES = {"-": "", "--": "6 3", "-.": "8 3 2 3", ":": "2 3"}
_PROVENANCE = ("created", "versions", "hardware", "sessions", "models", "data", "seeds", "methods")
# Definitions of the terms of a report, one sentence each.
_GLOSSARY = {
    "faithful": "An explanation is faithful if the words it ranks first are those that the model really relied on.",
    "explainer": "A method that gives every unit of a text a score: how much it mattered for one class.",
    "unit": "What is scored and erased: a word, a token, a sentence or a passage.",
    "erase": "To remove units from the input, by a mask token or in another way, and run the model again.",
    "masking": "How a unit is erased: replaced by a mask token, deleted, set to zero and so on.",
    "target": "The class whose probability is explained, usually the one that the model predicts.",
    "interval": "95 % bootstrap interval over examples: where the number would plausibly lie with other examples of "
    "this kind.",
    "letters": "Explainers that share a letter do not differ significantly on that metric.",
    "random": "An explainer with random scores. An explainer that is no better than random explains nothing.",
    "passes": "The number of forward and backward passes of the model per example.",
    "validity": "Whether the erased inputs are similar to the inputs that the model was trained on. If not, a metric "
    "may measure the effect of unusual inputs instead of faithfulness.",
    "diagnosticity": "How often a metric ranks a real explanation above a random one. At one half the metric cannot "
    "tell them apart.",
    "ACU": "Area between the curves of performance under erasure: the curve of a random order minus that of the "
    "explainer's order.",
    "RACU": "ACU divided by the ACU of an ideal explanation, whose first erased units already lower performance to "
    "that of an empty text. 0 is no better than random.",
    "agreement": "Between explainers: the rank correlation of their scores in a text. Between metrics: Kendall's τ "
    "of their rankings.",
    "calibration": "Whether the model's confidence matches its accuracy. The calibration error is the mean difference "
    "between the two.",
    "plausibility": "Agreement with what people marked; it says nothing about what the model relied on.",
    "p-value": "Of a test of two explainers: how probable a difference at least this large would be if they were "
    "equally good. Of MaSF: the share of inputs like those in training that are at least as unusual as this one.",
}
# With this policy, the browser blocks everything from elsewhere.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"


@dataclass(frozen=True, eq=False)
class PageData:
    """The data of a page; `examples` has one list per board."""

    report: dict[str, Any]
    examples: list[list[dict[str, Any]]]


def write_report(
    store: Store, path: Path, computed: Sequence[Leaderboard] = (), exhibits: Sequence[Exhibit] = ()
) -> None:
    """Writes one page with every leaderboard of a run and the tables and figures of a study.

    Leaderboards in `computed` that are still valid are not computed again.
    """
    is_own = path.parent.resolve() == store.folder.resolve()
    export.write(path, report_text(store, computed, exhibits).encode(), own=is_own)


def report_text(
    store: Store,
    computed: Sequence[Leaderboard] = (),
    exhibits: Sequence[Exhibit] = (),
    budget: float = BUDGET,
    home: str = "",
) -> str:
    """The page as text; examples beyond the budget in bytes are left out, and `home` is the page to return to."""
    boards = leaderboards(store, computed=computed)
    plain = [export.html(sheet) for _, sheet, _ in exhibits if sheet.rows]
    return render(page_data(store, boards, exhibits), [*plain, *map(board_html, boards)], budget, home)


def page_data(store: Store, boards: Sequence[Leaderboard] | None = None, exhibits: Sequence[Exhibit] = ()) -> PageData:
    """The data of everything stored so far, and the tables and figures of a study; `boards` are those of the run."""
    cells = {cell.name: cell for cell in store.cells() if not cell.error}
    parts = [page_board(store, board, [cells[name] for name in sorted(board.cells) if name in cells])
             for board in (leaderboards(store) if boards is None else boards)]  # fmt: skip
    about = store.about() or {}
    done, planned = len(cells), about.get("planned") or 0
    report = document(
        store.folder.name,
        boards=[board for board, _ in parts],
        tables=[table(sheet, _picture(drawn)) for _, sheet, drawn in exhibits],
        styles=_styles(explainer["name"] for board, _ in parts for explainer in board["explainers"]),
        provenance={key: about[key] for key in _PROVENANCE if key in about},
        unfinished={"done": done, "planned": planned} if done < planned else None,
    )
    return PageData(report, [entries for _, entries in parts])


def _styles(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """The color and the dashes of each explainer, the same as in figures; black would not show on a dark page."""
    return {
        name: {"color": style.color.replace("#000000", "currentColor"), "dash": _DASHES[style.line]}
        for name, style in figures.line_styles(list(names)).items()
    }


def document(title: str, **parts: Any) -> dict[str, Any]:
    """The common structure of all pages; parts that are not given are empty."""
    empty: dict[str, Any] = {"boards": [], "tables": [], "checks": [], "provenance": {}, "unfinished": None}
    empty["styles"] = {}
    return {"version": VERSION, "title": title, "glossary": _GLOSSARY, **empty, **parts}


def table(sheet: Sheet, figure: str | None = None) -> dict[str, Any]:
    """A table of the page: texts as in all formats, and numeric values for sorting."""
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
    """A figure as a data URL, in the smaller of two formats; None if it was not drawn."""
    smallest = min((ending for ending in _PICTURES if ending in drawn), key=lambda one: len(drawn[one]), default=None)
    if smallest is None:
        return None
    return f"data:{_PICTURES[smallest]};base64,{base64.b64encode(drawn[smallest]).decode()}"


def render(data: PageData, plain: Iterable[str], budget: float = BUDGET, home: str = "") -> str:
    """Renders the page; `plain` is HTML of the same results for browsers without scripts, `home` the page that leads to
    it on a server.
    """
    title = markup.escape(f"troth: {data.report['title']}")
    examples, _ = packed(data.examples, budget)
    body = "\n".join(f"<section>{section}</section>" for section in plain)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'  # otherwise the browser requests an icon from the server
        f'<meta http-equiv="Content-Security-Policy" content="{markup.escape(_POLICY)}">'
        f"<style>{asset('page.css')}</style></head>\n"
        f'<body><div id="page" data-home="{markup.escape(home)}"><h1>{title}</h1>\n{body}\n</div>\n'
        f'<script type="application/json" id="report-data">{script_json(data.report)}</script>\n'
        f'<script type="text/plain" id="report-examples">{examples}</script>\n'
        f"<script>{asset('page.js')}</script></body></html>\n"
    )


def script_json(value: Any) -> str:
    """JSON that cannot end its script element or open a comment.

    >>> script_json(["</script>"])
    '["\\\\u003c/script>"]'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


@cache
def asset(name: str) -> str:
    """A file of the front end that is included in the package."""
    return (files("troth.report") / "page_assets" / name).read_text(encoding="utf-8")


def board_html(board: Leaderboard) -> str:
    """A whole leaderboard as plain, escaped HTML, for browsers without scripts and for notebooks."""
    shown = {name: sheet for name, sheet, _ in board_exhibits(board)}
    leaderboard = shown["leaderboard"]
    rows = [list(row) for row in leaderboard.rows]
    if board.stamps:
        stamps = [board.stamps[metric] for metric in board.metrics]
        verdicts = [stamp.verdict if stamp.p is None else str(stamp) for stamp in stamps]
        rows.append([TableCell(text) for text in ("erased inputs", *verdicts, "", "")])
    remarks = notes(board)
    untested = folded({metric: str(stamp) for metric, stamp in board.stamps.items() if stamp.p is None})
    parts = [
        export.html_table(leaderboard.title, [column.head for column in leaderboard.columns], rows),
        _list(board.answer()),
        f'<p class="muted">{markup.escape(" ".join(leaderboard.notes))}</p>',
        _section(TELLING, remarks.pop(TELLING, [])),
        _section("Not tested for being in distribution", untested),
        _spreads(board, shown["seeds"]) if "seeds" in shown else "",
        *(_section(title, lines) for title, lines in remarks.items()),
    ]
    return "".join(parts)


def _spreads(board: Leaderboard, seeds: Sheet) -> str:
    """The standard deviation between seeds, as a table of explainers and metrics."""
    texts = {
        (record["explainer"], record["metric"]): f"{record['standard_deviation']:.3f} ({record['seeds']})"
        for record in seeds.records
        if record["standard_deviation"] is not None
    }
    rows = [[name, *(texts.get((name, metric), NOTHING) for metric in board.metrics)] for name in board.explainers]
    caption = "Standard deviation from seed to seed (number of seeds); not part of the intervals above"
    return export.html_table(caption, ["explainer", *board.metrics], [list(map(TableCell, row)) for row in rows])


def _section(title: str, lines: Sequence[str]) -> str:
    return f"<h2>{title}</h2>{_list(lines)}" if lines else ""


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{markup.escape(line)}</li>" for line in lines) + "</ul>"


def write_check(path: Path, found: Check, level: float) -> None:
    """Writes the page of a check: p-values by the fraction that is erased."""
    title = f"Are erased inputs in distribution? {found.model} on {found.data}, erased by {found.masking}"
    by_ratio = {name: [float(p) for p in found.by_ratio(name)] for name in found.p_values}
    rows = [
        (numbers.percent(ratio), *(values[place] for values in by_ratio.values()))
        for place, ratio in enumerate(found.ratios)
    ]
    _write_check(
        path,
        [plain_sheet("p-values", ("erased", *by_ratio), rows)] if by_ratio else [],
        title=title,
        answer=[found.not_tested] if found.not_tested else found.answer(),
        lines=[{"name": name, "at": list(found.ratios), "values": values} for name, values in by_ratio.items()],
        level=level,
        caption=f"p-value that all of {len(found.example_ids)} examples are in distribution (MaSF, Simes), by the "
        "method in whose order words are erased.",
        notes=list(found.notes),
    )


def write_randomization(path: Path, about: str, results: Sequence[Randomization], meaning: str) -> None:
    """Writes the page of a randomization check: correlations of a model's scores with those of its shuffled copy, and
    with those of another class.
    """
    dots = [
        without_nan({"name": _name(one, results), "value": one.value, "low": one.low, "high": one.high})
        for one in results
    ]
    caption = "Rank correlation before and after, 95 % interval over examples"
    title = f"Do scores change with the weights, and with the class? {about}"
    rows = [(one.explainer, one.block, one.value, one.low, one.high) for one in results]
    sheet = plain_sheet("Correlations", ("explainer", "changed", "correlation", "low", "high"), rows)
    _write_check(path, [sheet], title=title, answer=[*_range(results), meaning], dots=dots, caption=caption)


def _write_check(path: Path, sheets: Sequence[Sheet], *, title: str, **parts: Any) -> None:
    empty: dict[str, Any] = {"answer": [], "lines": [], "level": 0.0, "dots": [], "caption": "", "notes": []}
    check = {"title": title, **empty, **parts}
    data = PageData(document("check", checks=[check], tables=[table(sheet) for sheet in sheets]), [])
    export.write(path, render(data, map(export.html, sheets)).encode())


def _name(one: Randomization, results: Sequence[Randomization]) -> str:
    """The explainer, with the shuffled block if there are several."""
    return one.explainer if len({other.block for other in results}) == 1 else f"{one.explainer}, {one.block}"


def _range(results: Sequence[Randomization]) -> list[str]:
    known = sorted((one for one in results if math.isfinite(one.value)), key=lambda one: one.value)
    if not known:
        return []
    low, high = (f"{one.value:.2f} ({_name(one, results)})" for one in (known[0], known[-1]))
    return [f"Rank correlation with the shuffled model's scores: {low if len(known) == 1 else f'from {low} to {high}'}"]
