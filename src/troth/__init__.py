"""troth: explain what a text classifier did, and prove how faithful the explanation is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from troth.core.errors import TrothError as TrothError
    from troth.core.types import Attribution as Attribution
    from troth.core.types import Example as Example
    from troth.core.types import Score as Score
    from troth.data import load_data as load_data
    from troth.models import load_model as load_model
    from troth.sweep.bench import bench as bench
    from troth.verbs.explain import explain as explain
    from troth.verbs.measure import measure as measure

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
