"""Which values a function's code refers to, and which of them it changes."""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
import types
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

_CHANGE = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "discard", "clear"}


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
