"""Hashes that tell things apart: of plain values, tensors, files and code. SHA-256, half of it as 32 digits.

Every part is hashed on its own and stands in a list with its name, type and shape, so two different things cannot give
the same bytes by where one part ends and the next begins.
"""

import ast
import dis
import hashlib
import inspect
import json
import re
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from troth.core.errors import TrothError

DIGITS = 32
_PIECE = 16 << 20  # bytes that are hashed at a time; part of the result
_MANY = 64 << 20  # bytes from which on threads are worth it

_DEEPEST = 32  # how far references are followed
_Seen = dict[int, tuple[int, Any]]  # by address: the how-manieth thing it is, and the thing
_PLAIN = (str, bytes, int, float, complex, type(None))
_LIBRARY = re.compile(r"[\\/](site-packages|dist-packages|python3\.\d+)[\\/]")
_CHANGE = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "discard", "clear"}


def digest(facts: Any) -> str:
    """The hash of plain values: equal where they are equal, whatever the order of a mapping's keys."""
    text = json.dumps(_plain(facts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def tensors_digest(tensors: Mapping[str, Tensor], fetch: Callable[[str], Tensor] | None = None) -> str:
    """The hash of every byte of named tensors, with their types and shapes; nothing is copied on the CPU.

    Those on the meta device are fetched one by one by their names.
    """
    away = {name for name, tensor in tensors.items() if tensor.is_meta and fetch is not None}
    unique = {_place(tensor): tensor for name, tensor in tensors.items() if name not in away}  # tied ones: once
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
            [
                *(name, str(tensor.dtype), list(tensor.shape)),
                [_hash(piece) for piece in _pieces(fetch(name))] if fetch and name in away else content[_place(tensor)],
            ]
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


def fingerprint(thing: Any, *texts: str) -> str:
    """The hash of a method or model that somebody wrote (a function, a class or an object of one) and of texts besides.

    It covers the source, what that refers to, and the values held. The same in every process, and another as soon as
    the code or a value is another: stored results are found by it.
    """
    whole = hashlib.sha256()
    for part in (*texts, *_parts(thing, {}, 0)):
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part.encode("utf-8", "surrogatepass"))
    return whole.hexdigest()[:DIGITS]


def _parts(thing: Any, seen: _Seen, depth: int) -> Iterator[str]:
    kind = f"{type(thing).__module__}.{type(thing).__qualname__}"
    if isinstance(thing, _PLAIN):
        yield repr(thing)
        return
    if id(thing) in seen or depth > _DEEPEST:
        yield f"#{seen[id(thing)][0]}" if id(thing) in seen else kind  # not its address, which differs by process
        return
    seen[id(thing)] = len(seen), thing  # kept, for an address is used again
    if isinstance(thing, types.ModuleType):
        yield from _of_module(thing, seen, depth)
    elif isinstance(thing, types.FunctionType):
        yield from _of_function(thing, seen, depth)
    elif isinstance(thing, type):
        yield from _of_class(thing, seen, depth)
    elif isinstance(thing, np.ndarray) or hasattr(thing, "detach"):
        yield array_digest(thing)
    else:
        held = _held(thing)
        yield f"{kind}[{len(held)}]"
        for part in held:
            yield from _parts(part, seen, depth + 1)


def _held(thing: Any) -> Sequence[Any]:
    """What the answers of an object may depend on; nothing of a library's object, which may hold anything."""
    if isinstance(thing, partial):
        return [thing.func, thing.args, thing.keywords]
    if inspect.ismethod(thing):
        return [thing.__func__, _Caller(thing.__self__, thing.__func__)]
    if isinstance(thing, _Caller):
        return thing.held()
    if isinstance(thing, Mapping):
        return [part for pair in sorted(thing.items(), key=lambda pair: repr(pair[0])) for part in pair]
    if isinstance(thing, list | tuple):
        return thing
    if isinstance(thing, set | frozenset):
        return sorted(thing, key=repr)
    if hasattr(thing, "state_dict"):
        return [type(thing), dict(thing.state_dict())]
    if hasattr(getattr(thing, "model", None), "state_dict"):  # a pipeline
        return [type(thing), thing.model]
    if is_dataclass(thing):
        return [type(thing), {field.name: getattr(thing, field.name) for field in fields(thing) if field.init}]
    if is_users(type(thing)):
        return _Caller(thing, vars(type(thing)).get("__call__")).held()
    if hasattr(thing, "get_params"):  # scikit-learn's, with what it has learned
        return [type(thing), vars(thing)]
    if type(thing).__module__.partition(".")[0] in ("numpy", "scipy", "sklearn"):  # trees, sparse matrices
        return _reduced(thing)
    return []


class _Caller:
    """An object and the function of it that is called: what that one changes is a record of its calls, no setting."""

    def __init__(self, thing: Any, function: Any) -> None:
        self.thing, self.function = thing, function

    def held(self) -> Sequence[Any]:
        if not is_users(type(self.thing)):
            return [self.thing]
        cls, called = type(self.thing), {}
        waiting = [self.function]
        while waiting:
            function = waiting.pop()
            if isinstance(function, types.FunctionType) and function.__name__ not in called:
                called[function.__name__] = changed_by(function)
                waiting += [inspect.getattr_static(cls, name, None) for name in function.__code__.co_names]
        left_out = {*chain.from_iterable(called.values()), "__orig_class__"}
        left_out |= {
            name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, cached_property)
        }
        values = vars(self.thing) if hasattr(self.thing, "__dict__") else {}
        return [cls, {name: value for name, value in values.items() if name not in left_out}]


def _reduced(thing: Any) -> Sequence[Any]:
    """What pickle would keep of an object, part by part; nothing where it cannot be pickled."""
    try:
        parts = thing.__reduce_ex__(2)
    except Exception:  # pickling may raise anything
        return []
    return parts if isinstance(parts, str) else [part for part in parts[1:3] if part is not None]


def _of_function(function: types.FunctionType, seen: _Seen, depth: int) -> Iterator[str]:
    yield function.__qualname__
    if not is_users(function):
        yield function.__module__
        return
    source = _source(function)
    # Of two lambdas on one line the source is the same.
    yield constants(function.__code__) if not source or function.__name__ == "<lambda>" else source
    # What it changes itself is a record of its calls, not a setting.
    changed = changed_by(function)
    named = {name: value for name, value in values_named(function).items() if name not in changed}
    for held in (function.__defaults__, function.__kwdefaults__, named):
        yield from _parts(held, seen, depth + 1)


def _of_class(cls: type, seen: _Seen, depth: int) -> Iterator[str]:
    yield cls.__qualname__
    for base in cls.__mro__:
        if is_users(base):
            yield _source(base)
            for value in vars(base).values():
                if isinstance(value, types.FunctionType):
                    yield from _parts(value, seen, depth + 1)


def _of_module(module: types.ModuleType, seen: _Seen, depth: int) -> Iterator[str]:
    """A module of the user's by its source and by the modules of the user's that it imports; any other by its name."""
    yield module.__name__
    if module.__name__.partition(".")[0] not in ("troth", "__main__") and is_users(module):
        yield _source(module)
        imported = (value for value in vars(module).values() if isinstance(value, types.ModuleType))
        for value in sorted(imported, key=lambda value: value.__name__):
            yield from _parts(value, seen, depth + 1)


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):  # typed at a prompt
        return ""


def is_users(thing: Any) -> bool:
    """Whether the user wrote it: it is neither Python's, nor an installed package's, nor troth's."""
    module = getattr(thing, "__module__", None) or ""
    if module.partition(".")[0] in ("builtins", "troth"):
        return False
    try:
        file = inspect.getsourcefile(thing)
    except (TypeError, OSError):  # built in, or typed at a prompt or in a notebook
        return module == "__main__"
    return file is None or not _LIBRARY.search(file)


def values_named(function: types.FunctionType) -> dict[str, Any]:
    """The globals that a function names, those of functions inside it too, and the values of its closure."""
    names = sorted({name for code in _codes(function.__code__) for name in code.co_names})
    values = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return values


def changed_by(function: types.FunctionType) -> set[str]:
    """Names whose values a function changes: a list of its calls, a cache, a counter."""
    changed = set()
    for code in _codes(function.__code__):
        steps = list(dis.get_instructions(code))
        changed |= {str(step.argval) for step in steps if step.opname in ("STORE_DEREF", "STORE_GLOBAL", "STORE_ATTR")}
        for step, after in pairwise(steps):
            if step.opname.startswith("LOAD_") and after.opname.startswith("LOAD_") and after.argval in _CHANGE:
                changed.add(str(step.argval))
    return changed | set(_stored_into(function))


def constants(code: types.CodeType) -> str:
    """What a function without source does: its code, without the addresses and line numbers in it."""
    values = (
        sorted(map(repr, value)) if isinstance(value, frozenset) else value
        for value in code.co_consts
        if not isinstance(value, types.CodeType)
    )
    inner = [constants(value) for value in code.co_consts if isinstance(value, types.CodeType)]
    return repr((code.co_code, code.co_names, list(values), inner))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            yield from _codes(value)


def _stored_into(function: types.FunctionType) -> Iterator[str]:
    """Names of what is assigned into: cache[text] = …"""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # no source, or that of a lambda in the middle of a line
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            yield node.value.id
