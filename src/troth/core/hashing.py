"""Hashes that tell things apart: of plain values, of arrays and tensors, of files. SHA-256, half of it as 32 digits.

Every part is hashed on its own and stands in a list with its name, type and shape, so two different things cannot give
the same bytes by where one part ends and the next begins.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from troth.core.errors import TrothError

DIGITS = 32
_PIECE = 16 << 20  # bytes that are hashed at a time; part of the result
_MANY = 64 << 20  # bytes from which on threads are worth it


def digest(facts: Any) -> str:
    """The hash of plain values: equal where they are equal, whatever the order of a mapping's keys."""
    text = json.dumps(_plain(facts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """The hash of every byte of named tensors, with their types and shapes; nothing is copied on the CPU."""
    unique = {_place(tensor): tensor for tensor in tensors.values()}  # tied weights are read once
    pieces = [(place, piece) for place, tensor in unique.items() for piece in _pieces(tensor)]
    if sum(tensor.nbytes for tensor in unique.values()) < _MANY:
        hashes = [_hash(piece) for _, piece in pieces]
    else:
        with ThreadPoolExecutor(max(1, min(8, torch.get_num_threads()))) as pool:  # hashing lets go of the interpreter
            hashes = list(pool.map(_hash, (piece for _, piece in pieces)))
    content: dict[Any, list[str]] = {place: [] for place in unique}
    for (place, _), found in zip(pieces, hashes, strict=True):
        content[place].append(found)
    return digest(
        [
            [name, str(tensor.dtype), list(tensor.shape), content[_place(tensor)]]
            for name, tensor in sorted(tensors.items())
        ]
    )


def array_digest(array: Any) -> str:
    """The hash of one tensor or numpy array."""
    if isinstance(array, Tensor):
        return tensors_digest({"": array})
    if array.dtype.hasobject:
        return digest([str(array.dtype), list(array.shape), repr(array.tolist())])
    return digest([array.dtype.str, list(array.shape), _hash(np.ascontiguousarray(array).reshape(-1).view(np.uint8))])


def files_digest(folder: Path) -> str:
    """The hash of all files below a folder, by their names there; hidden ones left out."""
    files = sorted(path for path in folder.rglob("[!.]*") if path.is_file())
    return digest([[path.relative_to(folder).as_posix(), _file_hash(path)] for path in files])


def _file_hash(path: Path) -> str:
    with open(path, "rb") as file:  # a regular file, whatever its size: it is read in pieces
        return hashlib.file_digest(file, "sha256").hexdigest()


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return str(tensor.device), tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def _pieces(tensor: Tensor) -> Iterator[Tensor]:
    if tensor.is_meta:
        raise TrothError("some weights are offloaded, not in memory, so the model cannot be identified; load it whole")
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return (flat[start : start + _PIECE] for start in range(0, len(flat), _PIECE))


def _hash(piece: Any) -> str:
    held: Any = piece.cpu().numpy() if isinstance(piece, Tensor) else piece
    return hashlib.sha256(memoryview(held)).hexdigest()


def _plain(value: Any) -> Any:
    """What JSON can say of a value, so that values that differ are written differently."""
    if isinstance(value, Mapping):
        return {"{}": sorted(([repr(key), _plain(item)] for key, item in value.items()), key=lambda pair: pair[0])}
    if isinstance(value, set | frozenset):
        return {"set": sorted(map(repr, value))}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
