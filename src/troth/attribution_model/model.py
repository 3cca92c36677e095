"""The attribution model G: a backbone that reads the text and what F predicts of it, and a score for every token.

The prediction is one more token after the text: y = z₀ + Σ pⱼ zⱼ, whose own score is dropped. The backbone's embedding
layer stays as it is. G may have another tokenizer than F, so it reads its own tokens, and knows which of them lie in
each of F's units. A unit takes the highest score of G's tokens that share a character with it, so a token over several
units gives each its score. A unit that no token of G reaches (G reads less far, say) has score 0. Where a unit of the
input is erased already, G sees its own mask token there, or nothing where the masking deleted it.
"""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.utils.rnn import pad_sequence

from troth.core import draws, hub
from troth.core.errors import TrothError
from troth.core.types import Encoding, Rows
from troth.models import TextClassifier, _pretrained, families
from troth.models._encoding import encode
from troth.models.targets import require_exclusive

Variant = Literal["paper", "released"]
NEVER = -1e4  # a score before the sigmoid that is 0 after it


@dataclass(frozen=True, eq=False)
class ReadText:
    """One example as G reads it."""

    ids: Tensor  # [length]
    types: Tensor  # [length]
    reach: Tensor  # [units, width] indices of the tokens in each unit, padded with -1


@dataclass(frozen=True, eq=False)
class ReadBatch:
    """A batch of examples, with a position for the prediction after each text."""

    ids: Tensor  # [rows, length]
    types: Tensor  # [rows, length]
    real: Tensor  # [rows, length] the attention mask
    label: Tensor  # [rows, length] True at the position of the prediction
    reach: Tensor  # [rows, units, width]
    present: Tensor  # [rows, units] False at padding and for units without a token of F

    def per_unit(self, scores: Tensor) -> Tensor:
        """The highest value among each unit's tokens. [rows, length] -> [rows, units]"""
        found = scores.gather(1, self.reach.clamp(min=0).flatten(1)).view_as(self.reach)
        return found.masked_fill(self.reach < 0, NEVER).amax(-1)

    def take(self, part: slice) -> ReadBatch:
        """Some of the rows."""
        return ReadBatch(*(each[part] for each in vars(self).values()))

    def to(self, device: torch.device) -> ReadBatch:
        return ReadBatch(*(each.to(device) for each in vars(self).values()))


class AttributionModel(nn.Module):
    """Scores before the sigmoid, one per token; the label encoding is frozen during fine-tuning on one example."""

    def __init__(self, backbone: Any, tokenizer: Any, labels: tuple[str, ...], variant: Variant = "paper") -> None:
        super().__init__()
        config = backbone.config
        if not families.reads_both_ways(config):
            raise TrothError(
                f"a {config.model_type} model does not read in both directions, as an attribution model must; "
                "use a BERT-like backbone: --backbone FOLDER"
            )
        self.backbone, self.tokenizer, self.labels, self.variant = backbone, tokenizer, labels, variant
        if getattr(backbone, "pooler", None) is not None:
            backbone.pooler = None  # its output is not used
        backbone.set_attn_implementation("eager")  # fused kernels cannot be mapped over examples
        words, size = backbone.get_input_embeddings().weight.shape[1], config.hidden_size
        spread = getattr(config, "initializer_range", 0.02)
        self.hidden = nn.Linear(size, size)
        self.score = nn.Linear(size, 1)
        self.prediction = nn.Parameter(torch.randn(words) * spread)  # z₀
        self.classes = nn.Parameter(torch.randn(len(labels), words) * spread)  # zⱼ
        for parameter in (getattr(backbone, "embeddings", None) or backbone.get_input_embeddings()).parameters():
            parameter.requires_grad_(False)
        self.fitted_to: str | None = None  # the fingerprint of the classifier, once G is fitted
        # Texts that were read before.
        self.texts: weakref.WeakKeyDictionary[Encoding, ReadText] = weakref.WeakKeyDictionary()

    @property
    def device(self) -> torch.device:
        return self.prediction.device

    @property
    def max_length(self) -> int:
        """The number of tokens that G reads, without the prediction."""
        config = self.backbone.config
        limits = [min(self.tokenizer.model_max_length, 10**6)]
        positions = getattr(config, "max_position_embeddings", None)
        if positions:
            limits.append(positions - (families.first_position(self.backbone) or 0) - 1)
        return int(min(limits))

    def require_fit(self, model: TextClassifier) -> None:
        """Refuses a model with other classes than G was fitted for; warns about another model with the same classes."""
        require_exclusive(model, "attributive_masking")
        if tuple(model.labels) != self.labels:
            raise TrothError(
                f"this attribution model was fitted for the classes {', '.join(self.labels)}, but {model.name} has "
                f"{', '.join(model.labels)}; fit one to it (troth fit attributive_masking), or use another explainer"
            )
        if self.fitted_to not in (None, model.fingerprint):
            warnings.warn(
                f"this attribution model was fitted to another model of these classes ({self.fitted_to}) than "
                f"{model.name} ({model.fingerprint}): its maps are that one's",
                stacklevel=2,
            )

    def label_vector(self, probabilities: Tensor) -> Tensor:
        """The prediction of F as one word vector, z₀ + Σ pⱼ zⱼ. [rows, classes] -> [rows, words]"""
        return self._label_vector(self.prediction, self.classes, probabilities)

    def _label_vector(self, prediction: Tensor, classes: Tensor, probabilities: Tensor) -> Tensor:
        mixed = probabilities.to(classes.dtype) @ classes
        return prediction + (mixed / len(self.labels) if self.variant == "released" else mixed)

    def forward(
        self, ids: Tensor, types: Tensor, real: Tensor, label: Tensor, label_vector: Tensor, *, mapped: bool = False
    ) -> Tensor:
        """Token ids, token types, attention mask and position of the prediction, [rows, length] each -> scores [rows,
        length]
        """
        vectors = self.backbone.get_input_embeddings()(ids)
        vectors = torch.where(label[..., None], label_vector[:, None], vectors)
        inputs: dict[str, Tensor] = {"inputs_embeds": vectors}
        if getattr(self.backbone.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = types
        elif mapped and hasattr(self.backbone.config, "type_vocab_size"):
            inputs["token_type_ids"] = torch.zeros_like(types)
        if mapped:
            # transformers inspects the values of a 2-D mask, which vmap does not allow; a 4-D mask is used as it is.
            lowest = torch.finfo(vectors.dtype).min
            bias = torch.zeros_like(vectors[..., 0]).masked_fill(~real, lowest)
            inputs["attention_mask"] = bias[:, None, None].expand(-1, 1, ids.shape[1], -1)
            if families.takes(self.backbone, "position_ids"):
                first = families.first_position(self.backbone) or 0
                inputs["position_ids"] = torch.arange(ids.shape[1], device=ids.device).expand_as(ids) + first
        else:
            inputs["attention_mask"] = real.long()
        states = self.backbone(**inputs).last_hidden_state
        found: Tensor = self.score(torch.tanh(self.hidden(states)))[..., 0]
        return found

    def scores(self, page: ReadBatch, probabilities: Tensor) -> Tensor:
        """Scores before the sigmoid, one per unit of F. [rows, units]"""
        return page.per_unit(self(page.ids, page.types, page.real, page.label, self.label_vector(probabilities)))

    def own_weights(self) -> dict[str, Tensor]:
        """The parameters that fine-tuning on one example changes: all trained ones but the label encoding."""
        kept = ("prediction", "classes")
        return {name: weight for name, weight in self.trained_weights().items() if name not in kept}

    def scores_of_each(self, weights: dict[str, Tensor], page: ReadBatch, label_vector: Tensor) -> Tensor:
        """As `scores`, with separate weights for every row, [rows, …] each."""
        inputs = (page.ids, page.types, page.real, page.label, label_vector)
        if self.backbone.config.model_type in families.MAPPED:

            def call(own: dict[str, Tensor], *one: Tensor) -> Tensor:
                rows = tuple(part[None] for part in one)
                found: Tensor = functional_call(self, own, rows, {"mapped": True})
                return found[0]

            return page.per_unit(vmap(call)(weights, *inputs))
        rows = [
            functional_call(
                self, {name: weight[row] for name, weight in weights.items()}, tuple(part[[row]] for part in inputs)
            )
            for row in range(len(label_vector))
        ]
        return page.per_unit(torch.cat(rows))

    def trained_weights(self) -> dict[str, Tensor]:
        """The parameters that fitting changes."""
        return {name: weight for name, weight in self.named_parameters() if weight.requires_grad}

    def scores_of_copies(self, weights: dict[str, Tensor], page: ReadBatch, probabilities: Tensor) -> Tensor:
        """As `scores`, for all rows with each of several sets of weights, [copies, …] each. [copies, rows, units]"""

        def call(own: dict[str, Tensor]) -> Tensor:
            label_vector = self._label_vector(own["prediction"], own["classes"], probabilities)
            inputs = (page.ids, page.types, page.real, page.label, label_vector)
            return page.per_unit(functional_call(self, own, inputs, {"mapped": True}))

        found: Tensor = vmap(call, randomness="different")(weights)  # every copy has its own dropout masks
        return found


def from_model(model: TextClassifier, seed: int, variant: Variant = "paper") -> AttributionModel:
    """Builds G on a copy of the explained model's encoder, as in the released code (see `start`)."""
    body, tokenizer = getattr(model.model, "base_model", None), model.tokenizer
    if body is None or tokenizer is None or not families.reads_both_ways(body.config):
        raise TrothError(
            f"{model.name} has no encoder that an attribution model could start from; name one: --backbone FOLDER, "
            "or aml(backbone=FOLDER) in a study"
        )
    with draws.seeded(draws.key(seed, "attribution model")):
        return AttributionModel(copy.deepcopy(body).float(), tokenizer, tuple(model.labels), variant).to(model.device)


def from_backbone(path: str, model: TextClassifier, seed: int, variant: Variant = "paper") -> AttributionModel:
    """Builds G on a pretrained encoder from a folder or the hub, with its own tokenizer."""
    hub.require(path, "as the backbone of an attribution model")
    with _pretrained.loading(f"{path} as the backbone of an attribution model"):
        backbone, _ = _pretrained.network_of("AutoModel", path, torch.float32)
        tokenizer = _pretrained.tokenizer_of(path)
    with draws.seeded(draws.key(seed, "attribution model")):
        return AttributionModel(backbone, tokenizer, tuple(model.labels), variant).to(model.device)


def read(model: AttributionModel, rows: Rows) -> ReadBatch:
    """The examples of the rows as G reads them, on its device."""
    page = read_whole(model, list(rows.encodings))
    if rows.kept is not None and bool((kept := rows.kept.cpu() == 0).any()):
        _erase(model, page, rows, kept)
    return page.to(model.device)


def read_whole(model: AttributionModel, encodings: Sequence[Encoding]) -> ReadBatch:
    """Whole texts as G reads them, on the CPU."""
    texts = _texts(model, encodings)
    lengths = torch.tensor([len(text.ids) for text in texts])
    steps = torch.arange(int(lengths.max()) + 1)
    filler = int(model.tokenizer.pad_token_id or 0)
    ids = pad_sequence([text.ids for text in texts], batch_first=True, padding_value=filler)
    types = pad_sequence([text.types for text in texts], batch_first=True)
    widest = max(1, *(encoding.n_units for encoding in encodings))
    reach = torch.full((len(texts), widest, max(1, *(text.reach.shape[1] for text in texts))), -1)
    present = torch.zeros(len(texts), widest, dtype=torch.bool)
    for row, (text, encoding) in enumerate(zip(texts, encodings, strict=True)):
        reach[row, : text.reach.shape[0], : text.reach.shape[1]] = text.reach
        present[row, : encoding.n_units] = ~encoding.tokenless
    return ReadBatch(
        torch.cat([ids, ids.new_full((len(ids), 1), filler)], dim=1),
        torch.cat([types, types.new_zeros(len(types), 1)], dim=1),
        steps <= lengths[:, None],
        steps == lengths[:, None],
        reach,
        present,
    )


def _erase(model: AttributionModel, page: ReadBatch, rows: Rows, erased: Tensor) -> None:
    """Tokens of erased units become the mask token or, if the masking shortened the row, are not attended to."""
    mask, lengths = model.tokenizer.mask_token_id, rows.lengths.tolist()
    for row, encoding in enumerate(rows.encodings):
        gone = torch.zeros(page.reach.shape[1], dtype=torch.bool)
        gone[: encoding.n_units] = erased[row, : encoding.n_units]
        places = page.reach[row][gone].flatten()
        places = places[places >= 0]
        if mask is None or lengths[row] < len(encoding.ids):
            page.real[row, places] = False
        else:
            page.ids[row, places] = mask
        page.present[row, gone] = False


def _texts(model: AttributionModel, encodings: Sequence[Encoding]) -> list[ReadText]:
    new = [encoding for encoding in dict.fromkeys(encodings) if encoding not in model.texts]
    examples = [encoding.example for encoding in new]
    for encoding, own in zip(new, encode(model.tokenizer, examples, "token", "both", model.max_length), strict=True):
        types = torch.zeros_like(own.ids) if own.token_types is None else own.token_types
        model.texts[encoding] = ReadText(own.ids, types, torch.from_numpy(_reach(encoding, own)))
    return [model.texts[encoding] for encoding in encodings]


def _reach(encoding: Encoding, own: Encoding) -> NDArray[np.int64]:
    """[units, width] indices of G's tokens that share a character with each unit of F, padded with -1."""
    places = np.empty(own.n_units, dtype=np.int64)
    at = np.flatnonzero(own.units.numpy() >= 0)
    places[own.units.numpy()[at]] = at
    units, tokens = (_spans(one) for one in (encoding, own))
    inside = (np.maximum(units[:, None, 1], tokens[:, 1]) < np.minimum(units[:, None, 2], tokens[:, 2])) | (
        units[:, None, 1:] == tokens[:, 1:]
    ).all(-1)  # a token without characters belongs to the unit with the same position
    inside &= units[:, None, 0] == tokens[:, 0]
    width = max(1, int(inside.sum(1).max(initial=0)))
    if own.n_units == 0:
        return np.full((len(units), width), -1)
    order = np.argsort(~inside, axis=1, kind="stable")[:, :width]
    return np.where(np.take_along_axis(inside, order, axis=1), places[order], -1)


def _spans(encoding: Encoding) -> NDArray[np.int64]:
    """[units, 3] segment, first character, and one past the last character."""
    spans = [(segment, *span) for segment, span in zip(encoding.unit_segments, encoding.unit_spans, strict=True)]
    return np.array(spans, dtype=np.int64).reshape(-1, 3)
