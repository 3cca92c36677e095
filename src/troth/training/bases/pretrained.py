"""Pretrained weights from a folder or the hub, with a new classification head if theirs has other classes or none."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from troth.core import draws, hub
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.data._classes import order_of
from troth.models import _pretrained
from troth.models.encoder import Encoder
from troth.training.bases import Base, class_names


@dataclass(frozen=True)
class Pretrained(Base):
    path: str = ""

    def require(self) -> None:
        if not self.path:
            raise TrothError(
                "pretrained needs a folder or hub name: pretrained(path='roberta-base'), or the name alone"
            )
        folder = Path(self.path)
        if folder.is_dir() and not (folder / "config.json").is_file():
            raise TrothError(f"{self.path} is a folder without config.json, so it is not a model to start from")
        if not folder.is_dir() and (
            folder.is_file() or self.path.startswith((".", "/", "~")) or self.path.count("/") > 1
        ):
            raise TrothError(f"there is no model folder {self.path}")

    def build(self, examples: Sequence[Example], labels: tuple[str, ...], seed: int, max_length: int | None) -> Encoder:
        self.require()
        hub.require(self.path, "to train it")
        with draws.seeded(draws.key(seed, "new weights")):
            with _pretrained.loading(f"{self.path} to train it"):
                before = _pretrained.config_of(self.path).id2label
                tokenizer = _pretrained.tokenizer_of(self.path)
                model, _ = _pretrained.network_of(
                    "AutoModelForSequenceClassification",
                    self.path,
                    torch.float32,
                    **class_names(labels),
                    ignore_mismatched_sizes=True,  # a head for other classes is replaced
                )
            _name_outputs(model, [str(before[index]) for index in sorted(before)], labels)
        if tokenizer.pad_token_id is None:
            raise TrothError(
                f"{self.path} has no padding token, which mini-batches need; give its tokenizer one and save it"
            )
        model.config.pad_token_id = tokenizer.pad_token_id
        return Encoder(model, tokenizer, name=self.path, max_length=max_length)


def _name_outputs(model: nn.Module, before: Sequence[str], labels: Sequence[str]) -> None:
    """Puts the outputs of a head for the classes `before` in the order of `labels`; for other classes, draws it again.

    A head of another size is new already, and classes that nobody named (LABEL_0) stay where they are.
    """
    # The last layer that gives one number per class.
    layers = [part for part in model.modules() if isinstance(part, nn.Linear) and part.out_features == len(labels)]
    output = layers[-1] if layers else None
    if output is None or len(before) != len(labels) or list(before) == list(labels):
        return
    order = order_of(labels, before)
    with torch.no_grad():
        if order is None:
            output.weight.normal_(std=getattr(model.config, "initializer_range", 0.02))
        else:
            output.weight.copy_(output.weight[order])
        if output.bias is not None:
            output.bias.copy_(torch.zeros_like(output.bias) if order is None else output.bias[order])
