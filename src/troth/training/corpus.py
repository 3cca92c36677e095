"""Labelled encodings as flat tensors: a batch of rows is cut out of them in one operation, erased if need be.

Nothing is padded to the longest text, and no text is tokenised twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from troth import catalog, draws
from troth.maskings import Masking
from troth.models import TextClassifier
from troth.types import Encoding, Rows

_BLOCK = 50  # batches whose examples are sorted by length together


class Corpus:
    """Examples as one model reads them, each with its class and, where some of it is gone, what it keeps."""

    def __init__(
        self,
        encodings: Sequence[Encoding],
        labels: Sequence[int] | Tensor,
        keeps: Sequence[Tensor] | None = None,
        masking: str | Masking = "mask_token",
    ) -> None:
        self.encodings = list(encodings)
        self.labels = torch.as_tensor(labels, dtype=torch.int64)  # [examples]
        self.masking: Masking = catalog.build("maskings", masking)
        self.lengths = torch.tensor([len(encoding.ids) for encoding in self.encodings], dtype=torch.int64)
        self._starts = self.lengths.cumsum(0) - self.lengths
        self._ids = _flat([encoding.ids for encoding in self.encodings])
        self._units = _flat([encoding.units for encoding in self.encodings])
        types = [encoding.token_types for encoding in self.encodings]
        self._types = None if any(one is None for one in types) else _flat([one for one in types if one is not None])
        self.keeps = keeps
        self._keys: Tensor | None = None  # [examples] of each one's id
        self._kept = None  # [tokens] how much of each is left
        if keeps is not None:
            kept = [encoding.per_token(_filled(keep, encoding))[0] for encoding, keep in self._paired(keeps)]
            self._kept = torch.cat(kept).to(torch.float32)

    def __len__(self) -> int:
        return len(self.encodings)

    def _paired(self, keeps: Sequence[Tensor]) -> Sequence[tuple[Encoding, Tensor]]:
        return list(zip(self.encodings, keeps, strict=True))

    def all_keeps(self) -> Sequence[Tensor]:
        """What is left of every example: all of it where nothing was said."""
        return self.keeps or [torch.ones(encoding.n_units) for encoding in self.encodings]

    def to(self, device: torch.device) -> Corpus:
        """Its flat tensors moved to a device; lengths and starts stay, so that cutting a batch waits for nobody."""
        self._ids, self._units, self.labels = (part.to(device) for part in (self._ids, self._units, self.labels))
        self._types = None if self._types is None else self._types.to(device)
        self._kept = None if self._kept is None else self._kept.to(device)
        return self

    def keys(self, *parts: object) -> Tensor:
        """A key of random draws for every example and purpose. [examples]"""
        if self._keys is None:
            self._keys = torch.tensor([draws.key(encoding.example.id) for encoding in self.encodings])
        return draws.row_keys(draws.key(*parts), self._keys)

    def rows(self, index: Tensor, keys: Tensor, model: TextClassifier) -> Rows:
        """Some of the examples as rows, with the keys of their random draws. [rows], [rows]"""
        device = self._ids.device
        lengths = self.lengths[index]
        steps = torch.arange(int(lengths.max()))
        real = steps < lengths[:, None]
        places = torch.where(real, self._starts[index][:, None] + steps, 0).to(device, non_blocking=True)
        real = real.to(device, non_blocking=True)
        rows = Rows(
            encodings=[self.encodings[position] for position in index.tolist()],
            ids=self._ids[places].masked_fill(~real, model.filler_id),
            units=self._units[places].masked_fill(~real, -1),
            lengths=lengths.to(device, non_blocking=True),
            target=self.labels[index.to(device, non_blocking=True)],
            against=torch.full((len(index),), -1, device=device),
            keys=keys.to(device, non_blocking=True),
            token_types=None if self._types is None else self._types[places].masked_fill(~real, 0),
        )
        if self._kept is None:
            return rows
        return self.masking.erase(rows, self._kept[places].masked_fill(~real, 1), model)


def join(corpora: Sequence[Corpus]) -> tuple[Corpus, Tensor]:
    """Several corpora as one, and where each begins in it; one and the same is not repeated."""
    different = list({id(corpus): corpus for corpus in corpora}.values())
    sizes = torch.tensor([len(corpus) for corpus in different])
    begins = dict(zip(map(id, different), (sizes.cumsum(0) - sizes).tolist(), strict=True))
    starts = torch.tensor([begins[id(corpus)] for corpus in corpora])
    if len(different) == 1:
        return different[0], starts
    if len({corpus.masking for corpus in different}) > 1:
        raise ValueError("joined corpora must erase in the same way")
    keeps = None
    if any(corpus.keeps is not None for corpus in different):
        keeps = [keep for corpus in different for keep in corpus.all_keeps()]
    encodings = [encoding for corpus in different for encoding in corpus.encodings]
    labels = torch.cat([corpus.labels.cpu() for corpus in different])
    return Corpus(encodings, labels, keeps, different[0].masking), starts


def batches(lengths: Tensor, size: int, seed: int, epoch: int) -> list[Tensor]:
    """The mini-batches of an epoch, each of examples about as long, in an order that only seed and epoch decide.

    Which examples meet is the seed's; that the k-th batch is, say, one of short texts is the same for all seeds, so
    that several seeds can be trained side by side without padding each other.
    """
    order = np.random.default_rng(draws.key(seed, "order of examples", epoch)).permutation(len(lengths))
    found: list[Tensor] = []
    for start in range(0, len(order), size * _BLOCK):
        block = torch.from_numpy(order[start : start + size * _BLOCK])
        cut = torch.split(block[torch.argsort(lengths[block], stable=True)], size)
        turns = np.random.default_rng(draws.key("order of batches", epoch, start)).permutation(len(cut))
        found += [cut[turn] for turn in turns]
    return found


def by_length(lengths: Tensor, size: int) -> list[Tensor]:
    """Every example once, those about as long together."""
    return list(torch.split(torch.argsort(lengths, stable=True), size)) if len(lengths) else []


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts)) if parts else torch.empty(0, dtype=torch.int64)


def _filled(keep: Tensor, encoding: Encoding) -> Tensor:
    """A keep over the first text's units is one over both texts' that keeps the second whole. [units] -> [1, units]"""
    rest = encoding.n_units - len(keep)
    if rest < 0:
        raise ValueError(f"example {encoding.example.id}: keep has {len(keep)} units, the encoding {encoding.n_units}")
    return torch.cat([keep.to(torch.float32), torch.ones(rest)])[None]
