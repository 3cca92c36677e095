"""Labeled encodings as flat tensors, from which a batch is gathered, and erased if asked, in one operation.

Nothing is padded to the longest text, and no text is tokenized twice.
"""

import copy
from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from troth.core import catalog, draws
from troth.core.types import Encoding, Rows
from troth.maskings import Masking
from troth.models import TextClassifier

_BLOCK = 50  # number of batches within which examples are sorted by length


class Corpus:
    """Encoded examples with their classes and, where units were erased, what is kept of each."""

    def __init__(
        self,
        encodings: Sequence[Encoding],
        labels: Sequence[int] | Tensor,
        masking: str | Masking = "mask_token",
    ) -> None:
        self.encodings = list(encodings)
        self.labels = torch.as_tensor(labels, dtype=torch.int64)  # [examples]
        self.masking: Masking = catalog.build("maskings", masking)
        self.lengths = torch.tensor([len(encoding.ids) for encoding in self.encodings], dtype=torch.int64)
        self._starts = self.lengths.cumsum(0) - self.lengths
        self._ids = _flat([encoding.ids for encoding in self.encodings])
        self._units = _flat([encoding.units for encoding in self.encodings])
        types = [encoding.token_types for encoding in self.encodings if encoding.token_types is not None]
        self._types = _flat(types) if len(types) == len(self.encodings) else None
        self._kept: Tensor | None = None  # [tokens] how much of each token is kept
        self._own_keys: Tensor | None = None  # [examples]

    def __len__(self) -> int:
        return len(self.encodings)

    def _per_token(self, keeps: Sequence[Tensor]) -> Tensor:
        """[tokens] how much of each token is kept; a keep over the first text's units leaves the second text whole."""
        sizes = torch.tensor([len(keep) for keep in keeps], dtype=torch.int64)
        for size, encoding in zip(sizes.tolist(), self.encodings, strict=True):
            if size > encoding.n_units:
                name = encoding.example.id
                raise ValueError(f"example {name}: keep has {size} units, the encoding {encoding.n_units}")
        flat = torch.cat([*keeps, torch.ones(1)])
        begins = (sizes.cumsum(0) - sizes).repeat_interleave(self.lengths)
        inside = (self._units >= 0) & (self._units < sizes.repeat_interleave(self.lengths))
        return flat[torch.where(inside, begins + self._units, len(flat) - 1)]

    def erased(self, keeps: Sequence[Tensor]) -> Self:
        """The same examples with fewer units kept; the tensors they share are not copied."""
        other = copy.copy(self)
        other._kept = self._per_token([keep.to(torch.float32) for keep in keeps])
        return other

    def to(self, device: torch.device) -> Self:
        """Moves the flat tensors to a device; lengths and starts stay on the CPU, so that gathering a batch does not
        synchronize.
        """
        self._ids, self._units, self.labels = (part.to(device) for part in (self._ids, self._units, self.labels))
        self._types = None if self._types is None else self._types.to(device)
        self._kept = None if self._kept is None else self._kept.to(device)
        return self

    def keys(self, *parts: object) -> Tensor:
        """[examples] the random-generator key of every example for a purpose."""
        if self._own_keys is None:
            self._own_keys = torch.tensor([draws.key(encoding.example.id) for encoding in self.encodings])
        return draws.row_keys(draws.key(*parts), self._own_keys)

    def rows(self, index: Tensor, keys: Tensor, model: TextClassifier) -> Rows:
        """Gathers some of the examples as rows, with the keys of their random draws. [rows], [rows]"""
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
    """Joins several corpora and returns where each begins; the same corpus is not repeated."""
    different = list({id(corpus): corpus for corpus in corpora}.values())
    sizes = torch.tensor([len(corpus) for corpus in different])
    begins = dict(zip(map(id, different), (sizes.cumsum(0) - sizes).tolist(), strict=True))
    starts = torch.tensor([begins[id(corpus)] for corpus in corpora])
    if len(different) == 1:
        return different[0], starts
    if len({corpus.masking for corpus in different}) > 1:
        raise ValueError("only corpora that erase in the same way can be joined")
    joined = copy.copy(different[0])
    joined.encodings = [encoding for corpus in different for encoding in corpus.encodings]
    for name in ("labels", "lengths", "_ids", "_units"):
        setattr(joined, name, torch.cat([getattr(corpus, name).cpu() for corpus in different]))
    joined._starts = joined.lengths.cumsum(0) - joined.lengths
    types = [corpus._types.cpu() for corpus in different if corpus._types is not None]
    joined._types = torch.cat(types) if len(types) == len(different) else None
    joined._own_keys = None
    if any(corpus._kept is not None for corpus in different):
        parts = [torch.ones(len(corpus._ids)) if corpus._kept is None else corpus._kept.cpu() for corpus in different]
        joined._kept = torch.cat(parts)
    return joined, starts


def batches(lengths: Tensor, size: int, seed: int, epoch: int) -> list[Tensor]:
    """The mini-batches of an epoch: examples of similar length, in an order that depends only on seed and epoch.

    Which examples share a batch depends on the seed. Whether the k-th batch holds short or long texts is the same for
    all seeds, so that several seeds can be trained side by side without padding to each other. The position of an
    example within its batch, and the members of a smaller last batch, are drawn at random: recipes use the position, so
    it must not depend on the text's length.
    """
    generator = np.random.default_rng(draws.key(seed, "order of examples", epoch))
    order = generator.permutation(len(lengths))
    found: list[Tensor] = []
    for start in range(0, len(order), size * _BLOCK):
        block = torch.from_numpy(order[start : start + size * _BLOCK])
        whole = len(block) // size * size
        cut = [*by_length(lengths[block[:whole]], size), torch.arange(whole, len(block))]
        mixed = [block[rows[torch.from_numpy(generator.permutation(len(rows)))]] for rows in cut if len(rows)]
        turns = np.random.default_rng(draws.key("order of batches", epoch, start)).permutation(len(mixed))
        found += [mixed[turn] for turn in turns]
    return found


def by_length(lengths: Tensor, size: int) -> list[Tensor]:
    """All examples, ordered so that those of similar length are neighbors."""
    return list(torch.split(torch.argsort(lengths, stable=True), size)) if len(lengths) else []


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts)) if parts else torch.empty(0, dtype=torch.int64)
