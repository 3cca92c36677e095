"""Pretrained weights from a folder or the hub, with a new classification head unless theirs is for these classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError

from troth.core import draws, hub
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models.encoder import Encoder, know_own_models
from troth.training.bases import Base, class_names
from troth.training.bases._heads import name_outputs


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
            raise TrothError(f"{self.path} is a folder without config.json, so no model to start from")
        if not folder.is_dir() and (
            folder.is_file() or self.path.startswith((".", "/", "~")) or self.path.count("/") > 1
        ):
            raise TrothError(f"there is no model folder {self.path}")

    def build(self, examples: Sequence[Example], labels: tuple[str, ...], seed: int, max_length: int | None) -> Encoder:
        from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

        self.require()
        hub.require(self.path, "to train it")
        know_own_models(Path(self.path))
        with draws.seeded(draws.key(seed, "new weights")):
            try:
                tokenizer = AutoTokenizer.from_pretrained(self.path)
                before = AutoConfig.from_pretrained(self.path).id2label
                model = AutoModelForSequenceClassification.from_pretrained(
                    self.path,
                    **class_names(labels),
                    dtype=torch.float32,
                    use_safetensors=True,
                    ignore_mismatched_sizes=True,  # a head for other classes is replaced
                )
            except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
                reason = str(error).strip().split("\n")[0]
                raise TrothError(f"cannot load {self.path} to train it: {reason}") from None
            name_outputs(model, [str(before[index]) for index in sorted(before)], labels)
        if tokenizer.pad_token_id is None:
            raise TrothError(
                f"{self.path} has no padding token, which mini-batches need; give its tokenizer one and save it"
            )
        model.config.pad_token_id = tokenizer.pad_token_id
        return Encoder(model, tokenizer, name=self.path, max_length=max_length)
