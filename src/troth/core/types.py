"""The core types: the encoding of an example, a question about it, an explanation and its score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth import core
from troth.core import draws
from troth.core.display import Shown, counted
from troth.core.example import Example as Example
from troth.core.example import LabelSet as LabelSet
from troth.core.example import is_unicode as is_unicode
from troth.core.outputs import THRESHOLD, Outputs
from troth.core.proof import Proof
from troth.core.units import Span, UnitKind

if TYPE_CHECKING:
    from troth.maskings import Masking
    from troth.models import TextClassifier

Scores = NDArray[np.float32]
PROMPT = -2  # the unit index of a prompt's tokens, which no masking changes


@dataclass(frozen=True, eq=False, repr=False)
class Encoding(Shown):
    """One example as tokens of one model, without padding."""

    example: Example
    ids: Tensor  # [length]
    units: Tensor  # [length] unit of each token; below 0 = never erased (PROMPT: not moved by path methods either)
    unit_texts: tuple[str, ...]
    unit_spans: tuple[Span, ...]  # characters in the original text
    unit_segments: tuple[int, ...]  # 0 = in text, 1 = in text_pair, 2 + i = shot i of a prompt
    token_types: Tensor | None = None  # [length]
    prefix_length: int = 0  # tokens of a prompt before the text, shared by all erased inputs
    truncated: int = 0  # units that were cut off at the end of the text
    tokenized: bool = True  # False: ids are the indices of the units, for a model without a vocabulary
    # The parts of a prompt in order: (None, text) for fixed text, (index, "") for a segment of `unit_segments`.
    around: tuple[tuple[int | None, str], ...] = ()
    unit_kind: str = "word"  # token, word, sentence, passage, or span (given by the user)
    written: tuple[tuple[int, str], ...] = ()  # id and text of each token of the continuation that is explained
    asked: tuple[int, Span] | None = None  # the token whose label is explained, and the characters of its word
    readable: bool = True  # False: stored without the model's tokens, so it can be shown but not read by the model

    @property
    def n_units(self) -> int:
        return len(self.unit_texts)

    @property
    def n_tokens(self) -> int:
        return self.ids.shape[0]

    @cached_property
    def tokens_per_unit(self) -> NDArray[np.int64]:
        """[units] The number of tokens of each unit."""
        units = self.units.numpy()
        return np.bincount(units[units >= 0], minlength=self.n_units)

    @property
    def tokenless(self) -> Tensor:
        """[units] True for units without a token."""
        return torch.from_numpy(self.tokens_per_unit == 0)

    @cached_property
    def has_tokenless(self) -> bool:
        return 0 in self.tokens_per_unit.tolist()

    def _line(self) -> str:
        return f"of {self.example.id!r}: {counted(self.n_tokens, 'token')}, {counted(self.n_units, self.unit_kind)}"

    @property
    def about(self) -> str:
        """Describes the word whose label is explained."""
        if self.asked is None:
            return ""
        start, end = self.asked[1]
        return f"about the word {self.example.text[start:end]!r} at character {start}"

    def per_token(self, keep: Tensor, others: float = 1.0) -> Tensor:
        """[rows, units] -> [rows, length]; tokens outside all units get `others`."""
        return spread(keep, self.units.expand(len(keep), -1), others)

    def per_unit(self, scores: Tensor) -> Tensor:
        """[length] -> [units] Sums token scores into units, which preserves completeness."""
        return gather_units(scores[None], self.units[None], self.n_units)[0]


def spread(keep: Tensor, units: Tensor, others: float | Tensor = 1.0) -> Tensor:
    """Gives each token the value of its unit. [rows, units], [rows, length] -> [rows, length]"""
    # A fill on the device is asynchronous; copying a number to it would wait for everything in progress.
    beside = others.expand(len(keep), 1) if isinstance(others, Tensor) else keep.new_full((len(keep), 1), others)
    padded = torch.cat([keep, beside.to(keep.dtype)], dim=1)
    return padded.gather(1, torch.where(units < 0, keep.shape[1], units))


def gather_units(scores: Tensor, units: Tensor, n_units: int) -> Tensor:
    """Sums token scores into units. [rows, length, ...], [rows, length] -> [rows, units, ...]"""
    sums = scores.new_zeros(len(scores), n_units + 1, *scores.shape[2:])
    index = torch.where(units < 0, n_units, units).reshape(*units.shape, *[1] * (scores.dim() - 2))
    return sums.scatter_add(1, index.expand_as(scores), scores)[:, :n_units]


@dataclass(frozen=True, eq=False, repr=False)
class Question(Shown):
    """Which class is explained (perhaps against another), for an input of which some units may already be erased."""

    encoding: Encoding
    target: int
    against: int | None = None
    base: Tensor | None = None  # [units] 1 = still present; None = all units
    erased_by: Masking | None = None  # the masking that erased the missing units
    seed: int = 0

    @property
    def n_units(self) -> int:
        return self.encoding.n_units

    @property
    def left(self) -> Tensor:
        """[units] How much of each unit is still present."""
        return torch.ones(self.n_units) if self.base is None else self.base

    def _line(self) -> str:
        against = "" if self.against is None else f" rather than {self.against}"
        return f"about class {self.target}{against} of {self.encoding!r}"

    def erased(self, base: Tensor, by: Masking) -> Question:
        """The same question about an input in which only `base` is left."""
        return replace(self, base=base, erased_by=by)

    def draws(self, purpose: str) -> draws.Draws:
        """Random numbers for one purpose on this question; different for each `base`."""
        left = "" if self.base is None else self.base.numpy().tobytes().hex()
        return draws.Draws(draws.key(self.seed, self.encoding.example.id, purpose, left))


@dataclass(frozen=True, eq=False, repr=False)
class Attribution(Shown):
    """One score per unit: how much the unit pushes toward the target."""

    question: Question
    scores: Scores  # [units]
    signed: bool
    rest: float = 0.0  # score of the tokens outside all units
    gap: float | None = None  # by how much the scores of a path method miss the difference they should sum to
    explainer: str = ""  # spec of the explainer
    model: str = ""  # fingerprint of the model
    labels: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()  # on the whole input; values for models that return values
    outputs: Outputs = "classes"  # what the model's outputs mean
    threshold: float = THRESHOLD  # the probability above which a label is predicted
    note: str = ""
    proof: Proof | None = None  # the result of `troth.prove`

    def __post_init__(self) -> None:
        scores = self.scores.detach().cpu().numpy() if isinstance(self.scores, Tensor) else self.scores
        object.__setattr__(self, "scores", np.asarray(scores, dtype=np.float32))

    @property
    def example(self) -> Example:
        return self.question.encoding.example

    @property
    def target(self) -> int:
        return self.question.target

    @property
    def units(self) -> tuple[str, ...]:
        return self.question.encoding.unit_texts

    @property
    def spans(self) -> tuple[Span, ...]:
        return self.question.encoding.unit_spans

    def label(self, index: int | None) -> str:
        """The name of a class."""
        return "" if index is None else self.labels[index] if index < len(self.labels) else str(index)

    @property
    def is_predicted(self) -> bool:
        """Whether the model predicts the target: it is the predicted class, or a label above the threshold."""
        if not self.probabilities or self.outputs == "values":
            return False
        if self.outputs == "labels":
            return self.probabilities[self.target] > self.threshold
        return int(np.argmax(self.probabilities)) == self.target

    def magnitude(self) -> Attribution:
        """Absolute scores: how much each unit matters in either direction. Their ranking differs, so the proof is
        dropped.
        """
        return replace(self, scores=np.abs(self.scores), signed=False, proof=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; undefined scores become None."""
        from troth.core.plain import attribution_to_dict

        return attribution_to_dict(self)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any], model: TextClassifier | None = None) -> Attribution:
        """Rebuilds an attribution from `to_dict`. Without the model it can be read and shown, but not measured or
        proved.
        """
        from troth.core.plain import attribution_from_dict

        return attribution_from_dict(facts, model)

    @classmethod
    def from_scores(
        cls,
        model: TextClassifier,
        example: Example | str | tuple[str, str],
        scores: Sequence[float] | Scores | Tensor,
        *,
        spans: Sequence[Span] | None = None,
        tokens: Sequence[str] | None = None,
        target: str | int | Mapping[str, Any] = "predicted",
        units: UnitKind = "word",
        signed: bool | None = None,
    ) -> Attribution:
        """An explanation from another tool, to be measured: one score per character span, token or unit."""
        attribution: Attribution = core.rooms["import_scores"]().import_scores(
            model, example, scores, spans=spans, tokens=tokens, target=target, units=units, signed=signed
        )
        return attribution

    def _line(self) -> str:
        line: str = core.rooms["showing"]().attribution_line(self)
        return line

    def _parts(self) -> Iterator[str]:
        yield from core.rooms["showing"]().attribution_parts(self)


@dataclass(frozen=True)
class Score:
    """The result of a metric for one explanation."""

    value: float  # NaN = undefined; `why` gives the reason
    # Data that a summary needs: predictions per ratio, tp/fp/fn and others.
    record: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Rows(Shown):
    """A batch of erased inputs as tensors, of one or several examples, padded on the right."""

    encodings: Sequence[Encoding]  # one per row
    ids: Tensor  # [rows, length]
    units: Tensor  # [rows, length] unit of each token, below 0 = none
    lengths: Tensor  # [rows]
    target: Tensor  # [rows]
    against: Tensor  # [rows] -1 = none
    keys: Tensor  # [rows] keys of the random generators
    token_types: Tensor | None = None  # [rows, length]
    prompt_is_fixed: bool = False  # no gradient with respect to the prompt's vectors is needed
    embeddings: Tensor | None = None  # [rows, length, hidden] word vectors, if they are no longer those of the ids
    attention: Tensor | None = None  # [rows, length] added to the attention logits of each key, in every layer
    output_factor: Tensor | None = None  # [rows, length, hidden] multiplies the output of the embedding layer
    asked: Tensor | None = None  # [rows, length] True at the token whose label is explained (token classifiers)
    kept: Tensor | None = None  # [rows, units] how much of each unit is left; None = everything
    # Known on the host, so that nothing has to wait for the device; None = read it from the device.
    width: int | None = None  # length of the longest row after erasing
    is_even: bool | None = None  # whether all rows have that length
    lengths_after: NDArray[np.int64] | None = None  # [rows] length of each row after erasing
    side_model_rows: int = 0  # rows that another model has read in order to erase units in these

    def __len__(self) -> int:
        return len(self.ids)

    def _line(self) -> str:
        return f"of {counted(len(self.ids), 'erased input')}, {counted(self.ids.shape[1], 'token')} wide"

    @property
    def real(self) -> Tensor:
        """[rows, length] True for tokens, False for padding."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]

    @property
    def is_padded(self) -> bool:
        """Whether some row is shorter than the width of the batch."""
        if self.is_even is None or self.width != self.ids.shape[1]:
            return not bool((self.lengths == self.ids.shape[1]).all())
        return not self.is_even

    @property
    def known_lengths(self) -> list[int]:
        """The lengths on the host, without waiting for the device if they are known there."""
        if not self.is_padded:
            return [self.ids.shape[1]] * len(self)
        after = self.lengths_after
        # Code that replaces the rows or tokens of this object does not update the known lengths.
        is_known = after is not None and len(after) == len(self) and self.width == self.ids.shape[1]
        lengths: list[int] = (after if is_known else self.lengths).tolist()  # type: ignore[union-attr]
        return lengths

    def vectors(self, model: TextClassifier) -> Tensor:
        """[rows, length, hidden] The current word vectors."""
        return model.embed(self.ids) if self.embeddings is None else self.embeddings
