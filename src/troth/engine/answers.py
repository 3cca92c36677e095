"""What the model has said: a tensor for all rows of a group, of which every look gets its slice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from troth.core.memory import moved
from troth.core.types import Rows, gather_units
from troth.engine.looks import Reading, at_least_single

Name = tuple[str, str]  # "logits", "units", "rest" or "rows", and what it is there
_ON_DEVICE = 1 << 28  # bytes of answers that may stay there until the round ends


class Block:
    """The answers to the rows of one group, in the order of its jobs. On the CPU once it is `settled`."""

    def __init__(self) -> None:
        self.parts: dict[Name, Tensor] = {}
        self._batches: dict[Name, list[Tensor]] = {}
        self._bytes = 0
        self._on_its_way: torch.cuda.Event | None = None

    def add(self, reading: Reading, rows: Rows, widest: int) -> None:
        """One batch, its tokens summed into units."""
        parts: dict[Name, Tensor] = {("logits", ""): at_least_single(reading.logits)}
        for name, tokens in reading.tokens.items():
            summed = gather_units(tokens, rows.units, widest)
            parts["units", name] = summed
            parts["rest", name] = tokens.sum(1) - summed.sum(1)
        for name, values in reading.rows.items():
            parts["rows", name] = values
        for key, part in parts.items():
            self._batches.setdefault(key, []).append(part)
            self._bytes += part.numel() * part.element_size()
        if self._bytes > _ON_DEVICE:
            self._batches = {key: [part.cpu() for part in batches] for key, batches in self._batches.items()}
            self._bytes = 0

    def close(self, order: NDArray[np.int64]) -> None:
        """All batches are there; row i of them is row order[i] of the group. On its way to the CPU nobody waits."""
        is_sorted, on_gpu = bool((order[1:] > order[:-1]).all()), False
        for name, batches in self._batches.items():
            part = joined(batches)
            if not is_sorted:
                part = part[moved(torch.from_numpy(np.argsort(order)), part.device)]
            self.parts[name] = part.to("cpu", non_blocking=True)
            on_gpu |= part.device.type == "cuda"
        self._batches = {}
        if on_gpu:
            self._on_its_way = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._on_its_way.record()

    def settle(self) -> None:
        """Waits for what is on its way."""
        if self._on_its_way is not None:
            self._on_its_way.synchronize()
            # Pinned memory is scarce, and answers may live as long as their example.
            self.parts = {name: part.clone() for name, part in self.parts.items()}
            self._on_its_way = None

    def undefined(self) -> tuple[str, int] | None:
        """What is NaN or infinite, and in which row first."""
        for (kind, name), part in self.parts.items():
            if part.is_floating_point() and not bool(torch.isfinite(part).all()):
                row = int((~torch.isfinite(part)).reshape(len(part), -1).any(1).nonzero()[0])
                return ("logits" if kind == "logits" else f"{name} numbers"), row
        return None


def joined(batches: Sequence[Tensor]) -> Tensor:
    """One tensor; batches that are less wide are filled with 0."""
    if len(batches) == 1:
        return batches[0]
    device = batches[-1].device
    shapes = np.array([batch.shape[1:] for batch in batches]).reshape(len(batches), -1)
    widest = shapes.max(0) if shapes.size else shapes[0]
    filled = []
    for batch, shape in zip(batches, shapes, strict=True):
        missing = [size for gap in reversed((widest - shape).tolist()) for size in (0, gap)]
        filled.append((pad(batch, missing) if any(missing) else batch).to(device))
    return torch.cat(filled)
