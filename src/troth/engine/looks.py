"""What can be asked about an erased input: a Look goes to the prober, an Answer comes back.

An `Ask` is a generator that reads as sequential code about one example: it yields looks and returns its result.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import ClassVar, TypeAlias, TypeVar

import torch
from torch import Tensor

from troth.core import outputs as meaning
from troth.core.outputs import PREDICTED as PREDICTED
from troth.core.outputs import THRESHOLD, Outputs, value_of
from troth.core.outputs import Of as Of
from troth.core.outputs import at_least_single as at_least_single
from troth.core.types import PROMPT, Question, Rows
from troth.maskings import Masking
from troth.maskings.mix import Reference, reference_vector
from troth.models import TextClassifier

T = TypeVar("T")


@dataclass(frozen=True)
class Passes:
    """Rows that went through a model."""

    forward: int = 0
    backward: int = 0
    beside: int = 0  # through another model than the one explained, either way


@dataclass(frozen=True, eq=False)
class Reading:
    """What one batch gives, before the prober sums tokens into units and deals it out."""

    logits: Tensor  # [rows, classes]
    tokens: Mapping[str, Tensor] = field(default_factory=dict)  # [rows, length], 0 at padding
    rows: Mapping[str, Tensor] = field(default_factory=dict)  # [rows, ...]
    more: Passes = Passes()  # beyond the one pass of every row (and one backward, where that is wanted)


@dataclass(frozen=True)
class Want(ABC):
    """What is read off the model; equal wants share a batch. A method that needs its own defines it in its own file."""

    backward: ClassVar[bool] = False
    attentions: ClassVar[bool] = False  # needs the attention weights, so eager attention
    about_target: ClassVar[bool] = True  # what is read depends on the class asked about
    only_forward: ClassVar[bool] = False  # reads nothing but `model.forward`, so it may be what reads without padding
    remembered: ClassVar[bool] = True  # kept as long as the example is, should it be asked again

    def bytes_per_row(self, model: TextClassifier, length: int) -> int:
        """About what a row of so many tokens takes while it is read."""
        return model.bytes_per_row(length, backward=self.backward, attentions=self.attentions)

    @abstractmethod
    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        """One batch of rows, reduced on the device."""


@dataclass(frozen=True)
class Logits(Want):
    about_target = False
    only_forward = True

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        with torch.no_grad():
            return Reading(model.forward(rows).logits)


LOGITS = Logits()


@dataclass(frozen=True)
class Gradient(Want):
    """Gradient g of a class's value with respect to the word vectors, as numbers per token.

    `dot` is g · (x − reference); `l2` and `l1` are norms over the vocabulary of g Eᵀ, the gradient with respect to the
    one-hot input. One backward pass serves them all; `l1` only where asked, since it needs the whole vocabulary, and
    paths, which have many rows, do without `l2`.
    """

    backward = True
    only_forward = True

    of: Of = "logit"
    reference: Reference = "zero"
    l1: bool = False
    l2: bool = True
    prompt: bool = True  # False: a prompt stays as it is on a path, so its tokens get 0

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        with torch.enable_grad():
            vectors = rows.vectors(model).detach().requires_grad_()
            logits = model.forward(replace(rows, embeddings=vectors, prompt_is_fixed=not self.prompt)).logits
            value = value_of(self.of, logits, rows.target, rows.against, model.outputs)
            (gradient,) = torch.autograd.grad(value.sum(), vectors)
        # In half precision a sum over the vocabulary would overflow.
        counted = rows.real if self.prompt else rows.real & (rows.units != PROMPT)
        gradient = at_least_single(gradient) * counted[..., None]
        away = at_least_single(model.embed(rows.ids) - reference_vector(model, self.reference))
        tokens = {"dot": (gradient * away).sum(-1)}
        if self.l2:
            # ‖E g‖ = √(gᵀ EᵀE g): no [length × vocabulary] tensor.
            tokens["l2"] = ((gradient @ model.gram) * gradient).sum(-1).clamp(min=0).sqrt()
        if self.l1:
            tokens["l1"] = gradient.new_zeros(gradient.shape[:-1])
            for part in torch.split(model.embedding_matrix.detach(), 4096):
                tokens["l1"] += (gradient @ part.T.to(gradient.dtype)).abs().sum(-1)
        return Reading(logits.detach(), tokens)


@dataclass(frozen=True, eq=False)
class Look:
    """The question, which units each row keeps, how the others are erased, and what is wanted of the model."""

    question: Question
    keep: Tensor  # [rows, units], multiplied by what the question has left
    masking: Masking | None = None  # None = the prober's
    want: Want = LOGITS
    others: Tensor | None = None  # [rows] how much is kept of tokens in no unit; None = all
    purpose: str = ""  # of the random draws of a stochastic masking
    distinct: bool = False  # no row is there twice, so that none need be looked for


@dataclass(frozen=True, eq=False)
class Answer:
    """What the model said of each row of a look, on the CPU."""

    question: Question
    logits: Tensor  # [rows, classes]
    units: Mapping[str, Tensor]  # [rows, units] token numbers summed into units
    rest: Mapping[str, Tensor]  # [rows] their sum over tokens in no unit
    rows: Mapping[str, Tensor]  # [rows, ...]
    outputs: Outputs = "classes"  # what the columns of the logits mean
    threshold: float = THRESHOLD  # of labels

    def value(self, of: Of = "logit") -> Tensor:
        """[rows] the target's logit, probability or log-probability (less the other class's in a contrast)."""
        target, against = self.question.target, self.question.against
        if of == "logit" and against is None and target != PREDICTED:
            return at_least_single(self.logits)[:, target]  # by far the most often
        wanted = torch.full((len(self.logits),), target)
        none = -1 if against is None else against
        return value_of(of, self.logits, wanted, torch.full_like(wanted, none), self.outputs)

    @cached_property
    def probability(self) -> Tensor:
        """[rows] the target's probability; of values the number itself."""
        return self.probabilities[:, self.question.target]

    @cached_property
    def probabilities(self) -> Tensor:
        """[rows, classes] the probability of each class or label; of values the numbers themselves."""
        return meaning.probabilities(self.logits, self.outputs)

    @cached_property
    def strongest(self) -> Tensor:
        """[rows] the class or label that the target "predicted" stands for."""
        return meaning.strongest(self.logits, self.outputs)

    @cached_property
    def predicted(self) -> Tensor:
        """[rows] the class the model would choose; of labels 1 where it says that the target holds, else 0."""
        return meaning.decisions(self.logits, self.outputs, self.question.target, self.threshold)


Ask: TypeAlias = Generator[Look, Answer, T]


def keep_all(question: Question) -> Tensor:
    """[1, units] nothing more is erased."""
    return torch.ones(1, question.n_units)


def keep_without_each(question: Question) -> Tensor:
    """[units, units] row i erases unit i."""
    return 1 - torch.eye(question.n_units)


@lru_cache(maxsize=64)
def without_each_and_whole(n_units: int) -> Tensor:
    """[units + 1, units] row i erases unit i, the last one none; the same tensor for every text of so many units."""
    keep = torch.ones(n_units + 1, n_units)
    keep[:n_units].fill_diagonal_(0)
    return keep
