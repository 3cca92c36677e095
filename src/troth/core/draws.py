"""Random numbers that depend on what they are for, not on when they are drawn: keyed by seed, example, purpose and
row.

A counter-based hash (SplitMix64) in integer arithmetic gives the same numbers on every device, so batch size, order,
sharding, resuming and hardware do not change them.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_GOLDEN_BITS = np.uint64(_GOLDEN + (1 << 64))
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)


def key(*parts: object) -> int:
    """A 63-bit key from the string representations of the parts.

    >>> key(0, "film-001", "lime") == key(0, "film-001", "lime") != key(1, "film-001", "lime")
    True
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds the global random generators of Python, numpy and torch, and restores their state afterwards."""
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed GPUs, whose state is not restored
        if gpus:
            torch.cuda.manual_seed_all(seed)
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])
        if gpus:
            torch.cuda.set_rng_state_all(gpus)


def row_keys(base: int | Tensor, rows: Tensor) -> Tensor:
    """A key for each row number, from one base key or from one per row. [rows] -> [rows]"""
    return _mix(rows.to(torch.int64) * _GOLDEN + base)


def uniforms(keys: Tensor, width: int) -> Tensor:
    """Uniform numbers in [0, 1), `width` for each key. [rows] -> [rows, width]"""
    counters = torch.arange(1, width + 1, device=keys.device) * _GOLDEN
    bits = _mix(keys[:, None] + counters)
    return ((bits >> 40) & 0xFFFFFF).to(torch.float32) * 2.0**-24


def normals(keys: Tensor, width: int) -> Tensor:
    """Standard normal numbers, `width` for each key. [rows] -> [rows, width]"""
    # Box-Muller on neighboring numbers, so that number i does not depend on the width; 1 - u is never 0.
    first, second = uniforms(keys, 2 * width).view(len(keys), width, 2).unbind(-1)
    return torch.sqrt(-2 * torch.log1p(-first)) * torch.cos(2 * torch.pi * second)


def _mix(bits: Tensor) -> Tensor:
    # Torch shifts int64 arithmetically; the masks turn this into a logical shift.
    bits = (bits ^ ((bits >> 30) & ((1 << 34) - 1))) * _MIX_1
    bits = (bits ^ ((bits >> 27) & ((1 << 37) - 1))) * _MIX_2
    return bits ^ ((bits >> 31) & ((1 << 33) - 1))


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The same as `_mix`, for unsigned integers."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_MIX_1 + (1 << 64))
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_MIX_2 + (1 << 64))
    return bits ^ (bits >> np.uint64(31))


def first_uniforms(keys: Sequence[int], width: int) -> NDArray[np.float32]:
    """[keys, width] The first row of `Draws(key).uniforms` for each key."""
    return _uniforms(np.array(keys, np.uint64), width)


def _uniforms(rows: NDArray[np.uint64], width: int) -> NDArray[np.float32]:
    """[rows, width] from keys that are not mixed yet. In numpy, because torch's call overhead dominates for so few
    numbers.
    """
    with np.errstate(over="ignore"):
        bits = _mixed(_mixed(rows)[:, None] + np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN_BITS)
    return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


@dataclass(frozen=True)
class Draws:
    """The random numbers of one purpose on one example."""

    key: int

    def uniforms(self, rows: int, width: int) -> Tensor:
        """[rows, width] Numbers in [0, 1); row i does not depend on the number of rows."""
        with np.errstate(over="ignore"):
            keys = np.arange(rows, dtype=np.uint64) * _GOLDEN_BITS + np.uint64(self.key)
        return torch.from_numpy(_uniforms(keys, width))

    def normals(self, rows: int, width: int) -> Tensor:
        """[rows, width] Standard normal numbers."""
        return normals(row_keys(self.key, torch.arange(rows)), width)

    def generator(self) -> np.random.Generator:
        """A generator for sequences of draws: permutations, choices, scipy."""
        return np.random.default_rng(self.key)
