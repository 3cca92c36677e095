"""What a training needs to resume after it was killed: weights and optimizer as safetensors, the rest as JSON.

A checkpoint is written aside and renamed last, so one that is there is whole; the one before goes only then. Random
numbers need no saving: they are keyed by what they are drawn for.
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
_SEPARATOR = "|"  # between a parameter's name and what the optimizer keeps of it


class DamagedCheckpointError(Exception):
    """A file of a checkpoint is not what was written, and why."""


@dataclass
class State:
    """Counts from the start of the training, and of the epoch under way."""

    step: int = 0
    epoch: int = 0  # finished
    batch: int = 0  # done in this epoch
    loss: float = 0.0  # summed over the rows of this epoch
    rows: int = 0
    seconds: float = 0.0
    best_epoch: int = 0
    best_value: float = -math.inf
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self:
        """From a checkpoint; what cannot have been written there is damage."""
        empty = cls()
        for name, value in dataclasses.asdict(empty).items():
            kinds = (int, float) if isinstance(value, float) else type(value)
            if not isinstance(kept.get(name), kinds) or isinstance(kept[name], bool):
                raise DamagedCheckpointError(f"state.json has no {name} that can be used")
        state = cls(**{name: kept[name] for name in dataclasses.asdict(empty)})
        scored = all(isinstance(epoch, dict) and "score" in epoch for epoch in state.history)
        if not scored or len(state.history) != state.epoch or not 0 <= state.best_epoch <= state.epoch:
            raise DamagedCheckpointError("state.json has another number of epochs than it says")
        if min(state.step, state.batch, state.rows) < 0:
            raise DamagedCheckpointError("state.json counts below 0")
        return state


class Checkpoints:
    """The checkpoints of one training in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: list[str] = []  # of what was damaged

    def latest(self) -> Path | None:
        """The newest whole checkpoint."""
        return max(self.folder.glob("step-*[0-9]"), default=None)

    def save(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        """Writes a checkpoint; on a full disk the last good one survives."""
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
        """What the loop knew at a checkpoint."""
        try:
            state = reading.json_of(checkpoint / "state.json")
        except (OSError, ValueError) as error:
            raise DamagedCheckpointError(f"state.json cannot be read ({reason(error)})") from None
        if not isinstance(state, dict) or not all(isinstance(state.get(part), dict) for part in ("identity", "state")):
            raise DamagedCheckpointError("state.json is not one of ours")
        return state

    def load(self, checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Weights and optimizer as they were at a checkpoint; nothing is changed where a file is damaged."""
        weights = read_weights(model, checkpoint / "model.safetensors")
        shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        kept: dict[str, dict[str, Tensor]] = {}
        for key, tensor in _tensors(checkpoint / "optimizer.safetensors").items():
            name, _, part = key.rpartition(_SEPARATOR)
            if name not in shapes or (tensor.dim() and tensor.shape != shapes[name]):
                raise DamagedCheckpointError(f"optimizer.safetensors is of another model: {key} does not fit")
            kept.setdefault(name, {})[part] = tensor
        model.load_state_dict(weights, strict=False)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        ordered = [names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]
        state = {position: kept[name] for position, name in enumerate(ordered) if name in kept}
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})

    def save_best(self, epoch: int, model: nn.Module) -> None:
        """The weights of the best epoch so far; the checkpoint that follows names it."""
        what = f"the best weights of epoch {epoch}"
        with self._writing(self.best_file(epoch), what, "; the last checkpoint is kept") as aside:
            save_file(weights_of(model), str(aside))

    @contextmanager
    def _writing(self, path: Path, what: str, kept: str) -> Iterator[Path]:
        """Where to write a file or folder that is renamed when it is whole; what goes wrong is one line."""
        try:
            with writing_aside(path, sole_writer=True) as aside:
                yield aside
        except (OSError, SafetensorError) as error:
            raise TrothError(
                f"cannot save {what} in {self.folder} ({reason(error)}){kept}: "
                f"{remedy(error)} and run the same command again"
            ) from error

    def load_best(self, epoch: int, model: nn.Module) -> None:
        """Names that share a tensor are filled through one of them."""
        model.load_state_dict(read_weights(model, self.best_file(epoch)), strict=False)

    def best_file(self, epoch: int) -> Path:
        """Where the weights of the best epoch are kept."""
        return self.folder / f"best-{epoch:04d}.safetensors"

    def set_aside(self, checkpoint: Path, why: str) -> None:
        """Keeps a damaged checkpoint under another name, so that the training starts over, and notes it."""
        aside = checkpoint.with_name(f"damaged-{checkpoint.name}")
        shutil.rmtree(aside, ignore_errors=True)
        checkpoint.replace(aside)
        self.notes.append(f"{checkpoint} was damaged ({why}), so the training started over")

    def forget_other_best(self, epoch: int) -> None:
        """Drops weights that a newer checkpoint no longer names."""
        for file in self.folder.glob("best-*.safetensors"):
            if file != self.best_file(epoch):
                file.unlink(missing_ok=True)

    def clear(self) -> None:
        """Drops what is ours; a folder that holds anything else stays."""
        for path in (found for pattern in _OURS for found in self.folder.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def difference(stored: Mapping[str, Any], identity: Mapping[str, Any]) -> str:
    """The first thing in which a stored training is another than this one; empty where it is the same."""
    for name, value in identity.items():
        if stored.get(name) != value:
            return f"its {name} is {stored.get(name)!r}, not {value!r}"
    return ""


def reason(error: BaseException) -> str:
    """What went wrong, in a few words."""
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)


def _optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}{_SEPARATOR}{part}": value.contiguous()
        for name, parameter in model.named_parameters()
        for part, value in optimizer.state.get(parameter, {}).items()
    }


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Every weight once, each in memory of its own: on a GPU those of an LSTM are parts of one buffer."""
    contiguous = torch.contiguous_format
    return {name: tensor.detach().clone(memory_format=contiguous) for name, tensor in _each_once(model).items()}


def read_weights(model: nn.Module, path: Path) -> dict[str, Tensor]:
    """Every weight of the model from a file, each of the right shape."""
    found, wanted = _tensors(path), _each_once(model)
    differing = [*(found.keys() ^ wanted.keys())]
    differing += [name for name in found.keys() & wanted.keys() if found[name].shape != wanted[name].shape]
    if differing:
        raise DamagedCheckpointError(f"{path.name} is of another model: {min(differing)} does not fit")
    return found


def _each_once(model: nn.Module) -> dict[str, Tensor]:
    """The weights by one of the names that may share them."""
    found: dict[tuple[int, torch.Size], tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict().items():
        found.setdefault((tensor.data_ptr(), tensor.shape), (name, tensor))
    return dict(found.values())


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(str(path))
    except (OSError, SafetensorError, ValueError) as error:
        raise DamagedCheckpointError(f"{path.name} cannot be read ({reason(error)})") from None
