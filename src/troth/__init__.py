"""troth: explain what a text classifier did, and prove how faithful the explanation is."""

from __future__ import annotations

import random
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from troth import core

if TYPE_CHECKING:
    from troth.core.errors import TrothError as TrothError
    from troth.core.types import Attribution as Attribution
    from troth.core.types import Example as Example
    from troth.core.types import Score as Score
    from troth.data import load_data as load_data
    from troth.engine.prober import Prober as Prober
    from troth.models import load_model as load_model
    from troth.refereeing.verb import referee as referee
    from troth.report.log_to_mlflow import log_to_mlflow as log_to_mlflow
    from troth.report.log_to_wandb import log_to_wandb as log_to_wandb
    from troth.sweep.bench import bench as bench
    from troth.training.train import train as train
    from troth.validity.checking import check as check
    from troth.verbs.cite import cite as cite
    from troth.verbs.explain import explain as explain
    from troth.verbs.fit import fit as fit
    from troth.verbs.fresh import fresh as fresh
    from troth.verbs.interactions import interactions as interactions
    from troth.verbs.measure import measure as measure
    from troth.verbs.proof import prove as prove

__version__ = "0.3.0.dev0"

_HOMES = {
    "Attribution": "core.types",
    "Example": "core.types",
    "Prober": "engine.prober",
    "Score": "core.types",
    "TrothError": "core.errors",
    "bench": "sweep.bench",
    "check": "validity.checking",
    "cite": "verbs.cite",
    "explain": "verbs.explain",
    "fit": "verbs.fit",
    "fresh": "verbs.fresh",
    "interactions": "verbs.interactions",
    "load_data": "data",
    "load_model": "models",
    "log_to_mlflow": "report.log_to_mlflow",
    "log_to_wandb": "report.log_to_wandb",
    "measure": "verbs.measure",
    "prove": "verbs.proof",
    "referee": "refereeing.verb",
    "train": "training.train",
}
__all__ = sorted(_HOMES)

# Lets results display themselves and import scores, without `core` importing the packages that do it.
core.rooms |= {
    "showing": partial(import_module, "troth.report.showing"),
    "import_scores": partial(import_module, "troth.verbs.import_scores"),
}


def _import_rich() -> None:
    """Imports rich without disturbing Python's `random`, from which rich draws when it is first imported."""
    state = random.getstate()
    import_module("rich.style")
    random.setstate(state)


_import_rich()


def __getattr__(name: str) -> Any:
    # Loaded on first use, so that the command line starts quickly.
    if name in _HOMES:
        return getattr(import_module(f"troth.{_HOMES[name]}"), name)
    if name == "sweep":
        # A package with the same name as its function; the module itself can be called.
        return import_module("troth.sweep")
    raise AttributeError(f"module 'troth' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__", "sweep"]
