"""All that the page of a run shows, as JSON: computed from stored rows, the same in report.html and in `troth serve`.

`report` is small and drawn at once; `examples` is large, has the same boards in the same order, and may come later.
docs/report_page.md describes both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from troth import statistics
from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.sheet import Sheet
from troth.report.board import RANDOM, Leaderboard, leaderboards
from troth.report.board_sheet import folded, short_names
from troth.report.glossary import TERMS, VALIDITY
from troth.report.page_curves import mean_curve
from troth.report.page_examples import Erased, examples
from troth.report.page_overview import explainer_agreement, model_facts, top_words
from troth.report.page_rows import explained, texts
from troth.store.measured import Key, Measured
from troth.store.store import Store, Stored

VERSION = 1


@dataclass(frozen=True, eq=False)
class PageData:
    """Both parts; `examples` has a list for each board."""

    report: dict[str, Any]
    examples: list[list[dict[str, Any]]]


def page_data(store: Store, computed: Sequence[Leaderboard] = (), sheets: Sequence[Sheet] = ()) -> PageData:
    """What is stored so far, and the tables of a study, where it is one.

    Leaderboards that are `computed` and still hold are not computed again.
    """
    cells = {cell.name: cell for cell in store.cells() if not cell.error}
    parts = [
        _board(store, board, [cells[name] for name in sorted(board.cells) if name in cells])
        for board in leaderboards(store, computed=computed)
    ]
    about = store.about() or {}
    done, planned = len(cells), about.get("planned") or 0
    report = {
        "version": VERSION,
        "title": store.folder.name,
        "boards": [board for board, _ in parts],
        "tables": [_table(sheet) for sheet in sheets],
        "provenance": {key: about[key] for key in _PROVENANCE if key in about},
        "unfinished": {"done": done, "planned": planned} if done < planned else None,
        "glossary": TERMS,
    }
    return PageData(report, [entries for _, entries in parts])


_PROVENANCE = ("created", "versions", "hardware", "sessions", "models", "data", "seeds", "methods")


def _board(store: Store, board: Leaderboard, cells: Sequence[Stored]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    explanations = [cell for cell in cells if cell.kind == "explanation"]
    sources = texts(store, explanations)
    by_explainer = {
        name: explained(store, [cell for cell in explanations if cell.specs["explainer"] == name], sources)
        for name in board.explainers
    }
    measured = _measured(store, cells)
    agreement, of_example = explainer_agreement({name: some for name, some in by_explainer.items() if some})
    curves = _curves(board, measured)
    slider = _slider(curves)
    values = {
        key: {example: _finite(score.value) for example, score in scores.items()} for key, scores in measured.items()
    }
    ordered = {(name, metric): values[name, metric] for name in board.explainers for metric in board.metrics
               if (name, metric) in values}  # fmt: skip
    erased: Erased = {} if slider is None else {
        name: measured[name, slider] for name in board.explainers if (name, slider) in measured
    }  # fmt: skip
    entries = examples(by_explainer, ordered, erased, _p_values(store, cells), of_example)
    labels = list((board.about.get("models") or {}).get(board.model, {}).get("labels", ()))
    first = list(next((some for some in by_explainer.values() if some), {}).values())
    facts = {
        "title": board.title, "model": board.model, "data": board.data, "setting": board.setting,
        "examples": board.examples, "labels": labels, "answer": board.answer(),
        "explainers": [_explainer(board, name) for name in board.explainers],
        "metrics": [_metric(board, metric) for metric in board.metrics],
        "cells": [[_cell(board, name, metric) for metric in board.metrics] for name in board.explainers],
        "curves": curves, "slider": slider,
        "slider_explains_again": slider is not None and bool(getattr(_built(slider), "explains_again", False)),
        "erasure": _erasure(board),
        "agreement": {"explainers": agreement, "metrics": _metric_agreement(board)},
        "words": {name: top_words(list(some.values())) for name, some in by_explainer.items() if name != RANDOM},
        "performance": model_facts(first, labels),
        "notes": _notes(board), "seeds": board.seeds, "example_metrics": list(dict.fromkeys(m for _, m in ordered)),
    }  # fmt: skip
    return facts, entries


def _table(sheet: Sheet) -> dict[str, Any]:
    """Texts are those of every other format; numbers are there to sort by."""
    return {
        "title": sheet.title,
        "columns": [{"head": column.head, "number": column.number} for column in sheet.columns],
        "rows": [
            [{"text": cell.text, "value": cell.value if isinstance(cell.value, int | float) and cell.defined else None}
             for cell in row]
            for row in sheet.rows
        ],
        "notes": list(sheet.notes),
    }  # fmt: skip


def _measured(store: Store, cells: Sequence[Stored]) -> dict[tuple[str, str], dict[Key, Any]]:
    """(explainer, metric) -> example -> its score by the first seed."""
    grouped: dict[tuple[str, str], list[Stored]] = {}
    for cell in cells:
        if cell.kind == "metric":
            grouped.setdefault((cell.specs["explainer"], cell.specs["metric"]), []).append(cell)
    found = {}
    for key, some in grouped.items():
        first = min(cell.specs.get("seed") or 0 for cell in some)
        read = Measured.read(store, [cell for cell in some if (cell.specs.get("seed") or 0) == first])
        found[key] = dict(zip(read.keys, read.by_seed[0], strict=True))
    return found


def _curves(board: Leaderboard, measured: Mapping[tuple[str, str], Mapping[Key, Any]]) -> list[dict[str, Any]]:
    curves = []
    for metric in board.metrics:
        inserts = bool(getattr(_built(metric), "inserts", False))
        lines = {
            name: curve
            for name in board.explainers
            if (name, metric) in measured
            and (curve := mean_curve(list(measured[name, metric].values()), inserts)) is not None
        }
        if lines:
            curves.append({"metric": metric, "kept": next(iter(lines.values()))["kept"], "lines": lines})
    return curves


def _slider(curves: Sequence[Mapping[str, Any]]) -> str | None:
    """The metric whose curves erase most and in most steps."""
    reach = {
        curve["metric"]: max((line["ratios"][-1], len(line["ratios"])) for line in curve["lines"].values())
        for curve in curves
        if not curve["kept"]
    }
    return max(reach, key=lambda metric: reach[metric]) if reach else None


def _explainer(board: Leaderboard, name: str) -> dict[str, Any]:
    verdict = board.verdict
    return {
        "name": name, "short": short_names(board.explainers)[name], "meaning": _summary("explainers", name),
        "ms": _finite(1000 * board.seconds[name]), "passes": _finite(board.passes[name]),
        "best": verdict is not None and name in verdict.best,
        "useless": verdict is not None and name in verdict.useless,
    }  # fmt: skip


def _metric(board: Leaderboard, metric: str) -> dict[str, Any]:
    stamp, made = board.stamps.get(metric), _built(metric)
    found = {each.metric: each for each in board.meta.diagnosticities} if board.meta is not None else {}
    told = found.get(metric)
    return {
        "name": metric, "short": short_names(board.metrics)[metric], "meaning": _summary("metrics", metric),
        "higher": board.directions[metric], "decides": metric in board.deciding,
        "why_not": board.reported.get(metric, ""), "bounds": getattr(made, "bounds", ""),
        "pitfalls": getattr(made, "pitfalls", ""),
        "validity": None if stamp is None else {
            "verdict": stamp.verdict, "text": str(stamp), "p": _finite(stamp.p), "meaning": VALIDITY[stamp.verdict],
        },
        "diagnosticity": None if told is None else {
            "value": _finite(told.value), "low": _finite(told.low), "high": _finite(told.high),
            "won": told.won, "tied": told.tied, "lost": told.lost,
        },
    }  # fmt: skip


def _cell(board: Leaderboard, explainer: str, metric: str) -> dict[str, Any] | None:
    summary = board.summaries.get((explainer, metric))
    if summary is None:
        return None
    return {
        "value": _finite(summary.value), "low": _finite(summary.low), "high": _finite(summary.high),
        "letters": board.groups.get(metric, {}).get(explainer, ""),
        "beats_random": board.beats_random.get((explainer, metric)),
        "examples": summary.count, "undefined": dict(summary.undefined), "spread": _finite(summary.spread),
    }  # fmt: skip


def _erasure(board: Leaderboard) -> list[dict[str, Any]]:
    """ACU and RACU of the metrics that have them."""
    bars = []
    for metric in board.metrics:
        rows = [
            {
                "explainer": name,
                "acu": [_finite(value) for value in (summary.extra["acu"], *summary.extra["acu_interval"])],
                "racu": [_finite(value) for value in (summary.value, summary.low, summary.high)],
            }
            for name in board.explainers
            if (summary := board.summaries.get((name, metric))) is not None and "acu" in summary.extra
        ]
        if rows:
            bars.append({"metric": metric, "rows": rows})
    return bars


def _metric_agreement(board: Leaderboard) -> dict[str, Any] | None:
    """Kendall's τ between the rankings of explainers."""
    if board.meta is None or not board.meta.agreement:
        return None
    names = [each.metric for each in board.meta.diagnosticities]
    pairs = {frozenset(pair): value for pair, value in board.meta.agreement.items()}
    values = [
        [1.0 if one == other else _finite(pairs.get(frozenset((one, other)), math.nan)) for other in names]
        for one in names
    ]
    return {"names": [short_names(board.metrics)[name] for name in names], "values": values}


def _notes(board: Leaderboard) -> list[dict[str, Any]]:
    undefined = [
        f"{explainer} × {metric}: {count} undefined, {why}"
        for (explainer, metric), summary in board.summaries.items()
        for why, count in summary.undefined.items()
    ]
    told = board.meta.sentences() if board.meta is not None else []
    parts = {
        "Which metrics can tell real explanations from random ones?": told,
        "Undefined scores": undefined,
        "Not computed": folded(board.failures),
        "Skipped": folded(board.skipped),
    }
    return [{"title": title, "lines": lines} for title, lines in parts.items() if lines]


def _p_values(store: Store, cells: Sequence[Stored]) -> dict[str, float]:
    """Of each example: that its masked versions are in distribution, joined over shares as over examples."""
    found: dict[str, list[float]] = {}
    for cell in [cell for cell in cells if cell.kind == "check"][:1]:
        for row in store.table(cell.name).to_pylist():
            if row["p"] is not None:
                found.setdefault(row["example_id"], []).append(row["p"])
    return {example: float(statistics.simes(p)) for example, p in found.items()}


def _summary(kind: str, spec: str) -> str:
    """What the catalog says of a method; nothing of one that the user brought."""
    name = spec.partition("(")[0]
    try:
        return catalog.summary(kind, name)
    except TrothError:
        return ""


def _built(metric: str) -> Any:
    try:
        return catalog.build("metrics", metric)
    except TrothError:
        return None


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
