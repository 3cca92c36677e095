"""One leaderboard of a page as JSON: its values, curves, words and examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from troth import seeds, statistics
from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.sheet import without_nan
from troth.core.types import Score
from troth.report import answer
from troth.report.board import RANDOM, Leaderboard, metric_cells
from troth.report.board_sheet import measurement
from troth.report.exhibits import board_exhibits, notes
from troth.report.page_examples import Erased, examples, mean_curve
from troth.report.page_overview import explained, explainer_agreement, model_facts, texts, top_words
from troth.report.wording import short_names
from troth.store.measured import Key, Measured, seed_groups
from troth.store.store import Store, Stored

_VALIDITY = {
    "no evidence against": "The erased inputs were tested and look like what the model was trained on.",
    "out of distribution": "The erased inputs look unlike what the model was trained on: this number may measure the "
    "model's confusion instead of faithfulness.",
    "not tested": "Nobody tested whether these erased inputs look like what the model was trained on.",
}
Records = Sequence[Mapping[str, Any]]  # the records of an exhibit


def page_board(
    store: Store, board: Leaderboard, cells: Sequence[Stored]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The facts of a board, and its examples. Values are over all seeds; examples show the first seed."""
    explanations = [cell for cell in cells if cell.kind == "explanation"]
    sources = texts(store, explanations)
    by_seed = {
        name: explained(store, [cell for cell in explanations if cell.specs["explainer"] == name], sources)
        for name in board.explainers
    }
    scored = metric_cells(cells)
    measured = {key: Measured.read(store, some) for key, some in scored.items()}
    agreement, of_example = explainer_agreement({name: some for name, some in by_seed.items() if some})
    curves = _curves(board, measured)
    slider = _slider(curves)
    # The mean of each example over the seeds for which it is defined, as on the leaderboard.
    means = {key: seeds.mean_over_seeds(some.values(some.keys)).tolist() for key, some in measured.items()}
    values = {
        (name, metric): dict(zip(measured[name, metric].keys, _rounded(means[name, metric]), strict=True))
        for name in board.explainers
        for metric in board.metrics
        if (name, metric) in measured
    }
    erased: Erased = {
        name: _first_seed(store, scored[name, slider])
        for name in board.explainers
        if slider is not None and (name, slider) in scored
    }
    first = {name: some[0] if some else {} for name, some in by_seed.items()}
    entries = examples(first, values, erased, _p_values(store, cells), of_example)
    shown: dict[str, Records] = {name: sheet.records for name, sheet, _ in board_exhibits(board)}
    diagnosticity = {record["metric"]: record for record in shown.get("diagnosticity", ())}
    short = short_names(board.metrics)
    labels = list((board.about.get("models") or {}).get(board.model, {}).get("labels", ()))
    known = list(next((some for some in first.values() if some), {}).values())
    facts = {
        "title": board.title, "model": board.model, "data": board.data, "setting": board.setting,
        "examples": board.examples, "labels": labels, "answer": answer.findings(board),
        "methods": answer.methods(board).removeprefix("Methods: "),
        "explainers": [_explainer(board, name) for name in board.explainers],
        "metrics": [_metric(board, metric, diagnosticity.get(metric)) for metric in board.metrics],
        "cells": [[_cell(board, name, metric) for metric in board.metrics] for name in board.explainers],
        "curves": curves, "slider": slider,
        "slider_explains_again": slider is not None and bool(getattr(_built(slider), "explains_again", False)),
        "erasure": _erasure(shown.get("racu", ())),
        "agreement": {
            "explainers": agreement, "metrics": _metric_agreement(short, diagnosticity, shown.get("agreement", ())),
        },
        "words": {name: top_words(some) for name, some in by_seed.items() if name != RANDOM},
        "performance": model_facts(known, labels),
        "notes": [{"title": title, "lines": lines} for title, lines in notes(board).items()],
        "seeds": board.seeds, "example_metrics": list(dict.fromkeys(metric for _, metric in values)),
    }  # fmt: skip
    return facts, entries


def _first_seed(store: Store, cells: Sequence[Stored]) -> dict[Key, Score]:
    first = Measured.read(store, seed_groups(cells)[0])
    return dict(zip(first.keys, first.by_seed[0], strict=True))


def _curves(board: Leaderboard, measured: Mapping[tuple[str, str], Measured]) -> list[dict[str, Any]]:
    curves = []
    for metric in board.metrics:
        inserts = bool(getattr(_built(metric), "inserts", False))
        scores = {name: measured[name, metric] for name in board.explainers if (name, metric) in measured}
        lines = {
            name: curve
            for name, some in scores.items()
            if (curve := mean_curve(zip(*some.by_seed, strict=True), inserts, board.clustering.of(some.keys)))
            is not None
        }
        if lines:
            curves.append({"metric": metric, "kept": next(iter(lines.values()))["kept"], "lines": lines})
    return curves


def _slider(curves: Sequence[Mapping[str, Any]]) -> str | None:
    """The metric whose curves erase the largest fraction, in the most steps."""
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
        "ms": _rounded(1000 * board.seconds[name]), "passes": _rounded(board.passes[name]),
        "best": verdict is not None and name in verdict.best,
        "useless": verdict is not None and name in verdict.useless,
    }  # fmt: skip


def _metric(board: Leaderboard, metric: str, diagnosticity: Mapping[str, Any] | None) -> dict[str, Any]:
    stamp, built = board.stamps.get(metric), _built(metric)
    return {
        "name": metric, "short": short_names(board.metrics)[metric], "meaning": _summary("metrics", metric),
        "higher": board.directions[metric], "decides": metric in board.deciding,
        "why_not": board.reported.get(metric, ""), "bounds": getattr(built, "bounds", ""),
        "pitfalls": getattr(built, "pitfalls", ""),
        "validity": None if stamp is None else {
            "verdict": stamp.verdict, "text": str(stamp), "p": _rounded(stamp.p), "meaning": _VALIDITY[stamp.verdict],
        },
        "diagnosticity": None if diagnosticity is None else {
            "value": _rounded(diagnosticity["diagnosticity"]),
            **{name: _rounded(diagnosticity[name]) for name in ("low", "high")},
            **{name: diagnosticity[name] for name in ("won", "tied", "lost")},
        },
    }  # fmt: skip


def _cell(board: Leaderboard, explainer: str, metric: str) -> dict[str, Any] | None:
    if (explainer, metric) not in board.summaries:
        return None
    known = measurement(board, explainer, metric)
    names = ("value", "low", "high", "letters", "beats_random", "examples")
    undefined = dict(board.summaries[explainer, metric].undefined)
    return {
        **{name: _rounded(known[name]) for name in names},
        "undefined": undefined, "spread": _rounded(known["seed_spread"]),
    }  # fmt: skip


def _erasure(areas: Records) -> list[dict[str, Any]]:
    """ACU and RACU of the metrics that define them."""
    bars: dict[str, dict[str, dict[str, Any]]] = {}
    for area in areas:
        empty = {"explainer": area["explainer"], "acu": [], "racu": []}
        row = bars.setdefault(area["metric"], {}).setdefault(area["explainer"], empty)
        row[area["area"].lower()] = [_rounded(area[name]) for name in ("value", "low", "high")]
    return [{"metric": metric, "rows": list(rows.values())} for metric, rows in bars.items()]


def _metric_agreement(names: Mapping[str, str], metrics: Iterable[str], pairs: Records) -> dict[str, Any] | None:
    """Kendall's τ between the rankings of explainers."""
    if not pairs:
        return None
    known = {frozenset((pair["metric"], pair["other"])): pair["kendall_tau"] for pair in pairs}
    values = [
        [1.0 if first == second else _rounded(known.get(frozenset((first, second)))) for second in metrics]
        for first in metrics
    ]
    return {"names": [names[metric] for metric in metrics], "values": values}


def _p_values(store: Store, cells: Sequence[Stored]) -> dict[str, float]:
    """The p-value of each example that its masked versions are in distribution, combined over fractions with Simes."""
    p_values: dict[str, list[float]] = {}
    for cell in [cell for cell in cells if cell.kind == "check"][:1]:
        for row in store.table(cell.name).to_pylist():
            if row["p"] is not None:
                p_values.setdefault(row["example_id"], []).append(row["p"])
    return {example: float(statistics.simes(p)) for example, p in p_values.items()}


def _summary(kind: str, spec: str) -> str:
    """The catalog's summary of a method; empty for the user's own methods."""
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


def _rounded(value: Any) -> Any:
    return without_nan(value, digits=8)  # enough digits that the page's three decimals equal those in the terminal
