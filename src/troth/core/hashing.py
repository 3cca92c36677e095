"""Hashes that identify plain values, tensors, files and code: the first 32 hexadecimal digits of SHA-256.

Every part is hashed separately and listed with its name, type and shape, so that two different inputs cannot give the
same bytes because of where one part ends and the next begins.
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
_PIECE = 16 << 20  # bytes that are hashed at a time; changing it changes the hashes
_MANY = 64 << 20  # number of bytes above which threads are used

_DEEPEST = 32  # maximum depth to which references are followed
_Seen = dict[int, tuple[int, Any]]  # address -> (number in order of appearance, object)
_PLAIN = (str, bytes, int, float, complex, type(None))
_LIBRARY = re.compile(r"[\\/](site-packages|dist-packages|python3\.\d+)[\\/]")
_CHANGE = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "discard", "clear"}


def digest(facts: Any) -> str:
    """The hash of plain values: equal for equal values, whatever the order of a mapping's keys."""
    text = json.dumps(_plain(facts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def tensors_digest(tensors: Mapping[str, Tensor], fetch: Callable[[str], Tensor] | None = None) -> str:
    """The hash of every byte of named tensors, with their types and shapes; tensors on the CPU are not copied.

    Tensors on the meta device are fetched one by one by their names.
    """
    away = {name for name, tensor in tensors.items() if tensor.is_meta and fetch is not None}
    # Tied tensors are hashed once.
    unique = {_place(tensor): tensor for name, tensor in tensors.items() if name not in away}
    pieces = [(place, piece) for place, tensor in unique.items() for piece in _pieces(tensor)]
    if sum(tensor.nbytes for tensor in unique.values()) < _MANY:
        hashes = [_hash(piece) for _, piece in pieces]
    else:
        with ThreadPoolExecutor(max(1, min(8, torch.get_num_threads()))) as pool:  # hashing releases the GIL
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
    """The hash of all files below a folder with their relative paths, without hidden files."""
    files = sorted(path for path in folder.rglob("[!.]*") if path.is_file())
    return digest([[path.relative_to(folder).as_posix(), _file_hash(path)] for path in files])


def _file_hash(path: Path) -> str:
    with open(path, "rb") as file:  # a regular file, whatever its size: it is read in chunks
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
    """A value as JSON can represent it, so that different values are written differently."""
    if isinstance(value, Mapping):
        return {"{}": sorted(([repr(key), _plain(item)] for key, item in value.items()), key=lambda pair: pair[0])}
    if isinstance(value, set | frozenset):
        return {"set": sorted(map(repr, value))}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def fingerprint(thing: Any, *texts: str) -> str:
    """The hash of a user's method or model (a function, a class or an object) and of additional texts.

    It covers the source code, everything that the code refers to, and the values it holds. It is the same in every
    process and changes as soon as the code or a value changes, because stored results are looked up by it.
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
        # Not the address, which differs between processes.
        yield f"#{seen[id(thing)][0]}" if id(thing) in seen else kind
        return
    seen[id(thing)] = len(seen), thing  # keeps a reference, because addresses are reused
    if isinstance(thing, types.ModuleType):
        yield from _of_module(thing, seen, depth)
    elif isinstance(thing, types.FunctionType):
        yield from _of_function(thing, seen, depth)
    elif isinstance(thing, type):
        yield from _of_class(thing, seen, depth)
    elif isinstance(thing, np.ndarray | Tensor):
        yield array_digest(thing)
    else:
        held = _held(thing)
        yield f"{kind}[{len(held)}]"
        for part in held:
            yield from _parts(part, seen, depth + 1)


def _held(thing: Any) -> Sequence[Any]:
    """The values that the results of an object may depend on; none for other library objects, which may hold
    anything.
    """
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
    # Asked of the class: an object may claim to have every attribute, as the native library of bitsandbytes does.
    if hasattr(type(thing), "state_dict"):
        return [type(thing), dict(thing.state_dict())]
    if hasattr(type(getattr(thing, "model", None)), "state_dict"):  # a pipeline
        return [type(thing), thing.model]
    if is_dataclass(thing):
        return [type(thing), {field.name: getattr(thing, field.name) for field in fields(thing) if field.init}]
    if is_users(type(thing)):
        return _Caller(thing, vars(type(thing)).get("__call__")).held()
    if hasattr(type(thing), "get_params"):  # estimators of scikit-learn, with their fitted attributes
        # `_stop_words_id` of a vectorizer is an address, which differs between processes.
        return [type(thing), {name: value for name, value in vars(thing).items() if name != "_stop_words_id"}]
    if type(thing).__module__.partition(".")[0] in ("numpy", "scipy", "sklearn"):  # trees, sparse matrices
        return _reduced(thing)
    return []


class _Caller:
    """An object with the function that is called. Attributes that the function itself changes, such as a counter of its
    calls, do not count.
    """

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
    """The parts that pickle would store for an object; empty if it cannot be pickled."""
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
    # Two lambdas on one line have the same source.
    yield constants(function.__code__) if not source or function.__name__ == "<lambda>" else source
    # Values that the function itself changes, such as a counter of its calls, do not count.
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
    """Hashes a module of the user by its source and by the user's modules that it imports; any other module by its
    name.
    """
    yield module.__name__
    if module.__name__.partition(".")[0] not in ("troth", "__main__") and is_users(module):
        yield _source(module)
        imported = (value for value in vars(module).values() if isinstance(value, types.ModuleType))
        for value in sorted(imported, key=lambda value: value.__name__):
            yield from _parts(value, seen, depth + 1)


def _source(thing: Any) -> str:
    if getattr(getattr(thing, "__code__", None), "co_filename", "") == "<string>":
        return ""  # made by exec; Python 3.13 would give the source of `python -c`
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):  # typed at a prompt
        return ""


def is_users(thing: Any) -> bool:
    """Whether an object was written by the user: not part of Python, an installed package or troth."""
    module = getattr(thing, "__module__", None) or ""
    if module.partition(".")[0] in ("builtins", "troth"):
        return False
    try:
        file = inspect.getsourcefile(thing)
    except (TypeError, OSError):  # built in, or defined at a prompt or in a notebook
        return module == "__main__"
    return file is None or not _LIBRARY.search(file)


def values_named(function: types.FunctionType) -> dict[str, Any]:
    """The globals that a function and the functions inside it refer to, and the values of its closure."""
    names = sorted({name for code in _codes(function.__code__) for name in code.co_names})
    values = {name: function.__globals__[name] for name in names if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # the cell is still empty
            continue
    return values


def changed_by(function: types.FunctionType) -> set[str]:
    """Names whose values a function changes, such as a list of its calls, a cache or a counter."""
    changed = set()
    for code in _codes(function.__code__):
        steps = list(dis.get_instructions(code))
        changed |= {str(step.argval) for step in steps if step.opname in ("STORE_DEREF", "STORE_GLOBAL", "STORE_ATTR")}
        for step, after in pairwise(steps):
            if step.opname.startswith("LOAD_") and after.opname.startswith("LOAD_") and after.argval in _CHANGE:
                changed.add(str(step.argval))
    return changed | set(_stored_into(function))


def constants(code: types.CodeType) -> str:
    """Identifies a function without source by its bytecode, without addresses and line numbers."""
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
    """Names of variables with an item assignment: cache[text] = …"""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # no source, or that of a lambda in the middle of a line
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            yield node.value.id
