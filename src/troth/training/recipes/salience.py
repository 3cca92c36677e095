"""SaLoss (Chrysostomou & Aletras, 2021): cross-entropy + λ · KL(α, σ), so that attention learns to follow what is
salient in the text. The paper reports more faithful attention; docs/papers/saloss/results.md does not find it.

α is what [CLS] attends to in the last layer, mean over heads (in a BiLSTM its attention, in a decoder that of the last
position), restricted to the text's tokens and renormalized; σ is (salience + 1e-8) over its sum, fixed before training.
`source` is text_rank, tf_idf, chi_squared, uniform, or a file of scores as `troth explain --json` writes it. Together
with `masked`, an erased token's place keeps its salience and a deleted one's is shared out. As in the paper's code, α
is read behind the attention's dropout. `variant="released"` is that code's loss: both softmaxed again, the divergences
summed over the mini-batch (those of one pass) and squared, TextRank with a window of 8 and two steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from troth import salience
from troth.core import reading
from troth.core.errors import TrothError
from troth.core.types import Encoding, Example, Rows
from troth.core.units import join
from troth.engine.probes import at_least_single
from troth.models import Output, TextClassifier
from troth.salience import pieces
from troth.training.corpus import Corpus
from troth.training.recipes import Recipe

NAMES = ("text_rank", "tf_idf", "chi_squared", "uniform")
WEIGHTS = (1e-2, 1e-3, 1e-4)  # what the paper searches
_USUAL = 1e-3  # the paper's choice for three of its five data sets
_TINY = 1e-30  # avoids log(0) and the gradient through it


@dataclass(frozen=True)
class Salience(Recipe):
    attentions: ClassVar[bool] = True

    source: str = "text_rank"
    weight: float | None = None  # λ; None: the paper's value for the data with --like saloss, else 1e-3
    variant: Literal["paper", "released"] = "paper"

    # Set by `prepare`; not an option, so it is neither shown nor compared.
    fitted: Saliences | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.source not in NAMES and not self.source.endswith((".jsonl", ".json")):
            raise TrothError(
                f"salience: source must be {', '.join(NAMES)} or a file of scores (.jsonl, .json), not {self.source!r}"
            )
        if self.weight is not None and not 0 <= self.weight < float("inf"):
            raise TrothError(f"salience: weight (λ) must be 0 or more, not {self.weight}")

    @property
    def strength(self) -> float:
        """λ."""
        return _USUAL if self.weight is None else self.weight

    def prepare(self, model: TextClassifier, encodings: Sequence[Encoding]) -> Self:
        _require_attentions(model, encodings)
        values = self._of_each(encodings)
        found = Saliences(encodings, values, reads_first=not model.reads_last)
        return replace(self, weight=self.strength, fitted=found)

    def penalty(self, output: Output, rows: Rows) -> Tensor:
        if self.fitted is None:
            raise TrothError("salience is computed from the training data: call prepare(model, encodings) first")
        weights = at_least_single(output.attentions[-1])  # [rows, heads, queries, length]
        if self.fitted.reads_first:
            attention = weights[:, :, 0].mean(1)
        else:
            attention = weights[torch.arange(len(rows), device=weights.device), :, rows.lengths - 1].mean(1)
        sigma, inside = self.fitted.of(rows).to(attention.dtype), rows.units >= 0
        if self.variant == "released":
            return self.strength * released_divergence(attention, sigma, inside).square().expand(len(rows))
        return self.strength * divergence(attention, sigma, inside)

    def files(self) -> tuple[str, ...]:
        return () if self.source in NAMES else (self.source,)

    def _of_each(self, encodings: Sequence[Encoding]) -> list[Tensor]:
        """The salience of every token of each text, one tensor [length] per text; 0 for tokens in no unit."""
        if not any(encoding.n_units for encoding in encodings):
            raise TrothError("salience needs training texts with words; all of them are empty")
        empty = sum(encoding.n_units == 0 for encoding in encodings)
        if empty:
            warnings.warn(f"{empty:,} training texts are empty, so they have no salience", stacklevel=2)
        if self.source not in NAMES:
            stored = _read_scores(self.source)
            return [_scores_of_tokens(stored, encoding, self.source) for encoding in encodings]
        found = [pieces(encoding) for encoding in encodings]
        texts = [names for _, names in found]
        if self.source != "uniform" and len({name for names in texts for name in names}) == 1:
            raise TrothError(
                f"salience: the training texts repeat one and the same token, so {self.source} gives every "
                "word the same salience;"
                " train on other texts, or use salience(source=uniform)"
            )
        labels = [str(encoding.example.label) for encoding in encodings]
        measure = salience.fit_salience(self.source, texts, labels)
        if self.source == "text_rank" and self.variant == "released":
            measure = partial(salience.text_rank, window=8, steps=2)
        scores = []
        for encoding, (inside, names) in zip(encodings, found, strict=True):
            values = torch.zeros(len(encoding.ids), dtype=torch.float64)
            values[inside] = torch.from_numpy(np.asarray(measure(names), np.float64))
            scores.append(values.masked_fill(encoding.units < 0, 0))
        return scores


class Saliences:
    """σ of all training examples in one flat tensor, from which a mini-batch is gathered in one operation."""

    def __init__(self, encodings: Sequence[Encoding], values: Sequence[Tensor], *, reads_first: bool) -> None:
        self.reads_first = reads_first  # [CLS] rather than the last position
        counts = torch.tensor([encoding.n_units for encoding in encodings])
        self._starts = counts.cumsum(0) - counts
        self._places: dict[Example, int] = {encoding.example: place for place, encoding in enumerate(encodings)}
        parts = [_normalized(encoding, scores) for encoding, scores in zip(encodings, values, strict=True)]
        self._flat = torch.cat([*parts, torch.zeros(1, dtype=torch.float64)])  # [units of all examples + 1]

    def of(self, rows: Rows) -> Tensor:
        """[rows, length] σ of each token, 0 for tokens in no unit."""
        device = rows.units.device
        if self._flat.device != device:
            self._flat = self._flat.to(device)
        index = torch.tensor([self._places[encoding.example] for encoding in rows.encodings])
        places = self._starts[index].to(device, non_blocking=True)[:, None] + rows.units.clamp(min=0)
        return self._flat[places].masked_fill(rows.units < 0, 0)


def divergence(attention: Tensor, sigma: Tensor, inside: Tensor) -> Tensor:
    """KL(α, σ) = Σ α (log α − log σ) over the tokens inside, both renormalized over them. [rows, length] -> [rows]

    >>> divergence(torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[0.0, 0.25, 0.75]]), torch.tensor([[0, 1, 1]]) > 0)
    tensor([0.1438])
    """
    alpha, sigma = _restricted(attention, inside), _restricted(sigma, inside)
    return (alpha * (alpha.clamp(min=_TINY).log() - sigma.clamp(min=_TINY).log())).sum(-1)


def released_divergence(attention: Tensor, sigma: Tensor, inside: Tensor) -> Tensor:
    """The divergence of the released code: softmax of both, summed over the rows. [rows, length] -> []"""
    lowest = torch.finfo(attention.dtype).min
    alpha, sigma = (part.masked_fill(~inside, lowest).log_softmax(-1) for part in (attention, sigma))
    return torch.where(inside, alpha.exp() * (alpha - sigma), 0).sum()


def _restricted(values: Tensor, inside: Tensor) -> Tensor:
    kept = torch.where(inside, values, 0)
    return kept / kept.sum(-1, keepdim=True).clamp(min=_TINY)


def _normalized(encoding: Encoding, scores: Tensor) -> Tensor:
    """σ of the tokens of each unit. [length] -> [units]"""
    tokens = torch.bincount(encoding.units[encoding.units >= 0], minlength=encoding.n_units)
    each = encoding.per_unit(scores.double()) / tokens.clamp(min=1)
    return torch.from_numpy(salience.normalize(each.numpy()))


def _require_attentions(model: TextClassifier, encodings: Sequence[Encoding]) -> None:
    """Checks once, before a long training, that the model returns attention weights."""
    line = f"{model.name} gives no attention weights, which salience guides; use another base, or the recipe plain"
    corpus = Corpus(encodings[:1], [0] * len(encodings[:1])).to(model.device)
    if not len(corpus):
        return
    try:
        with torch.no_grad():
            rows = corpus.rows(torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), model)
            weights = model.forward(rows, attentions=True).attentions
    except (TrothError, TypeError, ValueError, NotImplementedError):
        raise TrothError(line) from None
    length = rows.ids.shape[1]
    if not weights or weights[-1].dim() != 4 or weights[-1].shape[-1] != length:
        raise TrothError(line)


def _read_scores(path: str) -> dict[str, Mapping[str, Any]]:
    """Reads scores as salience: attributions as `troth explain --json` writes them, in an array or one per line.

    Returns, by example id, the spans, the segment of each (0, or 1 for a second text) and their weights.
    """
    try:
        text = reading.text(path, reading.DATA)
        lines = text.splitlines()
        rows = reading.parse_json(text) if text.lstrip().startswith("[") else [*map(reading.parse_json, lines)]
    except OSError as error:
        raise TrothError(f"cannot read the scores in {path}: {error.strerror}") from None
    except reading.ExcessError as error:
        raise TrothError(f"{path} {error}") from None
    except ValueError:
        raise TrothError(
            f"{path} is not a file of scores: it contains neither a JSON array nor one object per line"
        ) from None
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or not {"id", "spans", "scores"} <= row.keys():
            raise TrothError(f"{path}: entry {number} lacks id, spans or scores; write the file with troth explain")
        if len(row["spans"]) != len(row["scores"]):
            counts = f"{len(row['scores'])} scores for {len(row['spans'])} spans"
            raise TrothError(f"{path}: entry {number} has {counts}; give one per span")
    return {str(row["id"]): row for row in rows}


def _scores_of_tokens(stored: Mapping[str, Mapping[str, Any]], encoding: Encoding, path: str) -> Tensor:
    """[length] the absolute score of each unit, divided among its tokens; 0 for tokens in no unit."""
    row = stored.get(encoding.example.id)
    if row is None:
        raise TrothError(f"{path} has no scores of example {encoding.example.id}; explain all training examples")
    values = np.abs(np.array([0.0 if score is None else score for score in row["scores"]], np.float64))
    segments = np.array(row.get("segments") or [0] * len(values))
    of_unit = np.zeros(encoding.n_units)
    for segment in (0, 1):
        ours = [unit for unit, place in enumerate(encoding.unit_segments) if place == segment]
        theirs = np.flatnonzero(segments == segment)
        if not ours or not len(theirs):
            continue
        joined = theirs[join([encoding.unit_spans[unit] for unit in ours], [row["spans"][unit] for unit in theirs])]
        of_unit[ours] = values[joined] / np.bincount(joined, minlength=len(values))[joined]
    tokens = torch.bincount(encoding.units[encoding.units >= 0], minlength=encoding.n_units).clamp(min=1)
    return encoding.per_token((torch.from_numpy(of_unit) / tokens)[None], others=0.0)[0]
