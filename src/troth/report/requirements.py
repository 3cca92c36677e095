"""Requirements on a bench, written as sentences and checked with the statistics of the verdict.

    EXPLAINER beats EXPLAINER               better on a deciding metric, worse on none
    EXPLAINER beats EXPLAINER on METRIC     better on that metric
    METRIC(EXPLAINER) > NUMBER              also >=, < and <=

The options of a name may be left out if only one method of the run has that name. Each requirement is met, not met, or
cannot be decided with so few examples. The worst of several requirements counts; since all must hold, no correction for
their number is needed (an intersection-union test).
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from troth import statistics
from troth.core import catalog
from troth.core.errors import TrothError, nearest, unknown
from troth.report.comparing import FEWEST, MOST, RANDOM, PairedComparison, corrected
from troth.report.verdict import power
from troth.report.wording import joined
from troth.store.cells import canonical

if TYPE_CHECKING:
    from troth.metrics import Summary
    from troth.report.board import Leaderboard

_FORMS = "EXPLAINER beats EXPLAINER, EXPLAINER beats EXPLAINER on METRIC, or METRIC(EXPLAINER) > NUMBER"
_SIGNS = (">=", "<=", ">", "<")
_THRESHOLD = re.compile(rf"(?P<call>.+\))\s*(?P<sign>{'|'.join(_SIGNS)})\s*(?P<number>[^\s<>=]+)")
_BEATS = re.compile(r"(?P<first>.+?)\s+beats\s+(?P<second>.+?)(?:\s+on\s+(?P<metric>.+))?")
_WORDS = {True: "met", False: "not met", None: "cannot tell"}


@dataclass(frozen=True)
class Ruling:
    """The ruling on one requirement; `met` is None if the scores cannot decide it."""

    requirement: str
    met: bool | None
    reason: str

    def __str__(self) -> str:
        return f"{_WORDS[self.met]}: {self.requirement} ({self.reason})"


@dataclass(frozen=True)
class Rulings:
    """The rulings on all requirements. True only if every one is met, so that a test can assert it."""

    rulings: tuple[Ruling, ...]

    @property
    def met(self) -> bool | None:
        """False if any is not met, else None if any cannot be decided, else True."""
        found = {ruling.met for ruling in self.rulings}
        return False if False in found else None if None in found else True

    @property
    def reason(self) -> str:
        """The reasons for the result: all that are not met, else all that cannot be decided, else all."""
        return "; ".join(str(ruling) for ruling in self.rulings if ruling.met is self.met)

    def __bool__(self) -> bool:
        return self.met is True

    def __repr__(self) -> str:
        return f"<{self.reason}>"


class NotMetError(TrothError):
    """A requirement is not met, or cannot be decided."""

    def __init__(self, judgment: Rulings) -> None:
        super().__init__(judgment.reason)
        self.judgment = judgment


class Requirement(ABC):
    """A parsed requirement."""

    explainers: tuple[str, ...]
    metrics: tuple[str, ...]

    @abstractmethod
    def rule(self, board: Leaderboard) -> Ruling:
        """The ruling on this requirement from the scores of a board."""

    def check(self, explainers: Sequence[str] | None, metrics: Sequence[str] | None) -> None:
        """Raises an error for a name that a bench of these methods will not measure; None stands for its defaults, so
        that any name of the catalog is accepted.
        """
        for kind, asked, measured in (("explainers", self.explainers, explainers), ("metrics", self.metrics, metrics)):
            if measured is not None and any(":" in spec for spec in measured):
                continue  # the user's own methods: their names are known only after their code is loaded
            for name in set(asked) - {RANDOM}:
                if measured is None:
                    catalog.find(kind, name.partition("(")[0])
                else:
                    _find(kind, name, measured, f"{kind[:-1]} of this bench")


@dataclass(frozen=True)
class Beats(Requirement):
    """One explainer is better than another."""

    first: str
    second: str
    metric: str | None = None

    @property
    def explainers(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.first, self.second

    @property
    def metrics(self) -> tuple[str, ...]:  # type: ignore[override]
        return () if self.metric is None else (self.metric,)

    def rule(self, board: Leaderboard) -> Ruling:
        first, second = (
            _find("explainers", name, board.explainers, "explainer of this run") for name in self.explainers
        )
        if first == second:
            raise TrothError(f"{first} cannot beat itself; name two different explainers")
        text = f"{self.first} beats {self.second}" + (f" on {self.metric}" if self.metric else "")
        pairs = [] if board.analysis is None else board.analysis.between(first, second, self._measures(board))
        if not pairs:
            return Ruling(text, None, f"no metric that decides has scores of both {first} and {second}")
        better = {name: [pair for pair in pairs if pair.better == name] for name in (first, second)}
        if better[first] and better[second]:
            sides = [f"{name} is better on {joined([pair.metric for pair in some])}" for name, some in better.items()]
            return Ruling(text, False, f"metrics disagree: {', '.join(sides)}")
        if better[second]:
            return Ruling(text, False, f"{better[second][-1]}")
        if better[first]:
            return Ruling(text, True, f"{better[first][0]}")
        nearest_pair = min(pairs, key=lambda pair: pair.needed)
        return Ruling(text, None, f"{nearest_pair}. {_more(nearest_pair, board.counts)}")

    def _measures(self, board: Leaderboard) -> tuple[str, ...] | None:
        if self.metric is None:
            return None
        metric = _find("metrics", self.metric, board.metrics, "metric of this run")
        if board.directions[metric] is None:
            raise TrothError(
                f"on {metric} neither direction is better, so no explainer can beat another; name another metric"
            )
        return (metric,)


@dataclass(frozen=True)
class Threshold(Requirement):
    """The value of an explainer on a metric is above or below a number."""

    metric: str
    explainer: str
    sign: str
    number: float

    @property
    def explainers(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.explainer,)

    @property
    def metrics(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.metric,)

    def rule(self, board: Leaderboard) -> Ruling:
        explainer = _find("explainers", self.explainer, board.explainers, "explainer of this run")
        metric = _find("metrics", self.metric, board.metrics, "metric of this run")
        text = f"{self.metric}({self.explainer}) {self.sign} {self.number:g}"
        summary = board.summaries.get((explainer, metric))
        if summary is None or math.isnan(summary.value):
            return Ruling(text, None, f"{metric} has no scores of {explainer}")
        number = f"{summary.value:.3f} [{summary.low:.3f}, {summary.high:.3f}], {summary.count} {board.counts}"
        above = self.sign.startswith(">")
        inside = summary.low <= self.number <= summary.high
        if (explainer, metric) in board.compared or (explainer, metric) not in board.values:
            # A value over all examples together has no scores to test, only its interval.
            known, more = summary.count >= FEWEST and not inside, _enough(summary, self.number, board.counts)
        else:
            values = board.values[explainer, metric]
            resolution = statistics.resolution() if board.analysis is None else board.analysis.resolution
            paired = {explainer: values, f"{self.number:g}": np.full(len(values), self.number)}
            (pair,) = corrected([(metric, paired, above)], resolution)
            known, more = pair.better is not None and not inside, _more(pair, board.counts)
        if not known:
            return Ruling(text, None, f"{number}. {more}")
        return Ruling(text, (summary.value > self.number) == above, number)


def parse(text: str) -> Requirement:
    """Parses a requirement from a sentence.

    >>> parse("leave_one_out beats random on aopc_comprehensiveness")
    Beats(first='leave_one_out', second='random', metric='aopc_comprehensiveness')
    >>> parse("comprehensiveness(ratio=0.5)(lime(samples=50)) >= 0.2")
    Threshold(metric='comprehensiveness(ratio=0.5)', explainer='lime(samples=50)', sign='>=', number=0.2)
    """
    sentence = text.strip().replace("≥", ">=").replace("≤", "<=")
    if found := _THRESHOLD.fullmatch(sentence):
        opening = _opening(found["call"])
        metric, explainer = found["call"][:opening].strip(), found["call"][opening + 1 : -1].strip()
        if opening > 0 and explainer:
            return Threshold(metric, explainer, found["sign"], _number(found["number"], text))
    elif found := _BEATS.fullmatch(sentence):
        return Beats(found["first"], found["second"], found["metric"])
    raise TrothError(f"cannot read the requirement {text!r};{_hint(sentence)} write {_FORMS}")


def require(
    board: Leaderboard,
    requirements: Iterable[str | Requirement],
    baseline: str | Path | Leaderboard | None = None,
    raises: bool = False,
) -> Rulings:
    """Rules on each requirement, and on whether the board is worse than a baseline: a run folder or a leaderboard."""
    from troth.report.baseline import rule_on

    parsed = [parse(one) if isinstance(one, str) else one for one in requirements]
    rulings = [one.rule(board) for one in parsed]
    if baseline is not None:
        rulings.append(rule_on(board, baseline))
    if not rulings:
        raise TrothError(f"no requirement was given; write {_FORMS}, or name a baseline")
    judgment = Rulings(tuple(rulings))
    if raises and not judgment:
        raise NotMetError(judgment)
    return judgment


def _find(kind: str, asked: str, specs: Sequence[str], what: str) -> str:
    """The spec that a name refers to: the text itself, else the only one with this name and these options."""
    if asked in specs:
        return asked
    fitting = [spec for spec in specs if _fits(kind, asked, spec)]
    if not fitting:
        raise unknown(what, asked, specs)
    if len(fitting) > 1:
        raise TrothError(f"{asked} may mean {' or '.join(fitting)}; write the full name")
    return fitting[0]


def _fits(kind: str, asked: str, spec: str) -> bool:
    """Whether a spec is the requested method with the requested options; other options may have any value."""
    if asked.partition("(")[0] != spec.partition("(")[0]:
        return False
    with suppress(TrothError):
        wanted: Any = catalog.build(kind, asked)
        there: Any = catalog.build(kind, spec)
        options = catalog.parse(asked)[1]
        return all(canonical(getattr(wanted, name)) == canonical(getattr(there, name, None)) for name in options)
    return "(" not in asked


def _opening(call: str) -> int:
    """The index of the bracket that the last one closes; −1 if there is none.

    >>> _opening("a(b)(c(d))"), _opening("a)")
    (4, -1)
    """
    depth = 0
    for place in range(len(call) - 1, -1, -1):
        depth += (call[place] == ")") - (call[place] == "(")
        if depth == 0:
            return place
    return -1


def _number(text: str, requirement: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise TrothError(f"cannot read the requirement {requirement!r}; {text!r} is not a number")
    return number


def _hint(sentence: str) -> str:
    """Suggests the word that was probably meant."""
    words = [word for word in sentence.split() if word not in ("beats", "on")]
    near = next((word for word in words if nearest(word, ["beats"])), None) if " beats " not in sentence else None
    return f" did you mean beats instead of {near}?" if near else ""


def _more(pair: PairedComparison, counts: str) -> str:
    """The number of examples that would be enough."""
    return " ".join(power(pair, counts)).rstrip(".")


def _enough(summary: Summary, number: float, counts: str) -> str:
    """The approximate number of examples for which the interval excludes the number with 80 % power."""
    away = abs(summary.value - number)
    half = summary.value - summary.low if summary.value > number else summary.high - summary.value
    factor = (1.96 + 0.84) / 1.96
    needed = max(FEWEST, summary.count * (factor * half / away) ** 2) if away else math.inf
    if not needed <= MOST:
        return f"It is so close to {number:g} that no number of {counts} is likely to tell them apart"
    return f"About {math.ceil(needed):,} {counts} would do"
