"""What every peer needs: the model as its user has it, and one text as ids."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from inputs import SIZES, class_words, make_prompt
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

BATCH = 32


def prompt_of(folder: str) -> tuple[str, list[str]]:
    """The prompt of a causal model and its class words; none of others."""
    size = SIZES[folder.rsplit("/", 1)[-1]]
    return (make_prompt(size), class_words(size)) if size.causal else ("", [])


class Peer:
    """A method per work: given one text and the work's options it returns one score per token."""

    def __init__(self) -> None:
        self.loaded: dict[str, tuple[Any, Any]] = {}
        self.setting = ""

    def prepare(self, work: str, model: str, texts: list[str], setting: str, options: dict[str, Any]) -> Callable:
        """Loads what is not timed and returns what is."""
        self.load(model)
        self.setting = setting
        seed = options.pop("seed", 0)
        np.random.seed(seed)
        torch.manual_seed(seed)
        method = getattr(self, work)
        before = getattr(self, f"before_{work}", None)
        given = [before(text) for text in texts] if before else texts
        return partial(self.all_texts, method, given, options)

    def all_texts(self, method: Callable, given: list[Any], options: dict[str, Any]) -> list[Any]:
        return [method(one, **options) for one in given]

    def reply(self, scores: list[Any]) -> dict[str, Any]:
        return {"scores": [np.asarray(row, dtype=float).reshape(-1).tolist() for row in scores]}

    def load(self, folder: str) -> None:
        if folder not in self.loaded:
            kind = AutoModelForCausalLM if prompt_of(folder)[0] else AutoModelForSequenceClassification
            self.loaded[folder] = kind.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
        self.folder = folder
        self.model, self.tokenizer = self.loaded[folder]
        self.embeddings = self.model.get_input_embeddings()

    def read(self, text: str) -> tuple[torch.Tensor, int]:
        """The ids of one text and the class it gets."""
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
        return ids, int(self.logits(ids)[0].argmax())

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.cat([self.model(input_ids=part).logits for part in ids.split(BATCH)])

    def of_vectors(self, vectors: torch.Tensor) -> torch.Tensor:
        return self.model(inputs_embeds=vectors).logits

    def kept(self, ids: torch.Tensor, keep: np.ndarray) -> torch.Tensor:
        """The text with the mask token where `keep` is 0. [1, 2 + tokens], [rows, tokens] -> [rows, 2 + tokens]"""
        rows = ids.repeat(len(keep), 1)
        rows[:, 1:-1][torch.from_numpy(np.asarray(keep) < 0.5)] = self.tokenizer.mask_token_id
        return rows

    def reference(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids with every token masked."""
        return self.kept(ids, np.zeros((1, ids.shape[1] - 2)))
