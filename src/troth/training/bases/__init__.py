"""The models that a training starts from: pretrained weights, or a model built for the data. One file per kind.

A folder or hub name is a base, too: `roberta-base` is `pretrained(path="roberta-base")`.
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
    """An instance is the configuration of a base."""

    @abstractmethod
    def build(self, examples: Sequence[Example], labels: tuple[str, ...], seed: int, max_length: int | None) -> Encoder:
        """Builds the model with one output per class; new parameters are drawn with the seed."""

    def require(self) -> None:  # noqa: B027  # most need nothing
        """Raises an error if the files it starts from are missing, without loading anything."""

    def settings(self, data: str, *, pair: bool) -> Mapping[str, Any]:
        """The default settings for this base."""
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
    """The labels in the form of a transformers configuration."""
    if len(set(labels)) != len(labels):
        raise TrothError(f"two classes have the same name: {', '.join(labels)}")
    return {"id2label": dict(enumerate(labels)), "label2id": {label: index for index, label in enumerate(labels)}}


def texts_of(examples: Sequence[Example]) -> list[str]:
    """All first and second texts of the examples."""
    return [text for example in examples for text in (example.text, example.text_pair) if text is not None]
