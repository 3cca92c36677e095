"""Device memory: how much is free, how tensors are copied there, and which errors mean that it is exhausted."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_SAID = ("out of memory", "allocate memory", "not enough memory", "_alloc_failed")


def ran_out(error: BaseException) -> bool:
    """Whether an error means that memory is exhausted, whatever its class: torch has several, depending on device and
    version.

    >>> ran_out(RuntimeError("CUDA error: out of memory")), ran_out(RuntimeError("CUDA error: misaligned address"))
    (True, False)
    """
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in text for words in _SAID)


def free(device: torch.device) -> int:
    """Bytes available to this process on a GPU: free memory, and memory that torch has cached for reuse."""
    reusable = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + reusable


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device; on a GPU it is copied from pinned memory, so that the copy is asynchronous."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def moved_together(arrays: Sequence[NDArray[np.int64]], device: torch.device) -> list[Tensor]:
    """Copies several arrays to a device; to a GPU in one piece, because pinning memory takes longer than copying."""
    if device.type != "cuda":
        return [torch.from_numpy(array).to(device) for array in arrays]
    joined = moved(torch.from_numpy(np.concatenate([array.ravel() for array in arrays])), device)
    parts = torch.split_with_sizes(joined, [array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]
