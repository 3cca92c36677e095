"""How the attribution model G reads what F reads: its own tokens, and which of them lie in each of F's units.

A unit takes the highest score of G's tokens that share a character with it, so a token over several units gives each
its score. A unit that no token of G reaches (G reads less far, say) has score 0. Where a unit of the input is erased
already, G sees its own mask token there, or nothing where the masking deleted it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from troth.core.types import Encoding, Rows
from troth.models._encoding import encode

if TYPE_CHECKING:
    from troth.attribution_model.model import AttributionModel

NEVER = -1e4  # a score before the sigmoid that is 0 behind it


@dataclass(frozen=True, eq=False)
class ReadText:
    """One example as G reads it."""

    ids: Tensor  # [length]
    types: Tensor  # [length]
    reach: Tensor  # [units, width] places of the tokens that lie in each unit, -1 = none


@dataclass(frozen=True, eq=False)
class ReadBatch:
    """A batch of them, with a place for the prediction behind each text."""

    ids: Tensor  # [rows, length]
    types: Tensor  # [rows, length]
    real: Tensor  # [rows, length] attended to
    label: Tensor  # [rows, length] True at the prediction's place
    reach: Tensor  # [rows, units, width]
    present: Tensor  # [rows, units] False at padding and where F has no token

    def per_unit(self, scores: Tensor) -> Tensor:
        """The highest of each unit's tokens. [rows, length] -> [rows, units]"""
        found = scores.gather(1, self.reach.clamp(min=0).flatten(1)).view_as(self.reach)
        return found.masked_fill(self.reach < 0, NEVER).amax(-1)

    def take(self, part: slice) -> ReadBatch:
        """Some of the rows."""
        return ReadBatch(*(each[part] for each in vars(self).values()))

    def to(self, device: torch.device) -> ReadBatch:
        return ReadBatch(*(each.to(device) for each in vars(self).values()))


def read(model: AttributionModel, rows: Rows) -> ReadBatch:
    """The rows' examples as G reads them, on its device."""
    page = read_whole(model, list(rows.encodings))
    if rows.kept is not None and bool((kept := rows.kept.cpu() == 0).any()):
        _erase(model, page, rows, kept)
    return page.to(model.device)


def read_whole(model: AttributionModel, encodings: Sequence[Encoding]) -> ReadBatch:
    """Whole texts as G reads them, on the CPU."""
    texts = _texts(model, encodings)
    lengths = torch.tensor([len(text.ids) for text in texts])
    steps = torch.arange(int(lengths.max()) + 1)
    filler = int(model.tokenizer.pad_token_id or 0)
    ids = pad_sequence([text.ids for text in texts], batch_first=True, padding_value=filler)
    types = pad_sequence([text.types for text in texts], batch_first=True)
    widest = max(1, *(encoding.n_units for encoding in encodings))
    reach = torch.full((len(texts), widest, max(1, *(text.reach.shape[1] for text in texts))), -1)
    present = torch.zeros(len(texts), widest, dtype=torch.bool)
    for row, (text, encoding) in enumerate(zip(texts, encodings, strict=True)):
        reach[row, : text.reach.shape[0], : text.reach.shape[1]] = text.reach
        present[row, : encoding.n_units] = ~encoding.tokenless
    return ReadBatch(
        torch.cat([ids, ids.new_full((len(ids), 1), filler)], dim=1),
        torch.cat([types, types.new_zeros(len(types), 1)], dim=1),
        steps <= lengths[:, None],
        steps == lengths[:, None],
        reach,
        present,
    )


def _erase(model: AttributionModel, page: ReadBatch, rows: Rows, erased: Tensor) -> None:
    """Tokens of units that are gone become the mask token or, where the masking shortened the row, are not seen."""
    mask, lengths = model.tokenizer.mask_token_id, rows.lengths.tolist()
    for row, encoding in enumerate(rows.encodings):
        gone = torch.zeros(page.reach.shape[1], dtype=torch.bool)
        gone[: encoding.n_units] = erased[row, : encoding.n_units]
        places = page.reach[row][gone].flatten()
        places = places[places >= 0]
        if mask is None or lengths[row] < len(encoding.ids):
            page.real[row, places] = False
        else:
            page.ids[row, places] = mask
        page.present[row, gone] = False


def _texts(model: AttributionModel, encodings: Sequence[Encoding]) -> list[ReadText]:
    new = [encoding for encoding in dict.fromkeys(encodings) if encoding not in model.texts]
    examples = [encoding.example for encoding in new]
    for encoding, own in zip(new, encode(model.tokenizer, examples, "token", "both", model.max_length), strict=True):
        types = torch.zeros_like(own.ids) if own.token_types is None else own.token_types
        model.texts[encoding] = ReadText(own.ids, types, torch.from_numpy(_reach(encoding, own)))
    return [model.texts[encoding] for encoding in encodings]


def _reach(encoding: Encoding, own: Encoding) -> NDArray[np.int64]:
    """[units, width] places of G's tokens that share a character with each unit of F, -1 = none."""
    places = np.empty(own.n_units, dtype=np.int64)
    at = np.flatnonzero(own.units.numpy() >= 0)
    places[own.units.numpy()[at]] = at
    units, tokens = (_spans(one) for one in (encoding, own))
    inside = (np.maximum(units[:, None, 1], tokens[:, 1]) < np.minimum(units[:, None, 2], tokens[:, 2])) | (
        units[:, None, 1:] == tokens[:, 1:]
    ).all(-1)  # a token without characters is the same one
    inside &= units[:, None, 0] == tokens[:, 0]
    width = max(1, int(inside.sum(1).max(initial=0)))
    if own.n_units == 0:
        return np.full((len(units), width), -1)
    order = np.argsort(~inside, axis=1, kind="stable")[:, :width]
    return np.where(np.take_along_axis(inside, order, axis=1), places[order], -1)


def _spans(encoding: Encoding) -> NDArray[np.int64]:
    """[units, 3] segment, first character, one after the last."""
    spans = [(segment, *span) for segment, span in zip(encoding.unit_segments, encoding.unit_spans, strict=True)]
    return np.array(spans, dtype=np.int64).reshape(-1, 3)
