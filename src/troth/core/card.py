"""What a file of the catalog says of itself: its meaning, papers, options, and what was tried out of it."""

import ast
import dataclasses
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from troth.core import catalog

TRIED = Path(__file__).with_name("tried.json")  # costs and models, written by scripts/document.py
_CITATION = re.compile(r"\s*\(([^()]*[A-Za-z][^()]*\b(?:19|20)\d\d[^()]*)\)")


def paragraphs(kind: str, name: str) -> list[str]:
    """The paragraphs of a file's opening, each in one line."""
    text = ast.get_docstring(ast.parse(catalog.file(kind, name).read_text(encoding="utf-8"))) or ""
    return [" ".join(part.split()) for part in text.split("\n\n")]


def definition(kind: str, name: str) -> tuple[str, str]:
    """What a score means, and the papers named there."""
    first = paragraphs(kind, name)[0]
    return _CITATION.sub("", first), "; ".join(_CITATION.findall(first)) or "–"


def signature(cls: type[Any]) -> list[str]:
    """Every option of a method with its default; … where it must be given."""
    fields = [field for field in dataclasses.fields(cls) if field.init and field.repr]
    return [f"{field.name}={'…' if field.default is dataclasses.MISSING else field.default}" for field in fields]


def tried(kind: str, name: str) -> dict[str, str]:
    """Cost (passes for a text of n units) and models of a method, where they were tried out."""
    facts: dict[str, str] = _all_tried().get(kind, {}).get(name, {})
    return facts


@cache
def _all_tried() -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(TRIED.read_text(encoding="utf-8"))
    return facts
