"""`troth check` as the same page as a run: what it says in words, its numbers drawn and as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth.core.sheet import Sheet, plain_sheet, without_nan
from troth.report import export, page
from troth.report.run_page import PageData, document, render, table

if TYPE_CHECKING:
    from troth.validity.checking import Check
    from troth.validity.randomization import Randomization


def write_check(path: Path, found: Check, level: float) -> None:
    """p-values by the share that is erased."""
    title = f"Are erased inputs in distribution? {found.model} on {found.data}, erased by {found.masking}"
    by_ratio = {name: [float(p) for p in found.by_ratio(name)] for name in found.p_values}
    rows = [
        (f"{ratio:.0%}", *(values[place] for values in by_ratio.values())) for place, ratio in enumerate(found.ratios)
    ]
    _write(
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
    """How far the scores of a model agree with those of its shuffled copy."""
    dots = [
        without_nan({"name": _name(one, results), "value": one.value, "low": one.low, "high": one.high})
        for one in results
    ]
    caption = "Rank correlation before and after, 95 % interval over examples"
    title = f"Do scores change when the weights are shuffled? {about}"
    rows = [(one.explainer, one.block, one.value, one.low, one.high) for one in results]
    sheet = plain_sheet("Correlations", ("explainer", "shuffled", "correlation", "low", "high"), rows)
    _write(path, [sheet], title=title, answer=[*_range(results), meaning], dots=dots, caption=caption)


def _write(path: Path, sheets: Sequence[Sheet], *, title: str, **parts: Any) -> None:
    empty: dict[str, Any] = {"answer": [], "lines": [], "level": 0.0, "dots": [], "caption": "", "notes": []}
    check = {"title": title, **empty, **parts}
    data = PageData(document("check", checks=[check], tables=[table(sheet) for sheet in sheets]), [])
    export.write(path, render(data, map(page.sheet_table, sheets)).encode())


def _name(one: Randomization, results: Sequence[Randomization]) -> str:
    """With its block where there are several."""
    return one.explainer if len({other.block for other in results}) == 1 else f"{one.explainer}, {one.block}"


def _range(results: Sequence[Randomization]) -> list[str]:
    known = sorted((one for one in results if math.isfinite(one.value)), key=lambda one: one.value)
    if not known:
        return []
    low, high = (f"{one.value:.2f} ({_name(one, results)})" for one in (known[0], known[-1]))
    return [f"Rank correlation with the shuffled model's scores: {low if len(known) == 1 else f'from {low} to {high}'}"]
