"""The vocabulary that all modules share. Nothing here imports from another package of troth; modules that core needs
are registered in `rooms`.
"""

from collections.abc import Callable
from typing import Any

# Modules of other packages, imported when called; troth/__init__.py registers them.
rooms: dict[str, Callable[[], Any]] = {}
