"""Texts to encodings: the tokenizer's own template, units by character overlap, the end of the first text cut off."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from troth.core import arguments
from troth.core.errors import TrothError
from troth.core.types import Encoding, Example
from troth.core.units import UnitKind
from troth.core.user_code import shown
from troth.models._changes import borrowed
from troth.models._units import Units, is_plain, plain_encodings
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
        texts = [examples[index] for index in chosen]
        given = f"{len(texts)} texts, the first {shown(texts[0].text)}"
        with borrowed(tokenizer, given):
            batch = tokenizer([each.text for each in texts], pairs, verbose=False)
            arrays = _arrays(tokenizer, batch, len(texts))
        for index, encoding in zip(chosen, _encodings(texts, arrays, units, segments, max_length), strict=True):
            encodings[index] = encoding
    return [encodings[index] for index in range(len(examples))]


class _Arrays(NamedTuple):
    """What a tokenizer returned: the tokens of all texts, one after another."""

    counts: NDArray[np.int64]  # [texts] tokens of each
    ids: NDArray[np.int64]
    types: NDArray[np.int64] | None
    sequence: NDArray[np.float64]  # 0 for the first text, 1 for the second, NaN for a special token
    offsets: NDArray[np.int64]  # [tokens, 2] characters


def _arrays(tokenizer: Any, batch: Any, texts: int) -> _Arrays:
    try:
        rows, tokens = batch["input_ids"], list(batch.encodings)
        counts = np.array([len(ids) for ids in rows], np.int64)
        offsets = _flat(chain.from_iterable(each.offsets for each in tokens)).reshape(-1, 2)
        sequence = np.array(list(chain.from_iterable(each.sequence_ids for each in tokens)), np.float64)
        types = _flat(batch["token_type_ids"]) if "token_type_ids" in batch else None
        arrays = _Arrays(counts, _flat(rows), types, sequence, offsets)
        sizes = {counts.sum(), *(len(each) for each in arrays[1:] if each is not None)}
        if len(counts) == len(tokens) == texts and len(sizes) == 1 and (arrays.ids >= 0).all():
            return arrays
    except (TypeError, AttributeError, LookupError, ValueError, OverflowError):
        pass
    raise TrothError(
        f"{type(tokenizer).__name__} returned {shown(batch)} for {texts} texts; it must return input_ids and encodings "
        "with an id, offsets and a sequence for each token, as the fast tokenizers of transformers do"
    )


def require_fast(tokenizer: Any) -> None:
    """Refuses a tokenizer that does not say which characters a token stands for."""
    if not getattr(tokenizer, "is_fast", False):
        raise TrothError(f"{type(tokenizer).__name__} gives no character offsets; use the fast tokenizer of this model")


def longest(model: Any, tokenizer: Any, max_length: int | None, name: str) -> int:
    """How many tokens are read: what the user says, else what the tokenizer says; at most the model's positions."""
    positions = int(getattr(model.config, "max_position_embeddings", None) or 0)
    positions = positions - (first_position(model) or 0) if positions > 0 else _NO_LIMIT
    if max_length is None:
        own = getattr(tokenizer, "model_max_length", _NO_LIMIT)
        if not isinstance(own, int | float) or not own >= 1:
            raise TrothError(f"{name}: model_max_length of its tokenizer is {shown(own)}; set it to a number of tokens")
        return int(min(positions, own, _NO_LIMIT))
    arguments.of_kind("max_length", max_length, int, "a whole number")
    if not 1 <= max_length <= positions:
        most = "" if positions == _NO_LIMIT else f": {name} has {positions} positions"
        raise TrothError(f"max_length must be a number from 1 to {positions}, not {max_length}{most}")
    return max_length


def _encodings(
    examples: Sequence[Example], arrays: _Arrays, units: UnitKind, segments: Segments, max_length: int
) -> Iterator[Encoding]:
    """The examples of one call of the tokenizer, whose tokens lie one after another in every array here."""
    counts, sequence = arrays.counts, arrays.sequence
    stays = _stays(examples, sequence == 0, counts, max_length)
    ids = arrays.ids[stays]
    types = None if arrays.types is None else arrays.types[stays]
    segment_of = np.where(np.isnan(sequence), -1, sequence)[stays]
    of_text = np.repeat(np.arange(len(counts)), counts)[stays]
    read = np.bincount(of_text, minlength=len(counts))
    offsets = arrays.offsets[stays]
    plain = np.array([is_plain(example, units) for example in examples], np.bool_)
    here = plain[of_text]
    together = iter(
        plain_encodings(
            [example for example, alike in zip(examples, plain.tolist(), strict=True) if alike],
            read[plain], ids[here], None if types is None else types[here], segment_of[here] == 0,
            offsets[here, 0], offsets[here, 1], (counts > read)[plain],
        )
    )  # fmt: skip
    starts = np.cumsum(read) - read
    for number, example in enumerate(examples):
        if plain[number]:
            yield next(together)
            continue
        part = slice(starts[number], starts[number] + read[number])
        assembled = Units(units, int(read[number]))
        cut = int(counts[number] - read[number])
        _join(assembled, example, segment_of[part], offsets[part], segments, cut=cut)
        yield assembled.encoding(
            example,
            ids=torch.from_numpy(ids[part]),
            token_types=None if types is None else torch.from_numpy(types[part]),
        )


def _stays(
    examples: Sequence[Example], is_first: NDArray[np.bool_], counts: NDArray[np.int64], max_length: int
) -> NDArray[np.bool_]:
    """Which tokens stay: all, or the first text's less its end."""
    excess = counts - max_length
    if (excess <= 0).all():
        return np.ones(len(is_first), dtype=np.bool_)
    of_text = np.repeat(np.arange(len(counts)), counts)
    firsts = np.bincount(of_text[is_first], minlength=len(counts))
    for number in np.flatnonzero(excess >= np.maximum(firsts, 1)).tolist():
        _refuse(examples[number], int(counts[number] - firsts[number]), max_length)
    before = np.cumsum(firsts) - firsts  # tokens of the first texts of the examples before
    rank = np.cumsum(is_first) - 1 - before[of_text]
    stays: NDArray[np.bool_] = ~is_first | (rank < (firsts - np.maximum(excess, 0))[of_text])
    return stays


def _refuse(example: Example, fixed: int, max_length: int) -> None:
    others = "the special tokens" if example.text_pair is None else "the second text and the special tokens"
    remedy = "give a larger max_length" if example.text_pair is None else "shorten the second text"
    raise TrothError(
        f"example {example.id}: {others} take {fixed} of {max_length} tokens, so no room is left for the text; {remedy}"
    )


def _join(
    units: Units, example: Example, segment_of: NDArray[Any], offsets: NDArray[np.int64], segments: Segments, cut: int
) -> None:
    """Finds the units of an example's texts and the tokens of each."""
    for segment, text in enumerate([example.text, example.text_pair]):
        if text is None or (segment == 1 and segments == "first"):
            continue
        here = np.flatnonzero(segment_of == segment)
        pieces = offsets[here]
        lost = cut if segment == 0 else 0
        end = int(pieces[:, 1].max(initial=0)) if lost else None
        units.add(segment, text, here, pieces, end=end, lost_tokens=lost)


def _flat(lists: Iterable[Iterable[Any]]) -> NDArray[np.int64]:
    return np.fromiter(chain.from_iterable(lists), np.int64)
