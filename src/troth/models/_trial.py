"""A model proves on first use that padding changes nothing: it reads a short and a long text alone and padded together.

XLNet, FNet, ConvBERT and others mix padding into what they read. They are tested rather than listed; their rows share
a batch only with rows of the same length.
"""

import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from troth.core.errors import TrothError
from troth.core.types import Encoding, Example, Rows
from troth.models import families
from troth.models.base import TextClassifier

_TEXTS = ("good", "it was not what we had hoped for , but the end of it is good and we would see it again")
_PROVED: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def pads(model: TextClassifier) -> bool:
    """Whether the model says the same of a text however much padding follows it."""
    if families.is_block_sparse(model.model):
        return False
    if (proved := _PROVED.get(model.model)) is not None:
        return proved
    with model.at_rest(), torch.no_grad():
        encodings = model.encode([Example(str(number), text) for number, text in enumerate(_TEXTS)], "token")
        if len({len(encoding.ids) for encoding in encodings}) == 1:
            return False  # it reads so few tokens that both are cut alike: nothing could be proved
        alone = torch.cat([model.forward(_rows(model, [encoding])).logits for encoding in encodings]).double()
        noise = torch.finfo(model.dtype).eps ** 0.5 * float(alone.abs().max())
        if bool((alone[0] - alone[1]).abs().max() <= noise):
            return True  # it says the same of everything; once it is trained it is asked again
        rows = _rows(model, encodings)
        padded = [model.forward(rows).logits]
        with suppress(TrothError):  # a model that takes no vectors is only ever asked with ids
            padded.append(model.forward(replace(rows, embeddings=rows.vectors(model))).logits)
        _PROVED[model.model] = all(bool((logits.double() - alone).abs().max() <= noise) for logits in padded)
        return _PROVED[model.model]


def _rows(model: TextClassifier, encodings: Sequence[Encoding]) -> Rows:
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
