"""What one request may ask for, so that nobody can hold up or fill the machine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from troth.core import catalog, user_code
from troth.core.errors import TrothError
from troth.explainers import Explainer

BODY = 1 << 20  # bytes of a request
TEXT = 20_000  # characters of a text
EXPLAINERS = 8  # per request
ROWS = 64  # erased inputs per request
_NUMBER = 10_000  # the largest option of an explainer: samples, steps, width
_ELSEWHERE = ("checkpoint", "endpoint")  # options that name a file or a server


@dataclass(frozen=True)
class Limits:
    """How much is under way at a time."""

    jobs: int = 64  # waiting or under way; more are refused
    together: int = 16  # that share batches
    seconds: float = 300.0  # that one job may wait and work


def explainers(specs: Sequence[str]) -> dict[str, Explainer]:
    """The methods of a request, by their text: of the catalog, of a bearable size, reading nothing from elsewhere."""
    for spec in specs:
        user_code.refuse(spec)
        name, options = catalog.parse(spec)
        _refuse_large(name, options)
        outside = [field.name for field in fields(catalog.find("explainers", name)) if field.name in _ELSEWHERE]
        if outside:
            raise TrothError(f"{name} reads {outside[0]} from elsewhere, which a page cannot name; use troth explain")
    return catalog.by_spec("explainers", specs)


def masking(spec: str) -> str:
    """The text of a masking, checked."""
    user_code.refuse(spec)
    name, options = catalog.parse(spec)
    _refuse_large(name, options)
    return catalog.spec(catalog.construct("maskings", name, options))


def _refuse_large(name: str, options: Mapping[str, Any]) -> None:
    for option, value in options.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and not (math.isfinite(value) and abs(value) <= _NUMBER):
            raise TrothError(f"{name}: {option} is at most {_NUMBER:,} here, not {value}; use troth explain")
