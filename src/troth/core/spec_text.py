"""How specs may be written by hand: in lists, `lime(samples=50),random`, and with bare paths, `checkpoint=runs/g`."""

from __future__ import annotations

import re

_QUOTED = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
_PIECES = re.compile(rf"{_QUOTED}|[(\[{{]|[)\]}}]|,|[^'\"(\[{{)\]}},]+|['\"]", re.DOTALL)
_BARE = re.compile(rf"{_QUOTED}|(?<==)(\s*)([\w.~/\\][\w./\\~:@+-]*)(?=\s*[,)])")


def split(text: str) -> list[str]:
    """The parts of a list, cut at commas that are in no bracket and no quotes.

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
    """The spec with quotes around values that are neither words nor numbers: paths and names with dots or dashes.

    >>> quoted("attributive_masking(checkpoint=runs/g-2, steps=10)")
    "attributive_masking(checkpoint='runs/g-2', steps=10)"
    """
    return _BARE.sub(lambda found: found[0] if found[2] is None else found[1] + _value(found[2]), spec)


def _value(text: str) -> str:
    if text.isidentifier():
        return text
    try:
        float(text)
    except ValueError:
        return repr(text)
    return text
