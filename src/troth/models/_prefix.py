"""Keys and values of a prefix, such as the start of a prompt, computed once and shared by all rows with this prefix.

For model families with known attention, the queries of all rows are multiplied with the prefix's keys in one product,
so keys and values are never copied for each row; other families get copies, one layer at a time.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from troth.models import _placement, families
from troth.models._changes import swapped

_KEPT = 4  # maximum number of cached prefixes: the rows of a long text take several batches
_WORTH = 4  # minimum length of a prefix that is worth a pass of its own
# Nor is it worth it for texts that are this long and this many times as long as the prefix, where plain attention is
# faster.
_LONG, _LONGER = 256, 8
_NAME = "troth_prefix"
# Bytes of attention logits computed at a time: on a CPU they should fit into its cache; a GPU needs large products.
_CHUNK_BYTES = {"cpu": 4 << 20}
_OTHER_CHUNK_BYTES = 1 << 30


class Lent(DynamicLayer):  # type: ignore[no-untyped-call]
    """The keys and values of the prefix in one layer, [1, heads, prefix, size]; appended states are not stored."""

    keys: Tensor
    values: Tensor

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = keys, values
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        rows = len(key_states)
        keys = torch.cat([self.keys.expand(rows, -1, -1, -1), key_states], dim=-2)
        return keys, torch.cat([self.values.expand(rows, -1, -1, -1), value_states], dim=-2)


class KeptStates(OrderedDict[tuple[int, ...], list[Lent]]):
    """A cache of keys and values by layer, for the last few texts of a decoder; cleared when the weights change.

    The cache key of a text is its tokens and the length of its prompt, whose states are stored separately.
    """

    _weights: tuple[int, ...] = ()
    _refused = False  # True if the model's cache is not plain keys and values

    def of(
        self, body: Any, config: Any, texts: Sequence[Tensor], prompt: list[Lent] | None = None
    ) -> list[list[Lent]] | None:
        """For each text and layer, the states of the tokens after the prompt; None if the model does not support it."""
        if self._refused:
            return None
        weights = (id(body), *(parameter._version for parameter in body.parameters()))
        if self._weights != weights:
            self.clear()
            self._weights = weights
        begun = prompt[0].keys.shape[2] if prompt else 0
        keys = [(begun, *text.tolist()) for text in texts]
        missing = [place for place, key in enumerate(keys) if key not in self]
        if missing:
            device = _placement.input_device(body)
            ids = pad_sequence([texts[place][begun:] for place in missing], batch_first=True).to(device)
            layers = _states(body, config, ids, prompt)
            if not layers:
                self._refused = True
                return None
            for number, place in enumerate(missing):
                own = slice(len(texts[place]) - begun)
                self[keys[place]] = [
                    Lent(key[number, None, :, own], value[number, None, :, own]) for key, value in layers
                ]
        for key in keys:
            self.move_to_end(key)
        found = [self[key] for key in keys]
        while len(self) > _KEPT:
            self.popitem(last=False)
        return found

    def has(self, text: Tensor, begun: int) -> bool:
        """Whether the states of these tokens after the prompt are cached."""
        return (begun, *text.tolist()) in self

    def __deepcopy__(self, memo: Any) -> Self:
        return type(self)()  # the copy of a model may be about to change


@torch.no_grad()
def _states(body: Any, config: Any, ids: Tensor, prompt: list[Lent] | None) -> list[tuple[Tensor, Tensor]]:
    """Keys and values of each layer, [texts, heads, length, size]; empty if the model's cache is of another kind."""
    if prompt is None:
        cache = body(input_ids=ids, past_key_values=DynamicCache(), use_cache=True).past_key_values
        layers = getattr(cache, "layers", ())
        plain = all(type(layer) is DynamicLayer for layer in layers)
        return [(layer.keys, layer.values) for layer in layers] if plain else []
    begun = prompt[0].keys.shape[2]
    places = torch.arange(begun, begun + ids.shape[1], device=ids.device).expand_as(ids)
    captured: list[tuple[Tensor, Tensor]] = []
    token = _CAPTURED.set(captured)
    try:
        with lending(config, prompt) as options:
            body(input_ids=ids, position_ids=places, attention_mask=None, **options)
    finally:
        _CAPTURED.reset(token)
    return captured


@contextmanager
def lending(config: Any, layers: list[Lent] | None) -> Iterator[dict[str, Any]]:
    """Makes the model attend to the prefix, too, in a context; yields the additional arguments for calling it."""
    if layers is None:
        yield {"use_cache": False}
    elif config.model_type not in families.PLAIN_ATTENTION:
        yield {"use_cache": True, "past_key_values": Cache(layers=list(layers))}
    else:
        lent = _LENT.set(layers)
        try:
            with swapped(config, _attn_implementation=_NAME):
                yield {"use_cache": False}
        finally:
            _LENT.reset(lent)


_LENT: ContextVar[list[Lent]] = ContextVar("lent")
# Collects keys and values of the tokens that attend to a shared prefix, in the order of the layers.
_CAPTURED: ContextVar[list[tuple[Tensor, Tensor]] | None] = ContextVar("captured", default=None)


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Each row attends to the prefix and to itself: [rows, heads, queries, size] -> [rows, queries, heads, size]"""
    layer = _LENT.get()[module.layer_idx]
    if (capture := _CAPTURED.get()) is not None:
        capture.append((key, value))
    rows, heads, length, _ = query.shape
    scaling = options.get("scaling") or query.shape[-1] ** -0.5
    each = heads * length * (layer.keys.shape[2] + length) * 4
    step = max(1, _CHUNK_BYTES.get(query.device.type, _OTHER_CHUNK_BYTES) // each)
    mask = attention_mask
    if mask is None:
        mask = query.new_full((length, length), torch.finfo(query.dtype).min).triu(1).expand(1, 1, length, length)
    parts = []
    for start in range(0, rows, step):
        some = slice(start, start + step)
        own = mask if len(mask) == 1 else mask[some]
        parts.append(_attend_some(layer, query[some] * scaling, key[some], value[some], own))
    return (parts[0] if len(parts) == 1 else torch.cat(parts)).transpose(1, 2).contiguous(), None


def _attend_some(layer: Lent, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    rows, heads, length, size = query.shape
    groups = key.shape[1]  # several heads may share keys and values
    begun = layer.keys.shape[2]
    # The queries of all rows are multiplied with the prefix in one product: [groups, rows * heads * queries, prefix].
    queries = query.reshape(rows, groups, -1, size)  # [rows, groups, heads of the group * queries, size]
    together = queries.transpose(0, 1).reshape(groups, -1, size)
    to_prefix = (together @ layer.keys[0].transpose(1, 2)).view(groups, rows, -1, begun).transpose(0, 1)
    # The prefix needs no mask: the prompt is never erased, and every query may attend to it.
    to_own = (queries @ key.transpose(2, 3)).view(rows, heads, length, length) + mask[..., -length:]
    logits = torch.cat([to_prefix, to_own.view(rows, groups, -1, length)], dim=-1)
    weights = logits.softmax(-1, dtype=torch.float32).to(query.dtype)
    of_prefix = weights[..., :begun].transpose(0, 1).reshape(groups, -1, begun) @ layer.values[0]
    of_prefix = of_prefix.view(groups, rows, -1, size).transpose(0, 1)
    return (of_prefix + weights[..., begun:] @ value).reshape(rows, heads, length, size)


AttentionInterface.register(_NAME, _attend)


def shared(ids: Tensor, fixed: Tensor, lengths: Tensor, longest: int) -> int:
    """The number of leading tokens that are equal in all rows and never change; leaves at least one token to compute.

    ids and fixed are [rows, length], lengths is [rows], and longest is the length of the longest text before erasing.
    Returns 0 if sharing is not worth it.
    """
    same = (ids == ids[:1]).all(0) & fixed.all(0)  # [length]
    most = min(int(same.to(torch.int64).cumprod(0).sum()), int(lengths.min()) - 1)
    return most if most >= _WORTH and longest < max(_LONG, _LONGER * most) else 0
