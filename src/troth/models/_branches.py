"""Erased inputs as branches of the whole text: states before the first erased token are computed once and shared.

The remaining tokens of all rows go through the network as one sequence without padding, ordered by the position at
which the rows diverge from the text. Each token attends to the prompt, to the text up to where its row diverges, and to
its own row.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface

from troth.core.types import Rows
from troth.models._changes import swapped
from troth.models._prefix import Lent
from troth.models._prompt_reader import Tree
from troth.models._row_edits import distinct_encodings

_NAME = "troth_branches"
_WORTH = 0.8  # maximum share of the tokens of padded rows; above it, branching is not worth it
# From this many tokens per row, any saving is worth it. The states of such a text are cached when it is first read
# whole, for the inputs that follow.
_LONG = 256
# Maximum number of tokens that attend together. Small chunks waste less on masked pairs; large ones make larger
# products.
_TOGETHER = {"cpu": 256}
_OTHER_TOGETHER = 1024
_CAUSAL_KERNELS = ("cuda",)  # devices with much faster attention without a mask, also after cached tokens


@dataclass(frozen=True, eq=False)
class Chunk:
    """Tokens that attend together: a slice of the sequence, the text whose cached states they use, and their mask."""

    tokens: slice
    trunk: int | None  # index of its text in `BranchPlan.trunks`
    lent: int  # maximum number of cached tokens that any of them attends to
    mask: Tensor | None  # [tokens, prompt + lent + tokens] 0 or −∞; None for a single row with plain causal attention


@dataclass(frozen=True, eq=False)
class BranchPlan:
    """One forward pass for all rows: the tokens that each row computes itself, and their indices in the sequence."""

    rows: Tensor  # [tokens] the index of each token's row
    places: Tensor  # [tokens] its position in the row
    starts: Tensor  # [rows] the first position that a row computes itself
    offsets: Tensor  # [rows] the index of that position in the sequence
    trunks: tuple[Tensor, ...]  # the ids of each shared text, up to the last position at which a row may diverge
    order: tuple[tuple[int, int | None], ...]  # rows in the order of the sequence, each with the index of its text

    def index(self, places: Tensor) -> Tensor:
        """The indices in the sequence of these positions in the rows. [rows, n] -> [rows, n]"""
        return places - self.starts[:, None] + self.offsets[:, None]


def plan(rows: Rows, first: Tensor, begun: int, is_kept: Callable[[Tensor], bool]) -> BranchPlan | None:
    """Plans a pass for rows that must be computed from positions `first` ([rows]) on; None if it saves too little.

    The first `begun` tokens are the same in all rows, and their states are already cached. `is_kept` returns whether
    the states of a text, given its tokens, are still cached, so that using them costs nothing.
    """
    if int(first.min()) < 0:  # nothing is left of a row
        return None
    distinct, of_row = distinct_encodings(rows)
    wholes = pad_sequence([encoding.ids for encoding in distinct], batch_first=True, padding_value=-1)
    ids, lengths, first = rows.ids.cpu(), rows.lengths.cpu(), first.cpu()
    width = min(ids.shape[1], wholes.shape[1])
    agrees = (ids[:, :width] == wholes[of_row, :width]).long().cumprod(1).sum(1)  # [rows]
    starts = torch.minimum(agrees, first).clamp(min=begun)
    # A text is shared up to where the answer of a row that equals it is first read.
    ends = torch.tensor([len(encoding.ids) for encoding in distinct])
    ends[of_row] = ends[of_row] - (lengths - first)
    saved = torch.zeros(len(ends), dtype=torch.int64).index_add(0, of_row, starts - begun)
    known = torch.tensor([is_kept(wholes[number, :end]) for number, end in enumerate(ends.tolist())])
    cost = torch.where(known, 0, ends - begun)
    # Reading a single whole text costs no more if its states are kept for the inputs that follow.
    longest = int(lengths.max()) - begun
    is_first = len(ids) == 1 and longest >= _LONG and bool(saved[0] == cost[0])
    lent = (saved > cost) | is_first
    starts = torch.where(lent[of_row], starts, begun)
    count = int((lengths - starts).sum() + cost[lent].sum())
    if not bool(lent.any()) or count > (1 if longest >= _LONG else _WORTH) * len(ids) * longest:
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
    """[tokens, hidden] The states of the network's last layer."""
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
            # Rows are ordered by where they diverge from the text, so the last one attends to most of it.
            lent = 0 if text is None else int(chosen.starts[row]) - begun
            mask = None
            if counts[row] < end - start or tree.branches or rows.ids.device.type not in _CAUSAL_KERNELS:
                seen = _seen(rows, chosen, slice(start, end), begun, lent, tree)
                mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, -torch.inf)
            chunks.append(Chunk(slice(start, end), text, lent, mask))
            start = end
    return chunks


def _seen(rows: Rows, chosen: BranchPlan, tokens: slice, begun: int, lent: int, tree: Tree) -> Tensor:
    """[tokens, prompt + lent + tokens] Whether each token attends to each of these."""
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
        before: list[tuple[Lent, int | None]] = [] if prompt is None else [(prompt[module.layer_idx], None)]
        before += [] if chunk.trunk is None else [(trunks[chunk.trunk][module.layer_idx], chunk.lent)]
        own = key[:, :, chunk.tokens], value[:, :, chunk.tokens]
        keys = torch.cat([*(layer.keys[:, :, :end] for layer, end in before), own[0]], dim=2)
        values = torch.cat([*(layer.values[:, :, :end] for layer, end in before), own[1]], dim=2)
        queries = query[:, :, chunk.tokens]
        if chunk.mask is None:
            mask: Tensor = causal_lower_right(queries.shape[2], keys.shape[2])
        else:
            mask = chunk.mask.to(query.device)  # layers may be on several devices
        if query.device.type != "cpu":  # fast kernels need keys and values for each head, even if heads share them
            keys, values = (each.repeat_interleave(query.shape[1] // each.shape[1], 1) for each in (keys, values))
        parts.append(
            scaled_dot_product_attention(
                queries, keys, values, attn_mask=mask, scale=scaling, enable_gqa=keys.shape[1] != query.shape[1]
            )
        )
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous(), None


AttentionInterface.register(_NAME, _attend)
