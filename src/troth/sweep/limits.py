"""What a run may be asked for."""

import math

from troth.core import arguments
from troth.core.errors import TrothError, unknown
from troth.sweep.ready import Shard

_MOST_WORKERS, _MOST_THREADS = 10_000, 1_024


def check_options(
    engine: str, workers: int | None, address: str | None, gpus: float | None, threads: int, shard: Shard | None
) -> None:
    """One line for what no run can be started with, before any work."""
    if engine not in ("local", "ray"):
        raise unknown("engine", engine, ["local", "ray"])
    if workers is not None:
        arguments.of_kind("workers", workers, int, "a whole number")
    if workers is not None and not 1 <= workers <= _MOST_WORKERS:
        raise TrothError(f"workers must be 1 to {_MOST_WORKERS:,}, not {workers}")
    if not 1 <= threads <= _MOST_THREADS:
        raise TrothError(f"threads must be 1 to {_MOST_THREADS:,}, not {threads}")
    if gpus is not None and not 0 <= gpus < math.inf:
        raise TrothError(f"gpus must be a number from 0 on, such as 0.5, not {gpus}")
    for option, value in (("address", address), ("gpus", gpus)):
        if value is not None and engine != "ray":
            raise TrothError(f"{option} goes with engine ray; add --engine ray, or leave --{option} {value} out")
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise TrothError(f"shard {shard[0]}/{shard[1]} does not exist; the first of four is 1/4, the last 4/4")
