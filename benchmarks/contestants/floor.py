"""Not a library: how fast matrix products are just now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import floor


class Contestant:
    def prepare(self, **job: Any) -> Callable[[], float]:
        return floor.peak

    def reply(self, peak: float) -> dict[str, Any]:
        return {"peak_operations": peak}
