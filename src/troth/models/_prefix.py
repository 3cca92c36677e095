"""Keys and values of a prompt's beginning, computed once and lent to every row that begins with it.

In the families whose attention we know, queries meet the prefix's keys in one product for all rows, so that keys and
values are never copied for each row; the others get copies, a layer at a time.
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

_KEPT = 4  # prompts, and texts: a long text's rows take several batches
_WORTH = 4  # a shorter prefix is not worth a pass of its own
# Nor is one of texts that are so long, and so many times as long as the prefix: plain attention is faster.
_LONG, _LONGER = 256, 8
_NAME = "troth_prefix"
# Attention logits at a time: what stays in a processor's cache is faster; a GPU needs large products.
_CHUNK_BYTES = {"cpu": 4 << 20}
_OTHER_CHUNK_BYTES = 1 << 30


class Lent(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer's keys and values of the prefix, [1, heads, prefix, size]; what is appended is never kept."""

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
    """Keys and values by layer, of the last few texts of a decoder; forgotten as soon as its weights change.

    A text is known by its tokens and by how many of them are a prompt, whose states are kept elsewhere.
    """

    _weights: tuple[int, ...] = ()
    _refused = False  # a model whose memory is not plain keys and values

    def of(
        self, body: Any, config: Any, texts: Sequence[Tensor], prompt: list[Lent] | None = None
    ) -> list[list[Lent]] | None:
        """By text, by layer: of the tokens behind the prompt, [length]; None where they cannot be lent."""
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
        """Whether the states of these tokens behind a prompt are kept."""
        return (begun, *text.tolist()) in self

    def __deepcopy__(self, memo: Any) -> Self:
        return type(self)()  # a copied model may be about to change


@torch.no_grad()
def _states(body: Any, config: Any, ids: Tensor, prompt: list[Lent] | None) -> list[tuple[Tensor, Tensor]]:
    """Keys and values of each layer, [texts, heads, length, size]; none where the model has other things to keep."""
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
    """While it lasts, the model attends to the prefix, too; gives what the model must be called with."""
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
# Where to note keys and values of the tokens that attend to a lent prefix, by layer; in order, since layers are.
_CAPTURED: ContextVar[list[tuple[Tensor, Tensor]] | None] = ContextVar("captured", default=None)


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Each row attends to the prefix and to itself. [rows, heads, queries, size] -> [rows, queries, heads, size]"""
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
    # All rows' queries of a group meet the prefix in one product: [groups, rows * heads * queries, prefix].
    queries = query.reshape(rows, groups, -1, size)  # [rows, groups, heads of the group * queries, size]
    together = queries.transpose(0, 1).reshape(groups, -1, size)
    to_prefix = (together @ layer.keys[0].transpose(1, 2)).view(groups, rows, -1, begun).transpose(0, 1)
    # Nothing masks the prefix: the prompt is never erased, and every query may see it.
    to_own = (queries @ key.transpose(2, 3)).view(rows, heads, length, length) + mask[..., -length:]
    logits = torch.cat([to_prefix, to_own.view(rows, groups, -1, length)], dim=-1)
    weights = logits.softmax(-1, dtype=torch.float32).to(query.dtype)
    of_prefix = weights[..., :begun].transpose(0, 1).reshape(groups, -1, begun) @ layer.values[0]
    of_prefix = of_prefix.view(groups, rows, -1, size).transpose(0, 1)
    return (of_prefix + weights[..., begun:] @ value).reshape(rows, heads, length, size)


AttentionInterface.register(_NAME, _attend)


def shared(ids: Tensor, fixed: Tensor, lengths: Tensor, longest: int) -> int:
    """How many tokens all rows begin with, none of which is ever changed; at least one is left to run.

    [rows, length], [rows, length], [rows], and the length of the longest text before anything was erased. 0 where
    sharing is not worth it.
    """
    same = (ids == ids[:1]).all(0) & fixed.all(0)  # [length]
    most = min(int(same.to(torch.int64).cumprod(0).sum()), int(lengths.min()) - 1)
    return most if most >= _WORTH and longest < max(_LONG, _LONGER * most) else 0
