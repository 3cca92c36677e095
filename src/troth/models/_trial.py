"""Probes a classifier on first use with a short and a long text, alone and together.

The findings hold for the network, whatever wrappers it has. Differences below numerical noise do not count. A network
with the same output for both texts (because it is not trained yet) is inconclusive: it is probed again when its weights
have changed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from troth.core.types import Encoding, Example, Rows
from troth.models._row_edits import rearranged

if TYPE_CHECKING:
    from troth.models.encoder import Encoder

T = TypeVar("T")

_TEXTS = ("good", "it was not what we had hoped for , but the end of it is good and we would see it again")
_FOUND: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
_TRYING: weakref.WeakSet[Any] = weakref.WeakSet()


def once(model: Encoder, what: str, find: Callable[[Encoder], T]) -> T:
    """A finding about the network, probed now if necessary: with the model at rest, without gradients."""
    found = noted(model)
    if is_silent(model) and model.model not in _TRYING and found["silent"] != _version(model):
        found.clear()
    if what not in found:
        with _trying(model):
            found[what] = find(model)
    result: T = found[what]
    return result


def is_tried(model: Encoder) -> bool:
    """Whether the network is being probed at the moment."""
    return model.model in _TRYING


def noted(model: Encoder) -> dict[str, Any]:
    """All findings about the network so far; during the trial, also the convention that is being tried."""
    return _FOUND.setdefault(model.model, {})


def note_silence(model: Encoder) -> None:
    """Records that the output is the same for both texts."""
    noted(model)["silent"] = _version(model)


def is_silent(model: Encoder) -> bool:
    """Whether the output is the same for both texts, so that probing is inconclusive."""
    return "silent" in noted(model)


@contextmanager
def _trying(model: Encoder) -> Iterator[None]:
    network = model.model
    nested, before = network in _TRYING, dict(noted(model))
    with model.at_rest(), torch.no_grad():
        _TRYING.add(network)
        try:
            yield
        except BaseException:
            noted(model).clear()
            noted(model).update(before)
            raise
        finally:
            if not nested:
                _TRYING.discard(network)
                noted(model).pop("said", None)


def _version(model: Encoder) -> int:
    return sum(parameter._version for parameter in model.model.parameters())


def short_and_long(model: Encoder, width: int | None = None) -> tuple[Rows, Rows]:
    """A short and a long text, in a batch each; the long one as long as a network of fixed length allows."""
    texts = [Example(str(number), text) for number, text in enumerate(_TEXTS)]
    short, long = (rows_of(model, [encoding]) for encoding in model.encode(texts, "token"))
    return short, long if width is None else shortened(long, width)


def shortened(rows: Rows, length: int) -> Rows:
    """One text, truncated to this length."""
    return rows if rows.ids.shape[1] <= length else of_length(rows, length)


def of_length(rows: Rows, length: int) -> Rows:
    """One text with exactly this many tokens: truncated or repeated at its end, before its final special tokens."""
    words = (rows.units[0] >= 0).nonzero()[:, 0].tolist()
    count = max(0, length - (rows.ids.shape[1] - len(words)))
    repeated = (words * (count // max(1, len(words)) + 1))[:count]
    places = [*range(words[0]), *repeated, *range(words[-1] + 1, rows.ids.shape[1])]
    index = torch.tensor([places], device=rows.ids.device)
    return rearranged(rows, index, torch.full_like(rows.lengths, len(places)))


def with_inside(rows: Rows, token: int) -> Rows:
    """The same text with this token in the middle."""
    ids = rows.ids.clone()
    ids[:, ids.shape[1] // 2] = token
    return replace(rows, ids=ids)


def logits(model: Encoder, rows: Rows) -> Tensor:
    """[rows, classes] the logits; those of whole texts are cached during the trial."""
    if rows.embeddings is not None or rows.attention is not None:
        return model.plain_forward(rows).logits.double()
    said = noted(model).setdefault("said", {})
    about = (model.call_convention, rows.ids.shape, tuple(rows.ids.flatten().tolist()), tuple(rows.lengths.tolist()))
    if about not in said:
        said[about] = model.plain_forward(rows).logits.double()
    answer: Tensor = said[about]
    return answer


def agree(model: Encoder, one: Tensor, other: Tensor) -> bool:
    """Whether two outputs are equal up to numerical noise."""
    noise = torch.finfo(model.dtype).eps ** 0.5 * float(torch.maximum(one.abs(), other.abs()).max())
    return bool((one - other).abs().max() <= noise)


def rows_of(model: Encoder, encodings: Sequence[Encoding]) -> Rows:
    """A batch of whole texts."""

    def stacked(tensors: Sequence[Tensor], filler: int) -> Tensor:
        return pad_sequence(list(tensors), batch_first=True, padding_value=filler).to(model.device)

    types = [encoding.token_types for encoding in encodings if encoding.token_types is not None]
    nothing = torch.zeros(len(encodings), dtype=torch.int64, device=model.device)
    return Rows(
        encodings=encodings,
        ids=stacked([encoding.ids for encoding in encodings], model.filler_id),
        units=stacked([encoding.units for encoding in encodings], -1),
        lengths=torch.tensor([len(encoding.ids) for encoding in encodings], device=model.device),
        target=nothing,
        against=nothing - 1,
        keys=nothing,
        token_types=stacked(types, 0) if types else None,
    )
