"""Keys and values of a prompt's beginning, computed once and lent to every row that begins with it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

_KEPT = 4  # prefixes at a time
_WORTH = 4  # a shorter prefix is not worth a pass of its own


class Lent(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer's keys and values of the prefix, [1, heads, prefix, size]; what is put behind them is never kept."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = keys, values
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        assert self.keys is not None
        assert self.values is not None
        rows = len(key_states)
        keys = torch.cat([self.keys.expand(rows, -1, -1, -1), key_states], dim=-2)
        return keys, torch.cat([self.values.expand(rows, -1, -1, -1), value_states], dim=-2)


class Prefixes:
    """The last few prefixes of a decoder; forgotten as soon as its weights change."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, ...], Cache] = OrderedDict()
        self._weights: tuple[int, ...] = ()
        self._refused = False  # a model whose memory is not plain keys and values

    def of(self, body: Any, ids: Tensor) -> Cache | None:
        """What the body of a decoder made of these tokens, [prefix]; None where that cannot be lent."""
        if self._refused:
            return None
        weights = (id(body), *(parameter._version for parameter in body.parameters()))
        if weights != self._weights:
            self._kept.clear()
            self._weights = weights
        key = tuple(ids.tolist())
        if key not in self._kept:
            with torch.no_grad():
                made = body(input_ids=ids[None], past_key_values=DynamicCache(), use_cache=True).past_key_values
            layers = getattr(made, "layers", ())
            if not layers or any(type(layer) is not DynamicLayer for layer in layers):
                self._refused = True
                return None
            while len(self._kept) >= _KEPT:
                self._kept.popitem(last=False)
            self._kept[key] = Cache(layers=[Lent(layer.keys, layer.values) for layer in layers])
        self._kept.move_to_end(key)
        return self._kept[key]

    def __deepcopy__(self, memo: Any) -> Prefixes:
        return Prefixes()  # a copied model may be about to change


def shared(ids: Tensor, fixed: Tensor, lengths: Tensor) -> int:
    """How many tokens all rows begin with, none of which is ever changed; at least one is left to run.

    [rows, length], [rows, length], [rows]
    """
    same = (ids == ids[:1]).all(0) & fixed.all(0)  # [length]
    most = min(int(same.to(torch.int64).cumprod(0).sum()), int(lengths.min()) - 1)
    return most if most >= _WORTH else 0
