"""The inputs of a function under test: a model with its tokenizer, and what is known about both."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    AutoModelForSequenceClassification,
    BertConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
)

from troth.models._loading import quiet
from troth.refereeing import tokenizers
from troth.refereeing.known import LINEAR, SCALES, Game, KnownForSequenceClassification, Of, counts

Text = str | tuple[str, str]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Situation:
    """A model, its tokenizer, and an untouched copy of the tokenizer for reading the results."""

    name: str
    model: Any
    tokenizer: Any
    reader: Any
    scale: float = 1.0

    def ids(self, text: Text, *, truncation: bool = False) -> Any:
        """The encoding of a text or pair: ids, offsets, special tokens, and the text that each token belongs to."""
        first, second = (text, None) if isinstance(text, str) else text
        return self.reader(first, second, return_offsets_mapping=True, truncation=truncation)

    def value(self, text: Text, target: int, keep: Sequence[bool] | None = None) -> float:
        """A class's value for the kept tokens minus its value for no tokens."""
        with torch.no_grad():
            values = self.model.polynomial(torch.cat([self._counts(text, keep), 0 * self._counts(text)]))
        return self.scale * float(values[0, target] - values[1, target])

    def slopes(self, text: Text, target: int, share: float = 1.0) -> Floats:
        """[tokens] Derivatives of a class's value by each token's presence, with all tokens present to this share."""
        encoded = self.ids(text)
        given = (share * self._counts(text)).requires_grad_()
        (slope,) = torch.autograd.grad(self.model.polynomial(given)[0, target], given)
        size = len(self.reader)
        places = [
            number + size * (kind or 0) for number, kind in zip(encoded["input_ids"], self._types(encoded), strict=True)
        ]
        return self.scale * slope[0, places].double().numpy()

    def _counts(self, text: Text, keep: Sequence[bool] | None = None) -> torch.Tensor:
        encoded = self.ids(text)
        kept = [True] * len(encoded["input_ids"]) if keep is None else keep
        rows = zip(encoded["input_ids"], self._types(encoded), kept, strict=True)
        chosen = [(number, kind) for number, kind, stays in rows if stays]
        return counts([number for number, _ in chosen], [kind for _, kind in chosen], len(self.reader))

    def _types(self, encoded: Any) -> list[int]:
        return [kind or 0 for kind in encoded.sequence_ids()]


def known(
    of: Of = "logit",
    game: Game = LINEAR,
    tokenizer: Callable[[], Any] = tokenizers.wordpiece,
    *,
    multi_label: bool = False,
) -> Situation:
    """A classifier whose attributions are known in closed form."""
    own = tokenizer()
    model = KnownForSequenceClassification(game, own, of, multi_label=multi_label)
    kind = "product" if game.together else "linear"
    return Situation(f"a {kind} model, {own.__class__.__name__}", model, own, copy.deepcopy(own), SCALES[of])


def tiny(family: str = "bert", *, seed: int = 0) -> Situation:
    """A randomly initialized BERT or RoBERTa of transformers."""
    own = tokenizers.wordpiece() if family == "bert" else tokenizers.byte_level()
    kinds: dict[str, Any] = {"bert": BertConfig, "roberta": RobertaConfig}
    networks: Any = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    config = kinds[family](
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=tokenizers.LONGEST + 2,
        vocab_size=len(own),
        num_labels=3,
        pad_token_id=own.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = networks[type(config)](config)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, 0, 0.3)
    return Situation(f"a random {family}", model.eval(), own, copy.deepcopy(own))


def embedded() -> Situation:
    """The trained classifier that comes with troth, as any version of transformers loads it."""
    with as_file(files("troth.models") / "embedded_model") as folder, quiet():
        model = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=torch.float32, trust_remote_code=False
        ).eval()
        own: Any = PreTrainedTokenizerFast.from_pretrained(folder, trust_remote_code=False)
    return Situation("the embedded model", model, own, copy.deepcopy(own))
