"""What differs between two runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape

from troth.commands import _options
from troth.core.sheet import without_nan
from troth.core.terminal import Console

_SHOWN = 6  # values of a spec


def diff(
    first: _options.Run,
    second: Annotated[str, "Another run."],
    everything: Annotated[bool, typer.Option("--all", help="Also print the numbers that did not move.")] = False,
    as_json: _options.Json = False,
) -> None:
    """Compares two runs: which specs differ, and which numbers moved beyond their intervals.

    Example: troth diff runs/before runs/after
    """
    from troth.report.diff import diff as compare
    from troth.store.store import open_run

    found = compare(open_run(first, sound=True), open_run(second, sound=True))
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


def _print(found: Any, everything: bool) -> None:
    console = Console()
    for key, (before, after) in found.about.items():
        console.print(f"[dim]{escape(key)}:[/] {escape(str(before))} → {escape(str(after))}")
    for key, (before, after) in found.specs.items():
        console.print(f"[cyan]{escape(key)}:[/] {escape(_values(before))} → {escape(_values(after))}")
    for one in sorted(found.numbers if everything else found.moved, key=lambda number: -abs(number.change)):
        names = [str(one.specs[key]) for key in ("model", "data", "explainer", "metric", "seed") if key in one.specs]
        console.print(f"[cyan]{escape(' · '.join(names))}[/]")
        moved = " [bold]moved[/]" if one.moved else ""
        change = f"{_interval(one.before)} → {_interval(one.after)}: {one.change:+.4f}"
        console.print(f"  {escape(change)}{moved}")
    console.print(
        f"{len(found.moved)} of {len(found.numbers)} numbers moved beyond their intervals"
        + (f"; {found.only[0]} and {found.only[1]} have no counterpart" if any(found.only) else "")
        + (f"; {found.failed[0]} and {found.failed[1]} cells failed" if any(found.failed) else "")
    )


def _values(values: list[Any]) -> str:
    shown = [str(value) for value in values[:_SHOWN]] + (["…"] if len(values) > _SHOWN else [])
    return ", ".join(shown) or "–"


def _interval(summary: Any) -> str:
    return f"{summary.value:.4f} [{summary.low:.4f}, {summary.high:.4f}]"


def _number(number: Any) -> dict[str, Any]:
    sides = {
        side: {key: getattr(getattr(number, side), key) for key in ("value", "low", "high", "count")}
        for side in ("before", "after")
    }
    return {"specs": dict(number.specs), **without_nan({**sides, "change": number.change}), "moved": number.moved}
