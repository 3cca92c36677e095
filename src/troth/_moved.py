"""Modules that were renamed in 0.2 are still found under their old names, with a warning."""

import importlib
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from troth.core.errors import warn_renamed

_INTO = {  # a room, under its own name
    "core": ("catalog", "draws", "errors", "types", "units"),
    "engine": ("looks",),
    "store": ("sweep.cells", "sweep.query", "sweep.store", "sweep.tables"),
    "studies": ("published",),
    "verbs": ("training.fresh",),
}
MOVED = {old: f"{room}.{old.rpartition('.')[2]}" for room, names in _INTO.items() for old in names} | {
    "agreement": "metrics._agreement",
    "attributive": "attribution_model",
    "benching": "sweep.bench",
    "benchmarks": "studies.roar",
    "benchmarks.recursive_roar": "studies.roar.recursive",
    "benchmarks.roar": "studies.roar.once",
    "display": "report.explanation",
    "explaining": "verbs.explain",
    "importing": "verbs.import_scores",
    "leaderboard": "report.board",
    "measuring": "verbs.measure",
    "meta": "metrics._diagnosticity",
    "metrics.performance": "performance",
    "probing": "engine.prober",
    "training.attributive_masking": "verbs.fit",
    "training.fit": "training.train",
}


def new_name(name: str) -> str | None:
    """Where a module of ours is now; None where it has not moved."""
    parts = name.split(".")
    for length in range(len(parts), 1, -1):
        old = ".".join(parts[1:length])
        if parts[0] == "troth" and old in MOVED:
            return ".".join(["troth", MOVED[old], *parts[length:]])
    return None


class Forwarding(MetaPathFinder, Loader):
    """Asked last, so only for modules that are no longer where they were."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if new_name(name) is None else ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        name = new_name(spec.name)
        assert name is not None
        warn_renamed(spec.name, name)
        module = importlib.import_module(name)
        self._spec = module.__spec__  # the import system is about to overwrite it
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
