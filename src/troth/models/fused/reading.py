"""The encoder's arithmetic on packed tokens: the sums of transformers, without those whose results are never used.

- There is no padding, there are no masks except those asked for, and no unused outputs.

- The head reads the first token, so the last layer has one query per row. Its keys and values are not computed: qᵀ(K x)
= (Kᵀ q)ᵀ x, and Σ p V x = V Σ p x; the bias of the keys shifts all logits of a query equally and cancels.

- Below the first attention, equal tokens at equal positions have equal vectors, queries, keys and values.

Everything is a torch function of the word vectors, so autograd gives their gradient; weights need none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import groupby, pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from troth.core.memory import moved
from troth.core.types import Rows
from troth.models.fused.parts import EncoderLayer, EncoderParts
from troth.models.fused.products import Copies, Linear, exact, multiplies_halves


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows of different lengths as one long sequence of tokens: where each token comes from, and how rows are
    grouped.

    Matrix products see no padding. Attention needs the tokens of a row together. On a CPU, rows are ordered by length
    and grouped by it. On a GPU, where few large calls are faster, attention reads rows of all lengths at once, or one
    padded group with its mask.
    """

    groups: tuple[tuple[int, int], ...]  # rows and length of each
    order: Tensor | None  # [rows] the permutation of the rows; None = unchanged
    place: Tensor | None  # [tokens] flat index of each token in the padded rows; None = no padding
    position: Tensor  # [tokens] position within the row
    first: Tensor  # [rows] index of each row's first token
    padded: Tensor | None  # [tokens] flat index in the one padded group; None = groups have no padding
    masks: tuple[Tensor | None, ...]  # [rows, 1, 1, length] of each group, added to the attention logits
    bounds: Tensor | None = None  # [rows + 1] row boundaries, for attention over rows of different lengths

    def take(self, values: Tensor) -> Tensor:
        """[rows, length, ...] -> [tokens, ...]"""
        flat = values.reshape(-1, *values.shape[2:])
        return flat if self.place is None else flat[self.place]

    def split(self, tokens: Tensor) -> list[Tensor]:
        """[tokens, hidden] -> [rows, length, hidden] of each group"""
        if self.padded is not None:
            (rows, length), width = self.groups[0], tokens.shape[1]
            return [tokens.new_zeros(rows * length, width).index_copy(0, self.padded, tokens).view(rows, length, width)]
        if len(self.groups) == 1:
            return [tokens.view(*self.groups[0], -1)]
        parts = torch.split(tokens, [rows * length for rows, length in self.groups])
        return [part.view(*group, -1) for part, group in zip(parts, self.groups, strict=True)]

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `split`."""
        flat = [part.reshape(-1, part.shape[-1]) for part in parts]
        if self.padded is not None:
            return flat[0][self.padded]
        return flat[0] if len(flat) == 1 else torch.cat(flat)

    def as_given(self, values: Tensor) -> Tensor:
        """[rows, ...] Restores the original order of the rows."""
        return values if self.order is None else torch.empty_like(values).index_copy(0, self.order, values)


def pack(rows: Rows, lengths: list[int], bias: Tensor | None) -> Packed:
    """`bias`, [rows, length], is added to the attention logits of each key."""
    device, width, count = rows.ids.device, rows.ids.shape[1], len(lengths)
    in_groups = device.type == "cpu"
    order = None
    if in_groups and any(after < before for before, after in pairwise(lengths)):
        in_order = sorted(range(count), key=lengths.__getitem__)
        lengths, order = [lengths[row] for row in in_order], torch.tensor(in_order)
        bias = None if bias is None else bias[order]
    # A fill on the device is asynchronous; copying numbers to it would wait for everything in progress.
    even = min(lengths) == max(lengths)
    counts = torch.full((count,), lengths[0], device=device) if even else moved(torch.tensor(lengths), device)
    first = counts.cumsum(0) - counts
    row = torch.repeat_interleave(torch.arange(count, device=device), counts, output_size=sum(lengths))
    position = torch.arange(sum(lengths), device=device) - first[row]
    source = (row if order is None else order[row]) * width + position
    place = None if order is None and min(lengths) == width else source
    if in_groups or even:
        groups = tuple((len(list(same)), length) for length, same in groupby(lengths))
        return Packed(groups, order, place, position, first, None, _masks(groups, bias))
    longest = max(lengths)
    added = torch.zeros(count, longest, device=device) if bias is None else bias[:, :longest].float()
    beyond = torch.arange(longest, device=device) >= counts[:, None]
    mask = added.masked_fill(beyond, torch.finfo(torch.float32).min)[:, None, None]
    bounds = torch.cat([first, first[-1:] + counts[-1:]]).int() if bias is None else None
    return Packed(((count, longest),), order, place, position, first, row * longest + position, (mask,), bounds)


def _masks(groups: tuple[tuple[int, int], ...], bias: Tensor | None) -> tuple[Tensor | None, ...]:
    if bias is None:
        return (None,) * len(groups)
    parts = torch.split(bias, [rows for rows, _ in groups])
    return tuple(part[:, None, None, :length] for part, (_, length) in zip(parts, groups, strict=True))


def read(
    parts: EncoderParts, pieces: Sequence[tuple[Rows, Packed]], linear_of_layer: Callable[[int], Linear]
) -> Tensor:
    """[rows, classes] The logits of all pieces. All pieces pass through one layer before the next layer begins.

    `linear_of_layer` creates the products of a layer; those of the last layer, which has little to do, are always
    exact.
    """
    packs = [packed for _, packed in pieces]
    embedded = [_embedded(parts, rows, packed) for rows, packed in pieces]
    states, inverses = [state for state, _ in embedded], [inverse for _, inverse in embedded]
    for layer in parts.layers[:-1]:
        linear = linear_of_layer(len(pieces))
        for piece, (packed, inverse) in enumerate(zip(packs, inverses, strict=True)):
            states[piece] = _through(layer, linear, states[piece], packed, parts.heads, inverse)
        inverses = [None] * len(pieces)
    whole = [
        state if inverse is None else state[inverse] for state, inverse in zip(states, inverses, strict=True)
    ]  # for a model with one layer
    return torch.cat([_classified(parts, state, packed) for state, packed in zip(whole, packs, strict=True)])


def _through(
    layer: EncoderLayer, linear: Linear, state: Tensor, packed: Packed, heads: int, inverse: Tensor | None
) -> Tensor:
    """[tokens, hidden] Applies one layer; with `inverse`, equal tokens are in `state` only once."""
    source = state.bfloat16() if isinstance(linear, Copies) else state  # converted once for all three products
    projected = [linear(source, projection) for projection in (layer.query, layer.key, layer.value)]
    if inverse is not None:
        projected, state = [part[inverse] for part in projected], state[inverse]
    mixed = _attend(projected, packed, heads, fast=isinstance(linear, Copies))
    return _feed_forward(layer, linear, _added(linear(mixed, layer.output), state, layer.attention_norm))


def _classified(parts: EncoderParts, state: Tensor, packed: Packed) -> Tensor:
    """[rows, classes] Applies the last layer to the first tokens only, then the head."""
    last, query = parts.layers[-1], state[packed.first]
    mixed = _read_first(last, state, query, packed, parts.heads)
    state = _feed_forward(last, exact, _added(exact(mixed, last.output), query, last.attention_norm))
    return packed.as_given(parts.head(state[:, None]))


def _embedded(parts: EncoderParts, rows: Rows, packed: Packed) -> tuple[Tensor, Tensor | None]:
    """[tokens, hidden] The output of the embedding layer for distinct tokens, and the index of the distinct token for
    each one.
    """
    position, inverse = packed.position + parts.first_position, None
    types = None if rows.token_types is None else packed.take(rows.token_types)
    if rows.embeddings is not None:
        vectors = packed.take(rows.embeddings)
    else:
        ids = packed.take(rows.ids)
        # On a GPU, finding them would have to wait for the device.
        if ids.device.type == "cpu" and rows.output_factor is None:
            ids, position, types, inverse = _distinct(ids, position, types, len(parts.words.weight))
        vectors = functional.embedding(ids, parts.words.weight)
    summed = vectors
    if parts.types is not None:
        of_type = parts.types.weight
        summed = summed + (of_type[0] if types is None else of_type[types])
    state = _normed(summed + parts.positions.weight[position], parts.norm)
    if rows.output_factor is not None:
        state = state * packed.take(rows.output_factor)
    return state if parts.projection is None else exact(state, parts.projection), inverse


def _distinct(
    ids: Tensor, position: Tensor, types: Tensor | None, vocabulary: int
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Distinct tokens (by id, position and type), and the index of the distinct token for each one."""
    kind = ids + vocabulary * (position if types is None else position * (int(types.max()) + 1) + types)
    kinds, inverse = torch.unique(kind, return_inverse=True)
    ids, rest = kinds % vocabulary, kinds // vocabulary
    if types is None:
        return ids, rest, None, inverse
    count = int(types.max()) + 1
    return ids, rest // count, rest % count, inverse


def _attend(projected: list[Tensor], packed: Packed, heads: int, *, fast: bool) -> Tensor:
    """[tokens, hidden] Attention within each row: softmax(Q Kᵀ / √d) V"""
    number_format, size = projected[0].dtype, projected[0].shape[1] // heads
    if packed.bounds is not None and _reads_any_length(projected[0].device, number_format, size):
        from torch.nn.attention.varlen import varlen_attn

        longest, bounds = packed.groups[0][1], packed.bounds
        query, key, value = (part.view(-1, heads, size) for part in projected)
        together = varlen_attn(query, key, value, bounds, bounds, longest, longest)
        assert isinstance(together, Tensor)
        return together.flatten(1)
    on_cpu, attend = projected[0].device.type == "cpu", _as_torch_does
    if fast and on_cpu and not projected[0].requires_grad and multiplies_halves() and _are_short(packed.groups):
        attend = _in_halves
    elif on_cpu and number_format in (torch.bfloat16, torch.float16):
        projected = [part.float() for part in projected]  # no slower there, and more exact in the backward pass
    groups = zip(*(packed.split(part) for part in projected), packed.masks, strict=True)
    read = [attend(query, key, value, mask, heads) for query, key, value, mask in groups]
    return packed.join(read).to(number_format)


def _are_short(groups: Sequence[tuple[int, int]]) -> bool:
    """Where attention in bfloat16 was measured to be faster: several rows of one length, of about 20 to 50 tokens."""
    return sum(rows for rows, _ in groups) >= 4 * len(groups) and all(20 <= length <= 48 for _, length in groups)


def _as_torch_does(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, heads: int) -> Tensor:
    """[rows, length, hidden] The attention of one group."""
    *rows, width = query.shape
    query, key, value = (part.view(*rows, heads, width // heads).transpose(1, 2) for part in (query, key, value))
    mask = None if mask is None else mask.to(query.dtype)
    return functional.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).flatten(2)


def _in_halves(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, heads: int) -> Tensor:
    """The same as two products in bfloat16 and a softmax in single precision.

    torch's own attention calls MKL for each head of each row, which takes longer than such small products.
    """
    rows, length, width = query.shape
    apart = (part.view(rows, length, heads, -1).transpose(1, 2) for part in (query, key, value))
    query, key, value = (part.reshape(rows * heads, length, -1) for part in apart)
    logits = torch.bmm(query, key.transpose(1, 2)).float().mul_((width // heads) ** -0.5)
    if mask is not None:
        logits.view(rows, heads, length, length).add_(mask)
    read = torch.bmm(logits.softmax(-1).to(value.dtype), value)
    return read.view(rows, heads, length, -1).transpose(1, 2).flatten(2)


@cache
def _reads_any_length(device: torch.device, number_format: torch.dtype, size: int) -> bool:
    """Whether torch's flash attention supports rows of different lengths for these tensors."""
    fits = number_format in (torch.bfloat16, torch.float16) and size % 8 == 0 and size <= 256
    known = find_spec("torch.nn.attention.varlen") is not None
    return fits and known and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def _read_first(layer: EncoderLayer, state: Tensor, query: Tensor, packed: Packed, heads: int) -> Tensor:
    """[rows, hidden] Attention with the first token of each row as the query."""
    size = query.shape[1] // heads

    def by_head(values: Tensor) -> Tensor:
        return values.view(-1, heads, size).transpose(0, 1)  # [heads, rows, size]

    key, value = (projection.weight.view(heads, size, -1) for projection in (layer.key, layer.value))
    asked = exact(query, layer.query) * size**-0.5
    asked = (by_head(asked) @ key).transpose(0, 1)  # [rows, heads, hidden]
    read = []
    asked_by_group = torch.split(asked, [rows for rows, _ in packed.groups])
    for tokens, question, mask in zip(packed.split(state), asked_by_group, packed.masks, strict=True):
        logits = question @ tokens.transpose(1, 2)  # [rows, heads, length]
        if mask is not None:
            logits = logits + mask[:, 0].to(logits.dtype)
        read.append(logits.softmax(-1) @ tokens)
    mixed = torch.cat(read).transpose(0, 1) @ value.transpose(1, 2)  # [heads, rows, size]
    mixed = mixed.transpose(0, 1).flatten(1)
    return mixed if layer.value.bias is None else mixed + layer.value.bias


def _feed_forward(layer: EncoderLayer, linear: Linear, state: Tensor) -> Tensor:
    inner = linear(state, layer.up)
    if layer.activation == "relu":
        inner = functional.relu(inner)
    elif torch.is_grad_enabled():
        inner = functional.gelu(inner, approximate=layer.activation)
    else:
        inner = torch.ops.aten.gelu_(inner, approximate=layer.activation)
    return _added(linear(inner, layer.down), state, layer.norm)


def _added(change: Tensor, state: Tensor, norm: nn.LayerNorm) -> Tensor:
    """LayerNorm(state + change); the sum overwrites `change`, which is not used again."""
    if change.device.type == "cpu":
        change = change.to(state.dtype)  # adding two different number formats is slow
    return _normed(change.add_(state) if change.dtype == state.dtype else state + change, norm)


def _normed(state: Tensor, norm: nn.LayerNorm) -> Tensor:
    return functional.layer_norm(state, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
