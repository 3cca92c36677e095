"""A masked language model beside the classifier: proposes tokens for the masked positions of a text."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.hashing import digest, tensors_digest
from troth.models._bases import place_of, pretrained_of
from troth.models._encoding import longest
from troth.models._loading import MASKED, bring
from troth.models.base import TextClassifier

_ON_CPU, _ON_GPU = 1 << 25, 1 << 30  # the most bytes that the logits of one call may take
_WITH_NOISE = 16  # bytes per logit, including the random number that is added to it


class MaskedLM:
    """Computes logits at masked positions only, because the head is by far the most expensive part for long rows."""

    def __init__(self, network: Any, tokenizer: Any, name: str) -> None:
        if tokenizer.mask_token_id is None:
            raise TrothError(f"{name} has no mask token, so it cannot infill; use a masked language model that has one")
        self.network = network.eval().requires_grad_(False)
        self.name = name
        self.mask_id = int(tokenizer.mask_token_id)
        self.max_length = longest(network, tokenizer, None, name)
        self.vocabulary: Mapping[str, int] = tokenizer.get_vocab()
        device = network.device
        self._special = torch.tensor(sorted(tokenizer.all_special_ids), device=device)
        self._tokens_per_call = max(1, (_ON_GPU if device.type == "cuda" else _ON_CPU) // self._bytes_per_token)
        self._lock = threading.Lock()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of its weights and of its tokenizer."""
        return digest([tensors_digest(self.network.state_dict()), sorted(self.vocabulary.items())])

    @property
    def _bytes_per_token(self) -> int:
        return _WITH_NOISE * int(self.network.config.vocab_size)

    def logits(
        self, ids: Tensor, real: Tensor, types: Tensor | None, where: Tensor
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yields some masked positions at a time: their rows, positions and [positions, vocabulary] logits; special
        tokens get −inf.

        A row without masked positions is not read.
        """
        if ids.shape[1] > self.max_length:
            raise TrothError(
                f"{self.name} reads {self.max_length} tokens, but a text has {ids.shape[1]}; load the classifier with "
                f"max_length={self.max_length}, or use a masked language model that reads longer texts"
            )
        counts = where.sum(1).tolist()
        for rows in _parts(counts, self._tokens_per_call):
            number = torch.tensor(rows, device=ids.device)
            given: dict[str, Any] = {"input_ids": ids[number], "attention_mask": real[number].long()}
            if types is not None and int(getattr(self.network.config, "type_vocab_size", 0) or 0) > 1:
                given["token_type_ids"] = types[number]
            at = where[number]
            own, position = at.nonzero(as_tuple=True)
            logits = self._read(given, at).float()
            logits[:, self._special] = -torch.inf
            yield number[own], position, logits

    def _read(self, given: Mapping[str, Any], at: Tensor) -> Tensor:
        """[positions, vocabulary]"""

        def only_there(module: Any, inputs: Any, output: Any) -> Any:
            # The heads treat all positions independently.
            output["last_hidden_state"] = output["last_hidden_state"][at][None]
            return output

        with self._lock, torch.no_grad():
            hook = self.network.base_model.register_forward_hook(only_there)
            try:
                logits: Tensor = self.network(**given, return_dict=True).logits
            finally:
                hook.remove()
        return logits[0]


def _parts(counts: list[int], most: int) -> Iterator[list[int]]:
    """Groups of row indices with a limited number of masked positions, without rows that have none."""
    part: list[int] = []
    total = 0
    for row, count in enumerate(counts):
        if part and total + count > most:
            yield part
            part, total = [], 0
        if count:
            part.append(row)
            total += count
    if part:
        yield part


@lru_cache(maxsize=4)
def load(name: str, device: str) -> MaskedLM:
    """Loads a folder or hub name; refuses a checkpoint without a trained language-model head."""
    network, tokenizer, _ = bring(place_of(name), None, MASKED, device=device)
    return MaskedLM(network, tokenizer, name)


# The default of each classifier, by name.
_USUAL: weakref.WeakKeyDictionary[TextClassifier, str] = weakref.WeakKeyDictionary()
_FITTING: weakref.WeakKeyDictionary[TextClassifier, weakref.WeakSet[MaskedLM]] = weakref.WeakKeyDictionary()


def masked_lm(name: str | None, model: TextClassifier) -> MaskedLM:
    """The masked language model of this name; by default the base of the classifier, or else the shipped model.

    It must have the classifier's vocabulary, because token ids are passed between them.
    """
    if model.tokenizer is None:
        raise model.lacks("tokens that a masked language model could infill", "use masking delete or mask_token")
    if name is None:
        name = _USUAL.get(model)
    chosen = _usual(model) if name is None else load(name, str(model.device))
    require_same_vocabulary(chosen, model)
    return chosen


def _usual(model: TextClassifier) -> MaskedLM:
    """The first candidate with a trained head and the classifier's vocabulary."""
    own = str(getattr(model.model, "name_or_path", "") or "")
    base = pretrained_of(own)[0] if own else None
    reasons = []
    for name in dict.fromkeys(filter(None, (base, own, "embedded"))):
        try:
            found = load(name, str(model.device))
            require_same_vocabulary(found, model)
        except TrothError as error:
            reasons.append(str(error).partition(";")[0])
            continue
        _USUAL[model] = name
        return found
    raise TrothError(
        f"infill needs a masked language model with the vocabulary of {model.name}, and none was found "
        f"({reasons[0]}); name one, such as the model it was fine-tuned from: use infill(model=FOLDER), or masking "
        "mask_token"
    )


def require_same_vocabulary(masked: MaskedLM, model: TextClassifier) -> None:
    """Refuses a masked language model with another vocabulary than the classifier's."""
    fitting = _FITTING.setdefault(model, weakref.WeakSet())
    if masked in fitting:
        return
    if masked.vocabulary != model.tokenizer.get_vocab():
        raise TrothError(
            f"infill: {masked.name} has another vocabulary than {model.name}; use a masked language model that has "
            "the classifier's own tokenizer, such as the one it was fine-tuned from"
        )
    fitting.add(masked)
