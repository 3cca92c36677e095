"""The end of a bench in CI: requirements, their rulings on the scores, trackers, and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from troth.commands import _options
from troth.core import extras, terminal

if TYPE_CHECKING:
    from troth.report.board import Leaderboard
    from troth.report.requirements import Requirement, Rulings

NOT_MET, FAILED, CANNOT_TELL = 1, 2, 3


def understood(texts: Sequence[str] | None, explainers: Any, metrics: Any, baseline: str | None) -> list[Requirement]:
    """Parses the requirements before anything is computed; rejects names that will not be measured."""
    from troth.report.requirements import parse
    from troth.store.store import open_run

    required = [parse(text) for text in texts or ()]
    for one in required:
        one.check(*(None if named == "all" else named for named in (explainers, metrics)))
    if baseline is not None:
        open_run(baseline, sound=True)
    return required


def tracker(name: str | None) -> Callable[[Leaderboard], str] | None:
    """The function that logs to a tracker; a tracker that is not installed is rejected before anything is computed."""
    if name is None:
        return None
    import troth
    from troth.report.logged import TRACKERS

    _options.one_of("--log", name, *TRACKERS)
    extras.require(name, f"--log {name}", name)
    log: Callable[[Leaderboard], str] = getattr(troth, f"log_to_{name}")
    return log


def judged(board: Leaderboard, required: Sequence[Requirement], baseline: str | None) -> Rulings | None:
    """Checks the scores against the requirements; None if there are no requirements."""
    from troth.report.requirements import require

    return require(board, required, baseline) if required or baseline is not None else None


def as_dict(judgment: Rulings | None) -> dict[str, Any]:
    """The rulings as JSON data; empty if there are no requirements."""
    if judgment is None:
        return {}
    rulings = [{"requirement": one.requirement, "met": one.met, "reason": one.reason} for one in judgment.rulings]
    return {"met": judgment.met, "requirements": rulings}


def leave(judgment: Rulings | None, failed: object, aside: bool) -> None:
    """Prints one line per requirement (to standard error if `aside`), and exits with the most severe exit code."""
    for ruling in judgment.rulings if judgment is not None else ():
        for line in terminal.wrapped(str(ruling), 80):
            terminal.echo(line, err=aside)
    met = True if judgment is None else judgment.met
    code = NOT_MET if met is False else FAILED if failed else CANNOT_TELL if met is None else 0
    if code:
        raise SystemExit(code)
