"""One input as the user provides it."""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from numbers import Integral
from typing import TypeAlias

from troth.core.errors import TrothError
from troth.core.units import Span, is_span

LabelSet: TypeAlias = tuple[int | str, ...]  # all labels that apply; empty if none does


@dataclass(frozen=True)
class Example:
    """One input as the user provides it; the rationale is the part marked by a human, as character spans of `text`.

    The label is a class or, for multi-label models, the set of labels that apply. The group is the source of the
    example, such as a document: examples of one group are not independent and count once in a bench.
    """

    id: str
    text: str
    text_pair: str | None = None
    label: int | str | LabelSet | None = None
    rationale: tuple[Span, ...] | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", str(self.id))
        if not is_unicode(self.id):
            raise TrothError(f"example {self.id[:40]!a}: the id is not valid Unicode (a lone surrogate)")
        if not isinstance(self.group, str | Integral | None):
            raise TrothError(f"example {self.id}: a group must be a name or a number, not {type(self.group).__name__}")
        object.__setattr__(self, "group", None if self.group is None else str(self.group))
        if self.group is not None and not is_unicode(self.group):
            raise TrothError(f"example {self.id}: the group is not valid Unicode (a lone surrogate)")
        if not isinstance(self.text, str) or not isinstance(self.text_pair, str | None):
            kind = type(self.text if not isinstance(self.text, str) else self.text_pair).__name__
            raise TrothError(f"example {self.id}: a text must be a string, not {kind}")
        if not all(text is None or is_unicode(text) for text in (self.text, self.text_pair)):
            raise TrothError(f"example {self.id}: the text is not valid Unicode (a lone surrogate); decode it as UTF-8")
        if isinstance(self.label, Iterable) and not isinstance(self.label, str):
            in_order = sorted(self.label, key=str) if isinstance(self.label, Set) else self.label
            object.__setattr__(self, "label", tuple(dict.fromkeys(in_order)))
        if self.rationale is not None:
            spans = tuple(self.rationale) if isinstance(self.rationale, Iterable) else (self.rationale,)
            if wrong := [span for span in spans if not is_span(span)]:
                raise TrothError(f"example {self.id}: a rationale must be a list of (start, end), not {wrong[0]!r:.60}")
            object.__setattr__(self, "rationale", tuple((int(start), int(end)) for start, end in spans))

    @property
    def class_index(self) -> int | None:
        """The index of the example's class; None without a label, an error for a set of labels."""
        if isinstance(self.label, tuple):
            raise TrothError(
                f"example {self.id} has a set of labels, but here each example must belong to exactly one class"
            )
        return None if self.label is None else int(self.label)


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded as UTF-8, which a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
