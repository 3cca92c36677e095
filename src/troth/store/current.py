"""Which stored cells are of methods as they are now: a name may have stood for other code, or other options, before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from troth.store.store import Stored


def current(cells: Iterable[Stored], about: Mapping[str, Any] | None) -> list[Stored]:
    """Those that run.json's methods do not contradict; what a name stood for before stays stored, and is not shown."""
    named = (about or {}).get("methods", {})
    return [cell for cell in cells if _is_current(cell.specs, named.get(cell.specs.get("explainer")))]


def _is_current(specs: Mapping[str, Any], now: Mapping[str, Any] | None) -> bool:
    stored = tuple(specs.get(f"explainer_{part}") for part in ("full", "code", "files"))
    return now is None or stored == (now["spec"], now["code"], now.get("files"))


def own_methods(about: Mapping[str, Any]) -> list[str]:
    """Names of the methods that do not come with troth."""
    return [name for name, now in about.get("methods", {}).items() if now["code"] is not None]
