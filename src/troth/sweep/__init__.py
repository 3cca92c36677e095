"""Runs plans: scheduling, workers, resuming, estimates. Calling the module (`troth.sweep(…)`) calls `grid.sweep`."""

import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    """Makes the module callable, since it has the same name as its function."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from troth.sweep.grid import sweep

        return sweep(*args, **options)


sys.modules[__name__].__class__ = _Verb
