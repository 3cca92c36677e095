"""Who carries a plan out. Called, `troth.sweep(…)`, it is the verb of `grid.py`."""

import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    """The room has the name of its verb, so the module itself can be called."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from troth.sweep.grid import sweep

        return sweep(*args, **options)


sys.modules[__name__].__class__ = _Verb
