"""What a user has in memory, as examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from troth.core import arguments
from troth.core.errors import TrothError
from troth.core.types import Example

Texts = str | tuple[str, str] | Example | Iterable[str | tuple[str, str] | Example]


def as_examples(texts: Texts) -> Iterator[Example]:
    """Examples of examples, texts or pairs; a bare tuple of two texts is one pair, a text's id is its position."""
    if isinstance(texts, str | Example) or (isinstance(texts, tuple) and _is_pair(texts)):
        texts = [texts]
    arguments.iterable("texts", texts, "a text, an Example, a pair of texts, or a list of them")
    for position, item in enumerate(texts):
        if isinstance(item, Example):
            yield item
        elif isinstance(item, str):
            yield Example(id=str(position), text=item)
        elif _is_pair(item):
            yield Example(id=str(position), text=item[0], text_pair=item[1])
        else:
            raise TrothError(
                f"item {position} is {type(item).__name__}; give an Example, a text or a pair (text, text_pair)"
            )


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple | list) and len(item) == 2 and all(isinstance(part, str) for part in item)
