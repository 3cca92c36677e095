"""Short film, book, restaurant and gadget reviews written for troth, with the words that carry the verdict marked."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from troth.core.errors import TrothError
from troth.core.types import Example
from troth.core.units import Span
from troth.data._base import Data, Dataset, rows
from troth.data._classes import Label


@dataclass(frozen=True)
class Reviews(Dataset):
    """All reviews, or those of one domain or with one trait."""

    labels = ("negative", "positive")
    splits = rows(test=None)
    license = "Apache-2.0"

    domain: Literal["film", "book", "restaurant", "gadget"] | None = None
    trait: Literal["negation", "contrast", "irony"] | None = None

    def read(self, split: str) -> Data:
        lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
        records = [line.split("\t") for line in lines if line and not line.startswith("#")]
        examples = [
            _example(id, label, marked)
            for id, domain, label, traits, marked in records
            if self.domain in (None, domain) and (self.trait is None or self.trait in traits.split(","))
        ]
        if not examples:
            raise TrothError(f"{self.name}: no review matches")
        return Data(self.name, examples, self.labels, split=split)


def _example(id: str, label: str, marked: str) -> Example:
    text, rationale = unmark(marked)
    number = Label(Reviews.labels.index(label), Reviews.labels)
    return Example(id, text, label=number, rationale=rationale)


def unmark(marked: str) -> tuple[str, tuple[Span, ...]]:
    """A text without its [[marks]], and where they were.

    >>> unmark("Not [[bad]], but [[no fun]].")
    ('Not bad, but no fun.', ((4, 7), (13, 19)))
    """
    text, spans = "", []
    for place, piece in enumerate(re.split(r"\[\[(.*?)\]\]", marked)):
        if place % 2:  # the groups that were captured are at the odd positions
            spans.append((len(text), len(text) + len(piece)))
        text += piece
    return text, tuple(spans)
