"""troth: explain what a text classifier did, and prove how faithful the explanation is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from troth.benching import bench as bench
    from troth.data import load_data as load_data
    from troth.errors import TrothError as TrothError
    from troth.explaining import explain as explain
    from troth.measuring import measure as measure
    from troth.models import load_model as load_model
    from troth.types import Attribution as Attribution
    from troth.types import Example as Example
    from troth.types import Score as Score

__version__ = "0.1.0"

_HOMES = {
    "Attribution": "types",
    "Example": "types",
    "Score": "types",
    "TrothError": "errors",
    "bench": "benching",
    "explain": "explaining",
    "load_data": "data",
    "load_model": "models",
    "measure": "measuring",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # Loaded when first used, so that the command line answers at once.
    if name in _HOMES:
        return getattr(import_module(f"troth.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'troth' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
