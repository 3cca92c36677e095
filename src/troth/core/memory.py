"""Whether an error says that memory ran out, whatever its class: torch has several, by device and version."""

from __future__ import annotations

import torch

_SAID = ("out of memory", "allocate memory", "not enough memory", "_alloc_failed")


def ran_out(error: BaseException) -> bool:
    """Whether memory ran out.

    >>> ran_out(RuntimeError("CUDA error: out of memory")), ran_out(RuntimeError("CUDA error: misaligned address"))
    (True, False)
    """
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in text for words in _SAID)
