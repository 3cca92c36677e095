"""Where and in which number format a training runs, and what is put back afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from troth.core import draws
from troth.core.errors import TrothError
from troth.training.settings import Settings


def accelerator(settings: Settings, cpu: bool) -> Any:
    """What runs the loop: on the devices, and in the precision, the user launched it with or asked for."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType

    precision: str | None = settings.precision
    if precision == "auto" and "ACCELERATE_MIXED_PRECISION" in os.environ:
        precision = None  # as launched
    elif precision == "auto":
        on_gpu = torch.cuda.is_available() and not cpu
        precision = ("bf16" if torch.cuda.is_bf16_supported() else "fp16") if on_gpu else "no"
    earlier = AcceleratorState._shared_state
    before = earlier.get("_mixed_precision"), earlier.get("_cpu")
    if earlier and earlier["num_processes"] == 1 and before != (precision or before[0], cpu):
        # An earlier training in this process chose otherwise, and Accelerate remembers.
        AcceleratorState._reset_state()
        PartialState._reset_state()
    found = Accelerator(mixed_precision=precision, cpu=cpu)
    if found.distributed_type not in (DistributedType.NO, DistributedType.MULTI_GPU, DistributedType.MULTI_CPU):
        raise TrothError(
            f"troth trains a copy of the model on each device, not with {found.distributed_type.value}; "
            "launch it with accelerate launch --multi_gpu"
        )
    return found


@contextmanager
def reproducible(settings: Settings, device: torch.device) -> Iterator[None]:
    """Deterministic kernels on a GPU; the user's random state and switches are put back."""
    exact = settings.deterministic and device.type == "cuda"
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    switches: Any = torch.utils.deterministic
    filled = switches.fill_uninitialized_memory
    # The fused kernels of attention add up in any order when they only warn, so that long texts give other weights.
    attention = sdpa_kernel(SDPBackend.MATH) if exact else nullcontext()
    with draws.seeded(settings.seed), attention:
        try:
            if exact:
                os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
                torch.use_deterministic_algorithms(True, warn_only=True)
                switches.fill_uninitialized_memory = False  # only finds errors, and takes a third
            yield
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
            switches.fill_uninitialized_memory = filled


@contextmanager
def own_forward(model: Any) -> Iterator[None]:
    """Accelerate puts mixed precision around a model's forward pass; this takes it off again."""
    names = ("forward", "_original_forward")
    before = {name: model.__dict__[name] for name in names if name in model.__dict__}
    try:
        yield
    finally:
        for name in names:
            model.__dict__.pop(name, None)
        model.__dict__.update(before)
