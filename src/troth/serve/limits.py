"""What one request may ask for, so that nobody can hold up or fill the machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from troth.core import catalog, trust, user_code
from troth.core.errors import TrothError
from troth.core.types import Encoding
from troth.explainers import Explainer

BODY = 1 << 20  # bytes of a request
TEXT = 20_000  # characters of a text
UNITS = 1_000  # of a text
EXPLAINERS = 8  # per request
ROWS = 64  # erased inputs per request
_NUMBER = 10_000  # the largest option of an explainer: samples, steps, width


@dataclass(frozen=True)
class Limits:
    """How much is under way at a time."""

    jobs: int = 64  # waiting or under way; more are refused
    together: int = 16  # that share batches
    seconds: float = 300.0  # that one job may wait and work


def offered() -> list[str]:
    """The explainers that a request may name."""
    names = catalog.names("explainers")
    return [name for name in names if not trust.names_elsewhere(catalog.find("explainers", name))]


def explainers(specs: Sequence[str]) -> dict[str, Explainer]:
    """The methods of a request, by their text: of the catalog, of a bearable size, reading nothing from elsewhere."""
    for spec in specs:
        name = catalog.parse(spec)[0] if user_code.read(spec) is None else ""
        outside = trust.names_elsewhere(catalog.find("explainers", name)) if name else []
        if outside:
            raise TrothError(f"{name} reads {outside[0]} from elsewhere, which a page cannot name; use troth explain")
        _check("explainers", spec)
    return catalog.by_spec("explainers", specs)


def masking(spec: str) -> str:
    """The text of a masking, checked."""
    _check("maskings", spec)
    return catalog.spec(catalog.build("maskings", spec))


def require_few_units(encoding: Encoding) -> None:
    """Raises where the text has more units than a request may ask about."""
    if encoding.n_units > UNITS:
        raise TrothError(
            f"the text has {encoding.n_units:,} {encoding.unit_kind}s, and at most {UNITS:,} are explained here; "
            "use larger units (sentence), a part of the text, or troth explain"
        )


def _check(kind: str, spec: str) -> None:
    """Refuses a spec of a request in which something is large or reaches out."""
    trust.Origin("a request").spec(kind, spec)
    name, options = catalog.parse(spec)
    for option, value in options.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and not (math.isfinite(value) and abs(value) <= _NUMBER):
            raise TrothError(f"{name}: {option} is at most {_NUMBER:,} here, not {value}; use troth explain")
