"""Texts to encodings: the tokenizer's own template, units by character overlap, the end of the first text cut off."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from troth.core import arguments
from troth.core.errors import TrothError
from troth.core.types import Encoding, Example
from troth.core.units import UnitKind
from troth.models._sharing import borrowed
from troth.models._units import Units
from troth.models.base import Segments, check_choices
from troth.models.families import first_position

_NO_LIMIT = 10**6


def encode(
    tokenizer: Any, examples: Iterable[Example], units: UnitKind, segments: Segments, max_length: int
) -> list[Encoding]:
    """Every example as the tokenizer's model reads it."""
    check_choices(units, segments)
    require_fast(tokenizer)
    examples = list(examples)
    encodings: dict[int, Encoding] = {}
    # Token types are what a plain call returns, so singles and pairs are tokenized apart.
    for is_pair in (False, True):
        chosen = [index for index, example in enumerate(examples) if (example.text_pair is not None) == is_pair]
        if not chosen:
            continue
        pairs = [examples[index].text_pair for index in chosen] if is_pair else None
        with borrowed(tokenizer):
            batch = tokenizer([examples[index].text for index in chosen], pairs, verbose=False)
        for place, index in enumerate(chosen):
            types = batch["token_type_ids"][place] if "token_type_ids" in batch else None
            encodings[index] = _encoding(examples[index], batch.encodings[place], types, units, segments, max_length)
    return [encodings[index] for index in range(len(examples))]


def require_fast(tokenizer: Any) -> None:
    """Refuses a tokenizer that does not say which characters a token stands for."""
    if not getattr(tokenizer, "is_fast", False):
        raise TrothError(f"{type(tokenizer).__name__} gives no character offsets; use the fast tokenizer of this model")


def longest(model: Any, tokenizer: Any, max_length: int | None, name: str) -> int:
    """How many tokens are read: what the user says, else what the tokenizer says; at most the model's positions."""
    positions = int(getattr(model.config, "max_position_embeddings", None) or 0)
    positions = positions - (first_position(model) or 0) if positions > 0 else _NO_LIMIT
    if max_length is None:
        return int(min(positions, tokenizer.model_max_length, _NO_LIMIT))
    arguments.of_kind("max_length", max_length, int, "a whole number")
    if not 1 <= max_length <= positions:
        most = "" if positions == _NO_LIMIT else f": {name} has {positions} positions"
        raise TrothError(f"max_length must be a number from 1 to {positions}, not {max_length}{most}")
    return max_length


def _within(example: Example, sequence: Sequence[int | None], max_length: int) -> NDArray[np.int64]:
    """Numbers of the tokens that stay: all, or the first text less its end."""
    excess = len(sequence) - max_length
    first = [place for place, number in enumerate(sequence) if number == 0]
    if excess <= 0:
        return np.arange(len(sequence))
    fixed = len(sequence) - len(first)
    if fixed >= max_length:
        others = "the special tokens" if example.text_pair is None else "the second text and the special tokens"
        remedy = "give a larger max_length" if example.text_pair is None else "shorten the second text"
        raise TrothError(
            f"example {example.id}: {others} take {fixed} of {max_length} tokens, "
            f"so no room is left for the text; {remedy}"
        )
    return np.delete(np.arange(len(sequence)), first[-excess:])


def _encoding(
    example: Example, tokens: Any, types: Sequence[int] | None, units: UnitKind, segments: Segments, max_length: int
) -> Encoding:
    stays = _within(example, tokens.sequence_ids, max_length)
    cut = len(tokens.ids) - len(stays)
    segment_of = np.array([-1 if number is None else number for number in tokens.sequence_ids])[stays]
    assembled = Units(units, len(stays))
    for segment, text in enumerate([example.text, example.text_pair]):
        if text is None or (segment == 1 and segments == "first"):
            continue
        here = np.flatnonzero(segment_of == segment)
        pieces = [tokens.offsets[place] for place in stays[here]]
        lost = cut if segment == 0 else 0
        end = max((piece[1] for piece in pieces), default=0) if lost else None
        assembled.add(segment, text, here, pieces, end=end, lost_tokens=lost)
    return assembled.encoding(
        example,
        ids=torch.tensor(tokens.ids)[stays],
        token_types=None if types is None else torch.tensor(types)[stays],
    )
