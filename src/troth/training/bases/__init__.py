"""What a training starts from: pretrained weights, or a model built for the data. One file per kind.

A folder or hub name stands for itself: `roberta-base` is `pretrained(path="roberta-base")`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from troth.core import arguments, catalog
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models.encoder import Encoder


@dataclass(frozen=True)
class Base(ABC):
    """An instance is its configuration."""

    @abstractmethod
    def build(self, examples: Sequence[Example], labels: tuple[str, ...], seed: int, max_length: int | None) -> Encoder:
        """A model with a class for each label; what is new in it is drawn with the seed."""

    def require(self) -> None:  # noqa: B027  # most need nothing
        """One line where what it starts from is not there; nothing is loaded."""

    def settings(self, data: str, *, pair: bool) -> Mapping[str, Any]:
        """Settings that suit it by default."""
        return {}


def build(base: str | Base) -> Base:
    """A base from its spec text, or from a folder or hub name.

    >>> build("bert-base-uncased")
    Pretrained(path='bert-base-uncased')
    """
    if not isinstance(base, str):
        arguments.of_kind("base", base, Base, "a folder, a hub name, or a Base")
        return base
    if base.partition("(")[0].strip() in catalog.names("bases"):
        found: Base = catalog.build("bases", base)
        return found
    from troth.training.bases.pretrained import Pretrained

    start = Pretrained(path=base)
    start.require()
    return start


def class_names(labels: tuple[str, ...]) -> dict[str, Any]:
    """The labels as a transformers configuration has them."""
    if len(set(labels)) != len(labels):
        raise TrothError(f"two classes have the same name: {', '.join(labels)}")
    return {"id2label": dict(enumerate(labels)), "label2id": {label: index for index, label in enumerate(labels)}}


def texts_of(examples: Sequence[Example]) -> list[str]:
    """Every text of the examples, first and second ones."""
    return [text for example in examples for text in (example.text, example.text_pair) if text is not None]
