"""The notation of methods and their options: `lime(samples=50)`, in lists, and with unquoted paths as values."""

import ast
import re
from typing import Any

from troth.core.errors import TrothError

_QUOTED = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
_PIECES = re.compile(rf"{_QUOTED}|[(\[{{]|[)\]}}]|,|[^'\"(\[{{)\]}},]+|['\"]", re.DOTALL)
_BARE = re.compile(rf"{_QUOTED}|(?<==)(\s*)([\w.~/\\][\w./\\~:@+-]*)(?=\s*[,)])")

_TRUTHS = {"true": True, "false": False}
_LONGEST = 10_000  # characters of a spec


def split(text: str) -> list[str]:
    """The parts of a list, split at commas outside of brackets and quotes.

    >>> split("lime(samples=50, ridge=2),random"), split("random"), split("a, ,b,")
    (['lime(samples=50, ridge=2)', 'random'], ['random'], ['a', 'b'])
    """
    parts, depth = [""], 0
    for piece in _PIECES.findall(text):
        depth += (piece in ("(", "[", "{")) - (piece in (")", "]", "}"))
        if piece == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts if part.strip()]


def quoted(spec: str) -> str:
    """Adds quotes around values that are neither words nor numbers: paths and names with dots or dashes.

    >>> quoted("attributive_masking(checkpoint=runs/g-2, steps=10)")
    "attributive_masking(checkpoint='runs/g-2', steps=10)"
    """
    return _BARE.sub(lambda found: found[0] if found[2] is None else found[1] + _quoted_value(found[2]), spec)


def _quoted_value(text: str) -> str:
    if text.isidentifier():
        return text
    try:
        float(text)
    except ValueError:
        return repr(text)
    return text


def parse(spec: str) -> tuple[str, dict[str, Any]]:
    """The name and options of a spec text.

    >>> parse("beam_search(width=50, masking=delete)")
    ('beam_search', {'width': 50, 'masking': 'delete'})
    >>> parse("leave_one_out(absolute=true)")
    ('leave_one_out', {'absolute': True})
    >>> parse("attributive_masking(checkpoint=runs/g)")
    ('attributive_masking', {'checkpoint': 'runs/g'})
    """
    if len(spec) > _LONGEST:
        raise TrothError(
            f"cannot read {spec[:40]!r}…; a method with its options may have at most "
            f"{_LONGEST:,} characters, not {len(spec):,}"
        )
    try:
        tree = ast.parse(quoted(spec.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError: nested too deeply
        raise TrothError(f"cannot read {spec!r}; write name or name(option=value, …)") from None
    if isinstance(tree, ast.Name):
        return tree.id, {}
    named = [keyword.arg for keyword in tree.keywords] if isinstance(tree, ast.Call) else [None]
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args or None in named:
        raise TrothError(f"cannot read {spec!r}; write name or name(option=value, …)")
    if len(set(named)) < len(named):
        raise TrothError(f"cannot read {spec!r}; an option is given twice")
    return tree.func.id, {str(keyword.arg): _value(keyword.value, spec) for keyword in tree.keywords}


def _value(node: ast.expr, spec: str) -> Any:
    # A bare word is text, except true and false, and a call is a nested spec: masking=soft(at=word).
    if isinstance(node, ast.Name):
        return _TRUTHS.get(node.id, node.id)
    try:
        if isinstance(node, ast.Call):
            return ast.unparse(node)
        value = ast.literal_eval(node)
        repr(value)  # an integer with thousands of digits cannot be converted to text
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise TrothError(f"cannot read a value in {spec!r}; use a number, a word or a tuple") from None
    return value
