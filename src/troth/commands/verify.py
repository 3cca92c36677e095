"""Recomputes recorded decisions, or a sample of a run, and reports whether they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from troth.commands import _options
from troth.core.errors import TrothError
from troth.core.terminal import Console

_MEANING = (
    "A record holds if computing it again from the text, the model and the settings gives the same results. Times, "
    "versions and gold labels cannot be computed again and are taken from the file."
)
_UNSIGNED = "Without a key, a signature shows whether the file was damaged, not who wrote it."


def verify(
    record: Annotated[Path, "A record or a folder of records (troth explain --record), or a run (troth bench)."],
    model: Annotated[str | None, "Path of the model, if it was moved."] = None,
    key_file: _options.KeyFile = None,
    sample: Annotated[
        int | None, "For a run: number of metric cells (pieces of work) to compute again; 3 by default, 0 for none."
    ] = None,
    seed: Annotated[int, "Random seed: another seed draws other cells (pieces of work) of a run."] = 0,
    device: _options.Device = None,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Computes recorded decisions, or a sample of a run, again and compares. Exit code 0 if all agree, 1 if not.

    Example: troth verify decisions

    To write a record: troth explain "Not a bad film." --record decisions

    A run: troth verify runs/embedded-reviews-5f2c1a --sample 10

    With your own method: troth verify decisions --allow my_file.py:MyExplainer
    """
    from troth.verbs import records

    _options.quieten()
    if model is not None:
        _options.spare_threads(model)
    if (record / "run.json").is_file():
        if key_file is not None:
            raise TrothError("--key-file is for records; a run is not signed")
        _options.require("--sample", sample or 0, (sample or 0) >= 0, "0 or more")
        held = _run(record, model, sample, seed, device, as_json)
    else:
        if sample is not None:
            raise TrothError(f"--sample is for runs, but {record} has no run.json; leave --sample out")
        held = _records(record, model, None if key_file is None else records.read_key(key_file), device, as_json)
    if not held:
        raise SystemExit(1)


def _console() -> Console:
    """Long lines are wrapped in a terminal, and left whole for programs."""
    console = Console()
    console.soft_wrap = not console.is_terminal
    return console


def _run(folder: Path, model: str | None, sample: int | None, seed: int, device: str | None, as_json: bool) -> bool:
    from troth.store.store import open_run
    from troth.sweep.verify_run import SAMPLE, verify_run

    found = verify_run(open_run(folder), model, sample=SAMPLE if sample is None else sample, seed=seed, device=device)
    if as_json:
        facts = {"holds": found.holds, "run": str(found.folder), "files": found.files, "cells": found.cells}
        _options.print_json({**facts, "computed": found.computed, "faults": found.faults,
                             "not_allowed": found.not_allowed})  # fmt: skip
        return found.holds
    console = _console()
    for fault in found.faults:
        console.print(f"fails  {fault}", markup=False, style="bold")
    for words in found.computed:
        if not any(fault.startswith(f"{words}: ") for fault in found.faults):
            console.print(f"holds  {words}", markup=False)
    again = f"{len(found.computed)} of {found.cells} cells (pieces of work) were computed again"
    state = "the run holds" if found.holds else "the run does not hold"
    console.print(f"{state}: {found.files} files were read, {again}", markup=False)
    if found.not_allowed:
        allowing = " ".join(f"--allow {name}" for name in found.not_allowed)
        console.print(f"cells of your own code were not computed again; to run it: {allowing}", markup=False)
    console.print(
        "A seal (hash) shows whether a file was damaged, not who wrote it. Only cells that were computed again are "
        "proved.",
        style="dim", soft_wrap=False,
    )  # fmt: skip
    return found.holds


def _records(record: Path, model: str | None, key: bytes | None, device: str | None, as_json: bool) -> bool:
    from troth.verbs import verify as verbs

    found = verbs.verify(record, model, device=device, key=key)
    held = sum(each.holds for each in found)
    if as_json:
        about = [
            {"record": str(each.path), "text": each.text, "holds": each.holds, "why": each.why or None}
            for each in found
        ]
        _options.print_json({"holds": held == len(found), "signed": key is not None, "records": about})
        return held == len(found)
    console = _console()
    for each in found:
        if each.holds:
            console.print(f"holds  {each.path.name}", markup=False)
    for why in dict.fromkeys(each.why for each in found if not each.holds):
        names = [each.path.name for each in found if each.why == why]
        listed = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        console.print(f"fails  {listed}: {why}", markup=False, style="bold")
    console.print(f"{held} of {len(found)} {'record holds' if len(found) == 1 else 'records hold'}", markup=False)
    console.print(
        _MEANING if key is not None else f"{_MEANING} {_UNSIGNED}", markup=False, style="dim", soft_wrap=False
    )
    return held == len(found)
