"""`troth.referee`: checks each property of an attribution function, and shows how to reproduce a failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from troth.core import arguments
from troth.core.display import Shown, table
from troth.core.sheet import Exportable, Sheet, plain_sheet
from troth.core.user_code import shown
from troth.refereeing import Property, find_properties
from troth.refereeing.subject import Attribute, DoesNotApplyError, Subject, ViolationError, seeded

Status = Literal["holds", "fails", "not claimed", "not supported", "not judged"]
SIGNS: dict[str, str] = {"holds": "✓", "fails": "✗"}  # all others: –


@dataclass(frozen=True)
class Judgment:
    """The result of one property for one function."""

    name: str
    group: str
    says: str
    status: Status
    why: str = ""  # why it was not checked
    expected: str = ""
    got: str = ""
    text: Any = ""  # the smallest text that shows the failure
    again: str = ""  # the options that reproduce it

    @property
    def sign(self) -> str:
        return SIGNS.get(self.status, "–")

    @property
    def line(self) -> str:
        """What must hold, and how it failed or why it was not checked."""
        if self.status == "fails":
            return f"{self.says} Expected {self.expected}; got {self.got}. Text: {shown(self.text)}"
        return f"{self.says} ({self.why})" if self.why else self.says


class Verdicts(Shown, list[Judgment], Exportable):
    """All properties of a function, in reading order."""

    def __init__(self, verdicts: Iterable[Judgment] = (), name: str = "", seconds: float = 0.0) -> None:
        super().__init__(verdicts)
        self.name, self.seconds = name, seconds

    @property
    def failed(self) -> list[Judgment]:
        return [verdict for verdict in self if verdict.status == "fails"]

    @property
    def judged(self) -> int:
        return sum(verdict.status in SIGNS for verdict in self)

    @property
    def holds(self) -> bool:
        return not self.failed

    @property
    def badge(self) -> str:
        """The text of a badge: how many of the checked properties hold."""
        return f"troth referee: {self.judged - len(self.failed)}/{self.judged}"

    def __getitem__(self, place: Any) -> Any:
        """A judgment by index or by the name of its property, or a slice of the judgments."""
        if isinstance(place, str):
            return next(verdict for verdict in self if verdict.name == place)
        found = super().__getitem__(place)
        return Verdicts(found, self.name, self.seconds) if isinstance(place, slice) else found

    def sheet(self) -> Sheet:
        fields = ("property", "result", "what must hold", "expected", "got", "text")
        rows = [
            (each.name, each.sign, each.says + (f" ({each.why})" if each.why else ""), each.expected, each.got,
             shown(each.text) if each.text != "" else "")
            for each in self
        ]  # fmt: skip
        return plain_sheet(f"The properties of {self.name}", fields, rows, [self.summary])

    @property
    def summary(self) -> str:
        left = len(self) - self.judged
        state = "all hold" if self.holds else f"{len(self.failed)} of them fail"
        rest = f"; {left} were not checked, with the reason" if left else ""
        return f"{self.judged} properties were checked: {state}{rest}."

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        rows = [
            {
                "property": each.name, "group": each.group, "says": each.says, "status": each.status,
                "why": each.why or None, "expected": each.expected or None, "got": each.got or None,
                "text": each.text if each.status == "fails" else None, "again": each.again or None,
            }
            for each in self
        ]  # fmt: skip
        return {"function": self.name, "holds": self.holds, "badge": self.badge, "properties": rows}

    def _line(self) -> str:
        return f"of {self.name}: {self.summary}"

    def _rows(self) -> Iterator[str]:
        return (f"{each.sign} {each.name}: {each.line}" for each in self if each.status != "holds")

    def _parts(self) -> Iterator[str]:
        rows = [(each.sign, each.name, each.line) for each in self]
        yield table(f"The properties of {self.name}. {self.summary}", ("", "property", "what must hold"), rows)


@arguments.typed(
    attribute="a function attribute(model, tokenizer, texts, target)",
    claims="a list of names",
    only="a list of names",
)
def referee(
    attribute: Attribute,
    claims: Iterable[str] | None = None,
    *,
    of: str | None = None,
    tolerance: float | None = None,
    only: Sequence[str] | None = None,
    name: str | None = None,
    progress: Callable[[Judgment], None] | None = None,
) -> Verdicts:
    """Checks an attribution function on models with known answers.

    The function is called as `attribute(model, tokenizer, texts, target)`, with a transformers classifier, its
    tokenizer, a list of texts (or of pairs of texts) and the index of a class. It returns one result per text: one
    number per token, `[(token, score), …]`, `[((start, end), score), …]` or a `troth.Attribution`. It raises
    `NotImplementedError` for inputs that it does not support.

    Some properties depend on the method, so they are checked only for methods that claim them: `claims` (or the
    function's attribute `claims`) contains any of completeness, dummy, symmetry, linearity, linear, shapley,
    leave_one_out, integrated_gradients, input_x_gradient. `of` (or `attribute.of`) is the quantity that is explained:
    "logit", "probability" or "log_probability". `tolerance` (or `attribute.tolerance`) is the error that is allowed
    for an approximation, as a share of the largest score.
    """
    begun = time.perf_counter()
    subject = Subject(
        attribute,
        _own(attribute, "claims", ()) if claims is None else claims,
        _own(attribute, "of", "logit") if of is None else of,
        _own(attribute, "tolerance", 0.0) if tolerance is None else tolerance,
    )
    verdicts = Verdicts(name=name or subject.name)
    for each in find_properties(only):
        with seeded(0):  # building models draws random numbers
            verdict = _judged(each, subject, verdicts)
        verdicts.append(verdict)
        if progress is not None:
            progress(verdict)
    verdicts.seconds = time.perf_counter() - begun
    return verdicts


def _own(function: Any, name: str, default: Any) -> Any:
    return getattr(function, name, default)


def _judged(each: Property, subject: Subject, before: Verdicts) -> Judgment:
    def verdict(status: Status, **facts: Any) -> Judgment:
        return Judgment(each.name, each.group, each.says, status, **facts)

    if each.claims and not subject.claims.intersection(each.claims):
        return verdict("not claimed", why=f"checked only for methods that claim {' or '.join(each.claims)}")
    if subject.claims.intersection(each.unless):
        return verdict(
            "not claimed",
            why=f"not checked for methods that claim {' or '.join(subject.claims.intersection(each.unless))}",
        )
    for one in before:
        if one.name in each.after and one.status in ("fails", "not judged"):
            return verdict("not judged", why=one.why if one.status == "not judged" else f"because {one.name} fails")
    try:
        each.check(subject)
    except DoesNotApplyError as error:
        return verdict("not supported", why=f"not supported: {error}")
    except ViolationError as error:
        again = f"--only {each.name}"
        return verdict("fails", expected=error.expected, got=error.got, text=error.text, again=again)
    return verdict("holds")
