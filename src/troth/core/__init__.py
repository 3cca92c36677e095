"""The words everything speaks. Nothing here imports another room: what core needs of one, the package hands to it."""

from collections.abc import Callable
from typing import Any

rooms: dict[str, Callable[[], Any]] = {}  # modules of other rooms, imported when called: troth/__init__.py fills it
