"""What a training needs to go on after it was killed: weights and optimizer as safetensors, the rest as JSON.

A checkpoint is written aside and renamed last, so one that is there is whole; the one before goes only then. Random
numbers need no saving: they are keyed by what they are drawn for.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from troth.errors import TrothError

_SEPARATOR = "|"  # between a parameter's name and what the optimizer keeps of it


class Checkpoints:
    """The checkpoints of one training in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def latest(self) -> Path | None:
        """The newest whole checkpoint."""
        return max(self.folder.glob("step-*[0-9]"), default=None)

    def save(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        """Writes a checkpoint; on a full disk the last good one survives."""
        final = self.folder / f"step-{step:09d}"
        aside = self.folder / f"{final.name}.partial"
        before = self.latest()
        try:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            save_file(weights_of(model), str(aside / "model.safetensors"))
            save_file(_optimizer_tensors(model, optimizer), str(aside / "optimizer.safetensors"))
            (aside / "state.json").write_text(json.dumps(state))
            _flush(aside)
            aside.rename(final)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(aside, ignore_errors=True)
            kept = f"; {before} is kept" if before is not None else ""
            raise TrothError(
                f"cannot save a checkpoint at step {step} in {self.folder} ({reason(error)}){kept}: "
                "make room and run the same command again"
            ) from error
        if before is not None and before != final:
            shutil.rmtree(before, ignore_errors=True)

    def state(self, checkpoint: Path) -> dict[str, Any]:
        """What the loop knew at a checkpoint."""
        state: dict[str, Any] = json.loads((checkpoint / "state.json").read_text())
        return state

    def load(self, checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Weights and optimizer as they were at a checkpoint."""
        load_weights(model, checkpoint / "model.safetensors")
        kept: dict[str, dict[str, Tensor]] = {}
        for key, tensor in load_file(str(checkpoint / "optimizer.safetensors")).items():
            name, _, part = key.rpartition(_SEPARATOR)
            kept.setdefault(name, {})[part] = tensor
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        ordered = [names[id(one)] for group in optimizer.param_groups for one in group["params"]]
        state = {position: kept[name] for position, name in enumerate(ordered) if name in kept}
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})

    def save_best(self, epoch: int, model: nn.Module) -> None:
        """The weights of the best epoch so far; the checkpoint that follows names it."""
        final = self.folder / f"best-{epoch:04d}.safetensors"
        aside = self.folder / f"{final.name}.partial"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_file(weights_of(model), str(aside))
            aside.replace(final)
        except (OSError, SafetensorError) as error:
            aside.unlink(missing_ok=True)
            raise TrothError(
                f"cannot save the best weights of epoch {epoch} in {self.folder} ({reason(error)}); "
                "the last checkpoint is kept: make room and run the same command again"
            ) from error

    def load_best(self, epoch: int, model: nn.Module) -> None:
        load_weights(model, self.folder / f"best-{epoch:04d}.safetensors")

    def forget_other_best(self, epoch: int) -> None:
        """Drops weights that a newer checkpoint no longer names."""
        for file in self.folder.glob("best-*.safetensors"):
            if file.name != f"best-{epoch:04d}.safetensors":
                file.unlink(missing_ok=True)

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def reason(error: BaseException) -> str:
    """What went wrong, in a few words."""
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}{_SEPARATOR}{part}": value.contiguous()
        for name, parameter in model.named_parameters()
        for part, value in optimizer.state.get(parameter, {}).items()
    }


def _flush(folder: Path) -> None:
    """On the disk, not only on its way there."""
    for file in folder.iterdir():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every weight once, each in memory of its own: on a GPU those of an LSTM are parts of one buffer."""
    found: dict[tuple[int, torch.Size], tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict().items():
        found.setdefault((tensor.data_ptr(), tensor.shape), (name, tensor))
    return {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in found.values()}


def load_weights(model: nn.Module, path: Path) -> None:
    """Weights that `weights_of` gave; names that share a tensor are filled through one of them."""
    unknown = model.load_state_dict(load_file(str(path)), strict=False).unexpected_keys
    assert not unknown, unknown
