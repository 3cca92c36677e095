"""Explains recorded decisions again and says whether the records still hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from troth.commands import _options


def verify(
    record: Annotated[Path, typer.Argument(help="A record, or a folder of records (troth explain --record).")],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Where the model is now; by default where it was.")
    ] = None,
    device: _options.Device = None,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Explains recorded decisions again and says whether the records still hold: exit code 0, or 1 where one does not.

    Example: troth verify decisions

    after troth explain "Not a bad film." --record decisions
    """
    from troth.core.terminal import Console
    from troth.verbs import verify as verbs

    _options.quieten()
    if model is not None:
        _options.spare_threads(model)
    found = verbs.verify(record, model, device=device)
    held = sum(each.holds for each in found)
    if as_json:
        about = [
            {"record": str(each.path), "text": each.text, "holds": each.holds, "why": each.why or None}
            for each in found
        ]
        _options.print_json({"holds": held == len(found), "records": about})
    else:
        console = Console(soft_wrap=True)
        for each in found:
            if each.holds:
                console.print(f"holds  {each.path.name}", markup=False)
        for why in dict.fromkeys(each.why for each in found if not each.holds):
            names = [each.path.name for each in found if each.why == why]
            console.print(f"fails  {_listed(names)}: {why}", markup=False, style="bold")
        console.print(f"{held} of {len(found)} {'record holds' if len(found) == 1 else 'records hold'}", markup=False)
    if held < len(found):
        raise SystemExit(1)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
