"""A unit's tokens are removed: a shorter row with new positions (DeYoung et al., 2020). If all units are deleted, the
special tokens remain. If the label of a word is explained (token classification), this word is replaced by a mask token
instead.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from troth.core.types import Rows
from troth.maskings import Masking, mask_of, put_token
from troth.models import TextClassifier


@dataclass(frozen=True)
class Delete(Masking):
    level = "ids"
    formula = "x becomes the units with kᵢ = 1, in their order"
    pitfalls = "What is left moves together: positions and neighbors change too, and sentences stop being grammatical."
    whole = True
    shortens = True
    tested_by_masf = False  # a shorter text is a different text, not a masked one

    def erase(self, rows: Rows, keep: Tensor, model: TextClassifier) -> Rows:
        stays = (keep > 0) & rows.real
        if rows.asked is not None and bool((erased := rows.asked & ~stays).any()):
            # Its label is read at this token.
            rows, stays = put_token(rows, erased, mask_of(model), model), stays | erased
        lengths = stays.sum(1)
        longest = rows.width if rows.width is not None else int(lengths.max()) if len(rows) else 1
        width = max(longest, 1)
        # A stable sort keeps the remaining tokens in order and moves the deleted ones behind the new end of the row.
        order = torch.argsort((~stays).to(torch.uint8), dim=1, stable=True)[:, :width]
        gone = torch.arange(width, device=order.device) >= lengths[:, None]
        return replace(
            rows,
            ids=rows.ids.gather(1, order).masked_fill(gone, model.filler_id),
            units=rows.units.gather(1, order).masked_fill(gone, -1),
            lengths=lengths,
            token_types=_moved(rows.token_types, order),
            embeddings=_moved(rows.embeddings, order),
            attention=_moved(rows.attention, order),
            output_factor=_moved(rows.output_factor, order),
            asked=_moved(rows.asked, order),
        )


def _moved(values: Tensor | None, order: Tensor) -> Tensor | None:
    """Moves the values of tokens to their new positions. [rows, length, ...] -> [rows, width, ...]"""
    if values is None:
        return None
    index = order.reshape(*order.shape, *[1] * (values.dim() - 2))
    return values.gather(1, index.expand(*order.shape, *values.shape[2:]))
