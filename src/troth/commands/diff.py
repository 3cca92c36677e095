"""Compares two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from troth.commands import _options
from troth.core import numbers, terminal
from troth.core.errors import TrothError
from troth.core.sheet import TableCell, without_nan
from troth.core.terminal import Console

if TYPE_CHECKING:
    from troth.metrics import Summary
    from troth.report.diff import Number, RunDifference
    from troth.store.store import Store

_SHOWN = 6  # values shown per spec
_MOST_TEXTS = 10
_METHODS = "methods."  # prefix of the methods' facts in run.json
_REPEATED = ("data_fingerprint", "model_fingerprint", "examples")  # specs that the facts of run.json contain as well
_DIGITS = 12  # shown of a hash
_NAMING = ("model", "data", "explainer", "metric")  # the last two are always shown


def diff(
    first: _options.Run,
    second: Annotated[str, "Another run."],
    everything: Annotated[bool, typer.Option("--all", help="Also print the numbers that did not move.")] = False,
    texts: Annotated[bool, "Compare the explanations of the same texts: which moved by more than their noise?"] = False,
    page: Annotated[
        Path | None, typer.Option("--html", help="With --texts: write every text, before and after, to this page.")
    ] = None,
    as_json: _options.Json = False,
) -> None:
    """Compares two runs: which settings differ, and which numbers moved beyond their intervals.

    The exit code is 0 whatever differs. To fail where a run has become worse: troth bench --baseline.

    Example: troth diff runs/before runs/after

    Text by text: troth diff runs/before runs/after --texts --html drift.html
    """
    from troth.report.diff import diff as compare
    from troth.store.store import open_run

    if page is not None and not texts:
        raise TrothError("--html writes the page of the texts; add --texts")
    stores = open_run(first, sound=True), open_run(second, sound=True)
    if texts:
        _texts(*stores, page, as_json)
        return
    found = compare(*stores)
    if as_json:
        _options.print_json(
            {
                "about": {key: list(pair) for key, pair in found.about.items()},
                "specs": {key: {"only_first": pair[0], "only_second": pair[1]} for key, pair in found.specs.items()},
                "unmatched": list(found.only),
                "failed": list(found.failed),
                "compared": len(found.numbers),
                "numbers": [_number(one) for one in (found.numbers if everything else found.moved)],
            }
        )
        return
    _print(found, everything)


def _texts(first: Store, second: Store, page: Path | None, as_json: bool) -> None:
    from troth.report import drift, drift_page

    found = drift.drift(first, second)
    sheet = found.sheet()
    if page is not None:
        drift_page.write(page, found)
    if as_json:
        every = [
            {"explainer": name, "id": one.before.source.id, "text": one.before.source.text, "moved": one.moved}
            | without_nan({key: getattr(one, key) for key in ("distance", "noise", "excess")})
            for name, some in found.texts.items()
            for one in some
        ]
        _options.print_json({"explainers": sheet.records, "texts": every, "left_out": found.left_out})
        return
    console = Console()
    _table(console, [column.head for column in sheet.columns],
           [[" ".join(filter(None, (cell.text, cell.interval))) for cell in row] for row in sheet.rows])  # fmt: skip
    for note in sheet.notes:
        console.print(note, style="dim", markup=False)
    moved = list(drift.lines(found, _MOST_TEXTS))
    console.print("\nThe texts that moved most:" if moved else "\nNo explanation moved.", markup=False)
    for line in moved:
        console.print(f"  {line}", markup=False, no_wrap=True, overflow="ellipsis")
    if page is not None:
        console.print(f"\nevery text: {page}", markup=False, soft_wrap=True)


def _print(found: RunDifference, everything: bool) -> None:
    from troth.report.wording import short_names

    console = Console()
    about = [_fact(key, before, after) for key, (before, after) in found.about.items()]
    methods = any(key.startswith(_METHODS) for key in found.about)
    about += [
        (key, _values(before), _values(after))
        for key, (before, after) in found.specs.items()
        if not (methods and key.removesuffix("_full") in _NAMING[-2:])
        and key not in _REPEATED
        and not (key.endswith("_full") and key.removesuffix("_full") in found.specs)
    ]
    if about:
        _table(console, ["what differs", "before", "after"], about, numbers=False)
        console.print()
    shown = sorted(found.numbers if everything else found.moved, key=lambda number: -abs(number.change))
    short = short_names({str(one.specs.get("metric")) for one in shown})
    names = [key for key in _NAMING if len({str(one.specs.get(key)) for one in shown}) > 1 or key in _NAMING[-2:]]
    rows = [
        [
            " · ".join(short.get(str(one.specs[key]), str(one.specs[key])) for key in names if key in one.specs),
            *(f"{cell.text}\n{cell.interval}".replace("-", "−") for cell in map(_cell, (one.before, one.after))),
            numbers.difference(one.change) + ("\nmoved" if everything and one.moved else ""),
        ]
        for one in shown
    ]
    if rows:
        _table(console, [" · ".join(names), "before", "after", "change"], rows)
        console.print()
    console.print(
        f"{len(found.moved)} of {len(found.numbers)} numbers moved beyond their intervals"
        + "".join(f"; {count} {'is' if count == 1 else 'are'} only in the {side} run"
                  for side, count in zip(("first", "second"), found.only, strict=True) if count)
        + (f"; cells (pieces of work) that failed: {found.failed[0]} and {found.failed[1]}"
           if any(found.failed) else ""),
        markup=False,
    )  # fmt: skip


def _fact(key: str, before: Any, after: Any) -> tuple[str, str, str]:
    """A row of the table of differences; hashes are shortened, and a method is named once, next to its options."""
    if key.startswith(_METHODS) and key.endswith(".spec"):
        name = key.removeprefix(_METHODS).removesuffix(".spec")
        options = [
            "–" if side is None else str(side).removeprefix(name).strip("()") or "no options"
            for side in (before, after)
        ]
        return name, options[0], options[1]
    if key.endswith("fingerprint"):
        before, after = (side[:_DIGITS] + "…" if isinstance(side, str) else side for side in (before, after))
    return key, _value(before), _value(after)


def _table(console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = True) -> None:
    """A table whose first column names the rows; numbers are right-aligned."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if numbers and place else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(terminal.visible(cell)) for cell in row))
    console.print(table)


def _values(values: Sequence[Any]) -> str:
    shown = [_value(value) for value in values[:_SHOWN]] + (["…"] if len(values) > _SHOWN else [])
    return ", ".join(shown) or "–"


def _value(value: Any) -> str:
    """A value of run.json as readable text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_value(part)}" for key, part in value.items()) or "–"
    if isinstance(value, list | tuple):
        return _values(value)
    return "–" if value is None or value == "" else str(value)


def _cell(summary: Summary) -> TableCell:
    return TableCell(float(summary.value), float(summary.low), float(summary.high))


def _number(number: Number) -> dict[str, Any]:
    sides = {
        side: {key: getattr(getattr(number, side), key) for key in ("value", "low", "high", "count")}
        for side in ("before", "after")
    }
    return {"specs": dict(number.specs), **without_nan({**sides, "change": number.change}), "moved": number.moved}
