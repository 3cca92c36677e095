"""What adapters share: one text as ids, and the model's answer with some of its tokens erased.

Libraries that know nothing of texts (Captum, shapiq, SOLVE-X) are handed tensors or functions; how they are made is
written here as their tutorials do it, so only what the library itself computes is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch


def claiming(
    *claims: str, of: str = "logit", tolerance: float = 0.0, left_out: Mapping[str, str] | None = None
) -> Callable[[Any], Any]:
    """What the library's documentation says about a method, and the properties that do not apply, with the reason."""

    def mark(function: Any) -> Any:
        function.claims, function.of, function.tolerance = claims, of, tolerance
        function.left_out = left_out or {}
        return function

    return mark


def single(text: Any) -> str:
    if not isinstance(text, str):
        raise NotImplementedError("takes one text, no pairs")
    return text


class Encoded:
    """A batch of texts, padded by the tokenizer."""

    def __init__(self, tokenizer: Any, texts: list[Any]) -> None:
        self.tokenizer = tokenizer
        firsts = [text if isinstance(text, str) else text[0] for text in texts]
        seconds = None if isinstance(texts[0], str) else [text[1] for text in texts]
        given = tokenizer(
            firsts, seconds, return_tensors="pt", truncation=True, return_offsets_mapping=True,
            padding=len(texts) > 1, return_special_tokens_mask=True,
        )  # fmt: skip
        self.rows = [given.encodings[row] for row in range(len(texts))]
        given.pop("offset_mapping")
        self.special = given.pop("special_tokens_mask").bool()
        self.inputs = dict(given)
        self.ids = given["input_ids"].long()
        self.others = {name: value for name, value in self.inputs.items() if name != "input_ids"}

    @property
    def reference(self) -> torch.Tensor:
        """Every token masked but the special ones."""
        return torch.where(self.special, self.ids, self.erasing)

    @property
    def erasing(self) -> int:
        """The id that erases a token."""
        for number in (self.tokenizer.mask_token_id, self.tokenizer.pad_token_id, self.tokenizer.unk_token_id):
            if number is not None:
                return int(number)
        raise NotImplementedError("needs a token that erases others")

    def scored(self, scores: Any) -> list[list[tuple[tuple[int, int], float]]]:
        """[rows, length] as spans with scores, of the first text."""
        return [
            [
                (span, float(scores[row][place]))
                for place, (span, owner) in enumerate(zip(encoding.offsets, encoding.sequence_ids, strict=True))
                if owner == 0
            ]
            for row, encoding in enumerate(self.rows)
        ]


class Players:
    """One text as a game: its words' tokens are players, erased ones are masked."""

    def __init__(self, model: Any, tokenizer: Any, text: Any, target: int) -> None:
        self.model, self.target, self.batch = model, target, Encoded(tokenizer, [text])
        owners = self.batch.rows[0].sequence_ids
        self.places = [place for place, owner in enumerate(owners) if owner == 0]
        self.count = len(self.places)

    def logits(self, keep: Any) -> torch.Tensor:
        """[rows, players] -> [rows, classes]"""
        keep = torch.as_tensor(np.asarray(keep, dtype=bool))
        ids = self.batch.ids.repeat(len(keep), 1)
        inside = ids[:, self.places]
        ids[:, self.places] = torch.where(keep, inside, self.batch.erasing)
        others = {name: value.repeat(len(keep), 1) for name, value in self.batch.others.items()}
        with torch.no_grad():
            return self.model(input_ids=ids, **others).logits

    def values(self, keep: Any) -> np.ndarray:
        """The class's logit. [rows, players] -> [rows]"""
        return self.logits(keep)[:, self.target].float().numpy().astype(float)

    def spans(self, scores: Any) -> list[tuple[tuple[int, int], float]]:
        offsets = self.batch.rows[0].offsets
        return [(offsets[place], float(score)) for place, score in zip(self.places, scores, strict=True)]


def probabilities(model: Any, tokenizer: Any) -> Callable[[list[str]], np.ndarray]:
    """Texts to probabilities, as users of black-box explainers write it."""

    def predict(texts: list[str]) -> np.ndarray:
        batches = [list(texts)] if tokenizer.pad_token else [[text] for text in texts]
        with torch.no_grad():
            given = [tokenizer(each, return_tensors="pt", truncation=True, padding=len(each) > 1) for each in batches]
            logits = torch.cat([model(**inputs).logits for inputs in given]).float()
        several = model.config.problem_type == "multi_label_classification"
        return (logits.sigmoid() if several else logits.softmax(-1)).numpy()

    return predict
