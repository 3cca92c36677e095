"""Checkpoints of a training: weights and optimizer state as safetensors, everything else as JSON.

A checkpoint is written to a temporary name and renamed when it is complete; the previous one is deleted only then. The
state of random generators is not saved, because every random number is keyed by what it is drawn for.
"""

import dataclasses
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from troth.core import reading
from troth.core.errors import TrothError
from troth.core.files import remedy, writing_aside

_OURS = ("step-*[0-9]", "best-*.safetensors", "damaged-step-*", "*step-*.partial", "*best-*.partial")
_SEPARATOR = "|"  # separates a parameter's name from the name of the optimizer's state


class DamagedCheckpointError(Exception):
    """A file of a checkpoint differs from what was written; the message gives the reason."""


@dataclass
class State:
    """Counters since the start of the training and since the start of the current epoch."""

    step: int = 0
    epoch: int = 0  # finished epochs
    batch: int = 0  # finished batches of this epoch
    loss: float = 0.0  # sum over the rows of this epoch
    rows: int = 0
    seconds: float = 0.0
    best_epoch: int = 0
    best_value: float = -math.inf
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self:
        """Reads the state from a checkpoint; a value that cannot have been written there means damage."""
        empty = cls()
        for name, value in dataclasses.asdict(empty).items():
            kinds = (int, float) if isinstance(value, float) else type(value)
            if not isinstance(kept.get(name), kinds) or isinstance(kept[name], bool):
                raise DamagedCheckpointError(f"state.json has no {name} that can be used")
        state = cls(**{name: kept[name] for name in dataclasses.asdict(empty)})
        scored = all(isinstance(epoch, dict) and "score" in epoch for epoch in state.history)
        if not scored or len(state.history) != state.epoch or not 0 <= state.best_epoch <= state.epoch:
            raise DamagedCheckpointError("state.json states a number of epochs that it does not contain")
        if min(state.step, state.batch, state.rows) < 0:
            raise DamagedCheckpointError("state.json contains a negative count")
        return state


class Checkpoints:
    """The checkpoints of one training in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: list[str] = []  # messages about damaged checkpoints

    def latest(self) -> Path | None:
        """The newest complete checkpoint."""
        return max(self.folder.glob("step-*[0-9]"), default=None)

    def save(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        """Writes a checkpoint; if the disk is full, the last good one survives."""
        final = self.folder / f"step-{step:09d}"
        before = self.latest()
        with self._writing(final, f"a checkpoint at step {step}", f"; {before} is kept" if before else "") as aside:
            aside.mkdir()
            save_file(weights_of(model), str(aside / "model.safetensors"))
            save_file(_optimizer_tensors(model, optimizer), str(aside / "optimizer.safetensors"))
            (aside / "state.json").write_text(json.dumps(state))
        if before is not None and before != final:
            shutil.rmtree(before, ignore_errors=True)

    def state(self, checkpoint: Path) -> dict[str, Any]:
        """The state of the training loop at a checkpoint."""
        try:
            state = reading.json_of(checkpoint / "state.json")
        except (OSError, ValueError) as error:
            raise DamagedCheckpointError(f"state.json cannot be read ({reason(error)})") from None
        if not isinstance(state, dict) or not all(isinstance(state.get(part), dict) for part in ("identity", "state")):
            raise DamagedCheckpointError("state.json was not written by troth")
        return state

    def load(self, checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Loads weights and optimizer state from a checkpoint; changes nothing if a file is damaged."""
        weights = read_weights(model, checkpoint / "model.safetensors")
        shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        kept: dict[str, dict[str, Tensor]] = {}
        for key, tensor in _tensors(checkpoint / "optimizer.safetensors").items():
            name, _, part = key.rpartition(_SEPARATOR)
            if name not in shapes or (tensor.dim() and tensor.shape != shapes[name]):
                raise DamagedCheckpointError(f"optimizer.safetensors belongs to a different model: {key} does not fit")
            kept.setdefault(name, {})[part] = tensor
        model.load_state_dict(weights, strict=False)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        ordered = [names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]
        state = {position: kept[name] for position, name in enumerate(ordered) if name in kept}
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})

    def save_best(self, epoch: int, model: nn.Module) -> None:
        """Saves the weights of the best epoch so far; the next checkpoint refers to them."""
        what = f"the best weights of epoch {epoch}"
        with self._writing(self.best_file(epoch), what, "; the last checkpoint is kept") as aside:
            save_file(weights_of(model), str(aside))

    @contextmanager
    def _writing(self, path: Path, what: str, kept: str) -> Iterator[Path]:
        """Yields a temporary path that is renamed on success; an operating-system error becomes one line."""
        try:
            with writing_aside(path, sole_writer=True) as aside:
                yield aside
        except (OSError, SafetensorError) as error:
            raise TrothError(
                f"cannot save {what} in {self.folder} ({reason(error)}){kept}: "
                f"{remedy(error)} and run the same command again"
            ) from error

    def load_best(self, epoch: int, model: nn.Module) -> None:
        """Loads the best weights; parameters that share memory are filled through one of their names."""
        model.load_state_dict(read_weights(model, self.best_file(epoch)), strict=False)

    def best_file(self, epoch: int) -> Path:
        """The file with the weights of the best epoch."""
        return self.folder / f"best-{epoch:04d}.safetensors"

    def set_aside(self, checkpoint: Path, why: str) -> None:
        """Renames a damaged checkpoint, so that the training starts over, and records a message."""
        aside = checkpoint.with_name(f"damaged-{checkpoint.name}")
        shutil.rmtree(aside, ignore_errors=True)
        checkpoint.replace(aside)
        self.notes.append(f"{checkpoint} was damaged ({why}), so the training started over")

    def forget_other_best(self, epoch: int) -> None:
        """Deletes best weights that the newest checkpoint no longer refers to."""
        for file in self.folder.glob("best-*.safetensors"):
            if file != self.best_file(epoch):
                file.unlink(missing_ok=True)

    def clear(self) -> None:
        """Deletes our files; a folder that holds anything else is kept."""
        for path in (found for pattern in _OURS for found in self.folder.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def difference(stored: Mapping[str, Any], identity: Mapping[str, Any]) -> str:
    """The first field in which a stored training differs from this one; empty if they are equal."""
    for name, value in identity.items():
        if stored.get(name) != value:
            return f"its {name} is {stored.get(name)!r}, not {value!r}"
    return ""


def reason(error: BaseException) -> str:
    """The cause of an error in a few words."""
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}{_SEPARATOR}{part}": value.contiguous()
        for name, parameter in model.named_parameters()
        for part, value in optimizer.state.get(parameter, {}).items()
    }


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """All weights, each stored once and in its own memory: on a GPU, the weights of an LSTM are views of one buffer."""
    contiguous = torch.contiguous_format
    return {name: tensor.detach().clone(memory_format=contiguous) for name, tensor in _each_once(model).items()}


def read_weights(model: nn.Module, path: Path) -> dict[str, Tensor]:
    """Reads all weights of the model from a file and checks their shapes."""
    found, wanted = _tensors(path), _each_once(model)
    differing = [*(found.keys() ^ wanted.keys())]
    differing += [name for name in found.keys() & wanted.keys() if found[name].shape != wanted[name].shape]
    if differing:
        raise DamagedCheckpointError(f"{path.name} belongs to a different model: {min(differing)} does not fit")
    return found


def _each_once(model: nn.Module) -> dict[str, Tensor]:
    """The weights, with one name for those that share memory."""
    found: dict[tuple[int, torch.Size], tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict().items():
        found.setdefault((tensor.data_ptr(), tensor.shape), (name, tensor))
    return dict(found.values())


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(str(path))
    except (OSError, SafetensorError, ValueError) as error:
        raise DamagedCheckpointError(f"{path.name} cannot be read ({reason(error)})") from None
