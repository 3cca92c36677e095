"""A leaderboard as a terminal table and as an HTML table."""

from __future__ import annotations

import html as markup
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from troth.report import page
from troth.report.board import RANDOM, Leaderboard, leaderboards
from troth.store.store import Store
from troth.validity.stamp import Stamp

if TYPE_CHECKING:
    from rich.console import Group

LEADERBOARD = pa.schema(
    {
        "model": pa.string(),
        "data": pa.string(),
        "setting": pa.string(),  # units, target and the like, where not the default
        "place": pa.int32(),  # of the explainer, over all metrics
        "explainer": pa.string(),
        "metric": pa.string(),
        "higher_is_better": pa.bool_(),
        "value": pa.float64(),  # each example averaged over seeds, then summed up as the metric says
        "low": pa.float64(),  # 95 % interval over examples
        "high": pa.float64(),
        "letters": pa.string(),  # a shared letter: no significant difference
        "beats_random": pa.bool_(),
        "examples": pa.int64(),
        "undefined": pa.int64(),
        "seeds": pa.int32(),
        "seed_spread": pa.float64(),  # standard deviation of the seeds' own numbers
        "ms": pa.float64(),  # per example
        "passes": pa.float64(),  # forward and backward rows per example
    }
)
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
            said = f"{value} {letters}".rstrip() if wide else value
            text = Text(said, style="bold" if best.get(metric) == explainer else "")
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
    said = "no\nevidence\nagainst" if stamp.verdict == "no evidence against" else "out"
    return f"{said}\np {stamp.p:.2g}"


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
        rows.append(["erased inputs", *(one.verdict if one.p is None else str(one) for one in stamps), "", ""])
    parts = [page.table(board.title, ["explainer", *heads(board), "ms an example", "passes an example"], rows)]
    parts.append(_list(board.answer()))
    parts.append(
        '<p class="muted">95 % intervals in brackets. Explainers that share a letter do not differ significantly on '
        "that metric (signed-rank tests, Holm's correction). An arrow points to the better side.</p>"
    )
    if board.meta is not None:
        parts.append("<h2>Which metric tells?</h2>" + _list(board.meta.sentences()))
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


def as_dict(board: Leaderboard, order: Sequence[str] | None = None) -> dict[str, Any]:
    """Plain data, ready for JSON; what is undefined is None."""
    rows = []
    for explainer in order or board.explainers:
        row: dict[str, Any] = {
            "explainer": explainer,
            "seconds": board.seconds[explainer],
            "passes": board.passes[explainer],
        }
        for metric in board.metrics:
            summary = board.summaries.get((explainer, metric))
            if summary is not None:
                row[metric] = {
                    "value": _number(summary.value),
                    "low": _number(summary.low),
                    "high": _number(summary.high),
                    "examples": summary.count,
                    "seeds": summary.seeds,
                    "seed_spread": _number(summary.spread),
                    "undefined": dict(summary.undefined),
                    "group": board.groups.get(metric, {}).get(explainer, ""),
                    "beats_random": board.beats_random.get((explainer, metric)),
                    "validity": str(board.stamps.get(metric, "not tested")),
                }
        rows.append(row)
    about = {"model": board.model, "data": board.data, "examples": board.examples}
    validity = {
        metric: {"verdict": stamp.verdict, "p": stamp.p, "smallest_p": stamp.smallest, "why": stamp.why}
        for metric, stamp in board.stamps.items()
    }
    return {**about, "rows": rows, "answer": board.answer(), "failures": dict(board.failures),
        "skipped": dict(board.skipped), "validity": validity,
    }  # fmt: skip


def as_table(boards: Iterable[Leaderboard]) -> pa.Table:
    """All boards as rows, one per explainer and metric; the numbers are those that are shown."""
    rows = []
    for board in boards:
        setting = {"model": board.model, "data": board.data, "setting": board.setting}
        for place, explainer in enumerate(board.explainers, start=1):
            costs = {"ms": 1000 * board.seconds[explainer], "passes": board.passes[explainer]}
            for metric in board.metrics:
                summary = board.summaries.get((explainer, metric))
                if summary is None:
                    continue
                rows.append(
                    {
                        **setting,
                        "place": place,
                        "explainer": explainer,
                        "metric": metric,
                        "higher_is_better": board.directions[metric],
                        "value": _number(summary.value),
                        "low": _number(summary.low),
                        "high": _number(summary.high),
                        "letters": board.groups.get(metric, {}).get(explainer, ""),
                        "beats_random": board.beats_random.get((explainer, metric)),
                        "examples": summary.count,
                        "undefined": sum(summary.undefined.values()),
                        "seeds": summary.seeds,
                        "seed_spread": _number(summary.spread),
                        **costs,
                    }
                )
    return pa.Table.from_pylist(rows, schema=LEADERBOARD)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def _undefined(board: Leaderboard) -> list[str]:
    return [
        f"{explainer} × {metric}: {count} undefined, {why}"
        for (explainer, metric), summary in board.summaries.items()
        for why, count in summary.undefined.items()
    ]


def _spreads(board: Leaderboard) -> str:
    """How much each number varies from seed to seed."""
    rows = []
    for explainer in board.explainers:
        found = [board.summaries.get((explainer, metric)) for metric in board.metrics]
        cells = ["–" if one is None or np.isnan(one.spread) else f"{one.spread:.3f} ({one.seeds})" for one in found]
        rows.append([explainer, *cells])
    caption = "Standard deviation from seed to seed (number of seeds); not part of the intervals above"
    return page.table(caption, ["explainer", *board.metrics], rows)


def _list(lines: Any) -> str:
    return "<ul>" + "".join(f"<li>{markup.escape(line)}</li>" for line in lines) + "</ul>"


def write_report(store: Store, path: Path, computed: Sequence[Leaderboard] = ()) -> None:
    """One page with every leaderboard of a run; those that are `computed` and still hold are not computed again."""
    page.write(path, f"troth: {store.folder.name}", [html(board) for board in leaderboards(store, computed=computed)])
