"""Ctrl-C, and the signal that a cluster sends before it takes a machine away: first a request, then an end."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

GRACE = 10.0  # seconds that cells under way are given to finish


@dataclass
class Stop:
    requested: bool = False


@contextmanager
def on_request() -> Iterator[Stop]:
    """The first signal requests; the second, or `GRACE` seconds later, raises KeyboardInterrupt."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    timer = threading.Timer(GRACE, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.daemon = True

    def handle(_number: int, _frame: Any) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True
        timer.start()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield stop
    finally:
        timer.cancel()
        for number, handler in before.items():
            if handler is not None:  # None: set from outside Python, and never replaced
                signal.signal(number, handler)
