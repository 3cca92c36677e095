"""Memory that nobody uses goes back to the system: allocators keep what a burst of requests needed."""

from __future__ import annotations

import ctypes
import gc
import sys

import torch


def release() -> None:
    """Takes a fraction of a second, so for when nothing waits."""
    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl does not
        if trim is not None:
            trim(0)
