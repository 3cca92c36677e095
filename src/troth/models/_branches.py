"""Reads erased inputs as branches of the whole text: the tokens before the first erased one are run once and shared.

The rows' own tokens go through the network as one sequence without padding, ordered by the position at which they leave
the text. Each token attends to the prompt, to the text as long as its row agrees with it, and to its own row.
"""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface

from troth.core.types import Rows
from troth.models._changes import swapped
from troth.models._prefix import Lent
from troth.models._prompt_reader import Tree
from troth.models._row_edits import distinct_encodings

_NAME = "troth_branches"
_WORTH = 0.8  # used only if it takes at most this share of the tokens of padded rows
# The number of tokens per attention call: smaller chunks compute fewer useless products, larger ones run faster.
_TOGETHER = {"cpu": 256}
_OTHER_TOGETHER = 1024


@dataclass(frozen=True, eq=False)
class Chunk:
    """Tokens of one attention call: a slice of the sequence, the text that they may attend to, and the mask."""

    tokens: slice
    trunk: int | None  # the index of their text among the shared ones
    mask: Tensor  # [tokens, prompt + text + tokens] 0 or −∞


@dataclass(frozen=True, eq=False)
class BranchPlan:
    """One pass for all rows: the positions that each row runs itself, and where they are in the sequence."""

    rows: Tensor  # [tokens] the row of each token
    places: Tensor  # [tokens] its position in the row
    starts: Tensor  # [rows] the first position that a row runs itself
    offsets: Tensor  # [rows] the index of that position in the sequence
    trunks: tuple[Tensor, ...]  # the ids of each shared text up to the last position at which a row branches off
    order: tuple[tuple[int, int | None], ...]  # rows in the order of the sequence, each with the index of its text

    def index(self, places: Tensor) -> Tensor:
        """The indices in the sequence of these positions of the rows. [rows, n] -> [rows, n]"""
        return places - self.starts[:, None] + self.offsets[:, None]


def plan(rows: Rows, first: Tensor, begun: int) -> BranchPlan | None:
    """Plans a pass for rows that must be run from position `first` ([rows]) on; None if that saves too little.

    The first `begun` tokens are the same in all rows and are shared.
    """
    if int(first.min()) < 0:  # nothing is left of a row
        return None
    distinct, of_row = distinct_encodings(rows)
    wholes = pad_sequence([encoding.ids for encoding in distinct], batch_first=True, padding_value=-1)
    ids, lengths, first = rows.ids.cpu(), rows.lengths.cpu(), first.cpu()
    width = min(ids.shape[1], wholes.shape[1])
    agrees = (ids[:, :width] == wholes[of_row, :width]).long().cumprod(1).sum(1)  # [rows]
    starts = torch.minimum(agrees, first).clamp(min=begun)
    # A text is shared up to the position from which whole rows are run.
    ends = torch.tensor([len(encoding.ids) for encoding in distinct])
    ends[of_row] = ends[of_row] - (lengths - first)
    saved = torch.zeros(len(ends), dtype=torch.int64).index_add(0, of_row, starts - begun)
    lent = saved > ends - begun
    starts = torch.where(lent[of_row], starts, begun)
    count = int((lengths - starts).sum() + (ends - begun)[lent].sum())
    if not bool(lent.any()) or count > _WORTH * len(ids) * (int(lengths.max()) - begun):
        return None
    place_of = {number: place for place, number in enumerate(torch.nonzero(lent)[:, 0].tolist())}
    texts = [place_of.get(number) for number in of_row.tolist()]
    order = sorted(range(len(ids)), key=lambda row: (-1 if texts[row] is None else texts[row], int(starts[row])))
    counts = (lengths - starts)[order]
    ordered = torch.tensor(order)
    offsets = torch.empty_like(starts)
    offsets[ordered] = counts.cumsum(0) - counts
    row_of_token = ordered.repeat_interleave(counts)
    places = torch.arange(len(row_of_token)) - offsets[row_of_token] + starts[row_of_token]
    device = rows.ids.device
    return BranchPlan(
        rows=row_of_token.to(device),
        places=places.to(device),
        starts=starts.to(device),
        offsets=offsets.to(device),
        trunks=tuple(wholes[number, : int(ends[number])] for number in place_of),
        order=tuple((row, texts[row]) for row in order),
    )


def run(
    body: Any,
    config: Any,
    rows: Rows,
    chosen: BranchPlan,
    prompt: list[Lent] | None,
    trunks: list[list[Lent]],
    tree: Tree,
) -> Tensor:
    """[tokens, hidden] the last hidden state of each token."""
    begun = prompt[0].keys.shape[2] if prompt else 0
    positions = tree.positions(rows.lengths, chosen.rows, chosen.places)
    dtype = next(body.parameters()).dtype
    token = _ATTENDED.set((_chunks(rows, chosen, begun, tree, dtype), prompt, trunks))
    try:
        with swapped(config, _attn_implementation=_NAME):
            output = body(
                input_ids=rows.ids[chosen.rows, chosen.places][None],
                position_ids=positions[None],
                attention_mask=None,
                use_cache=False,
            )
    finally:
        _ATTENDED.reset(token)
    states: Tensor = output.last_hidden_state[0].to(rows.ids.device)
    return states


def _chunks(rows: Rows, chosen: BranchPlan, begun: int, tree: Tree, dtype: torch.dtype) -> list[Chunk]:
    together = _TOGETHER.get(rows.ids.device.type, _OTHER_TOGETHER)
    counts = torch.bincount(chosen.rows, minlength=len(rows)).tolist()
    chunks, start, end = [], 0, 0
    for place, (row, text) in enumerate(chosen.order):
        end += counts[row]
        following = chosen.order[place + 1] if place + 1 < len(chosen.order) else None
        if following is None or following[1] != text or end - start + counts[following[0]] > together:
            lent = 0 if text is None else len(chosen.trunks[text]) - begun
            seen = _seen(rows, chosen, slice(start, end), begun, lent, tree)
            nothing = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
            chunks.append(Chunk(slice(start, end), text, nothing.masked_fill(~seen, -torch.inf)))
            start = end
    return chunks


def _seen(rows: Rows, chosen: BranchPlan, tokens: slice, begun: int, lent: int, tree: Tree) -> Tensor:
    """[tokens, prompt + text + tokens] the mask of what each token attends to."""
    row, place = chosen.rows[tokens], chosen.places[tokens]
    device = row.device
    prompt = torch.ones(len(row), begun, dtype=torch.bool, device=device)
    text = torch.arange(begun, begun + lent, device=device) < chosen.starts[row][:, None]
    own = (row[:, None] == row) & (place[:, None] >= place)
    if tree.branches:
        own &= tree.visible(rows.lengths[row], place, place)
    return torch.cat([prompt, text, own], dim=1)


_ATTENDED: ContextVar[tuple[list[Chunk], list[Lent] | None, list[list[Lent]]]] = ContextVar("attended")


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """[1, heads, tokens, size] -> [1, tokens, heads, size]"""
    chunks, prompt, trunks = _ATTENDED.get()
    scaling = options.get("scaling") or query.shape[-1] ** -0.5
    parts = []
    for chunk in chunks:
        before = [layers[module.layer_idx] for layers in ([prompt] if prompt else [])]
        before += [] if chunk.trunk is None else [trunks[chunk.trunk][module.layer_idx]]
        own = key[:, :, chunk.tokens], value[:, :, chunk.tokens]
        keys = torch.cat([*(layer.keys for layer in before), own[0]], dim=2)
        values = torch.cat([*(layer.values for layer in before), own[1]], dim=2)
        # Fused kernels need keys and values for each head, also in grouped-query attention.
        if query.device.type != "cpu":
            keys, values = (each.repeat_interleave(query.shape[1] // each.shape[1], 1) for each in (keys, values))
        parts.append(
            scaled_dot_product_attention(
                query[:, :, chunk.tokens],
                keys,
                values,
                attn_mask=chunk.mask.to(query.device),  # layers may be on several devices
                scale=scaling,
                enable_gqa=keys.shape[1] != query.shape[1],
            )
        )
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous(), None


AttentionInterface.register(_NAME, _attend)
