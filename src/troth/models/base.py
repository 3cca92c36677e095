"""The base class of every kind of model: everything that an explainer, a metric or a recipe may ask of a model.

What a kind does not override is refused by name, or has the simple implementation given here.
"""

from abc import ABC, abstractmethod, update_abstractmethods
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor
from torch.nn import Module

from troth.core import user_code
from troth.core.display import Shown, some, table
from troth.core.errors import TrothError
from troth.core.outputs import THRESHOLD, Outputs
from troth.core.types import Encoding, Example, Rows
from troth.core.units import UNIT_NAMES, UnitKind

Segments = Literal["first", "both"]
ERASING = "use an explainer that only erases (leave_one_out, lime, kernel_shap) with masking mask_token or delete"


@dataclass(frozen=True, eq=False)
class Output:
    """The outputs of one forward pass."""

    logits: Tensor  # [rows, classes]
    attentions: tuple[Tensor, ...] = ()  # one per layer, [rows, heads, length, length]
    hidden: tuple[Tensor, ...] = ()  # the embedding output and every layer, [rows, length, hidden]


class TextClassifier(Shown, ABC):
    """A kind of model. `load_model` finds it by its file: `black_box.py` defines `BlackBox`."""

    kind: ClassVar[str] = "a model"  # its name in errors
    loaded_with: ClassVar[str] = ""  # the arguments of `load_model` that select this kind
    options: ClassVar[tuple[str, ...]] = ()  # options of `load_model` that not every kind has

    name: str
    labels: tuple[str, ...]
    outputs: Outputs = "classes"  # the meaning of the logits' columns (core/outputs.py)
    threshold: float = THRESHOLD  # a label with a higher probability holds
    labels_words: bool = False  # a target may name a word of the text, whose label is explained
    continues: bool = False  # the columns are a continuation of the text: all of it, then token by token
    has_hidden_states: bool = False
    erases_only: bool = False  # no gradients, attentions or word vectors: only methods that erase can explain it
    model: Any = None  # the torch network, for methods that inspect its layers
    tokenizer: Any = None
    examples_under_way: int = 512  # examples at a time; fewer if each takes long, so that progress is visible
    masked_by: str = ""  # what replaces erased words, if it is not a mask token
    _gram: tuple[tuple[int, int], Tensor] | None = None  # cached with the version of the embedding matrix

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        user_code.guard(cls, ("encode", "forward"), out_of_memory=False)

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        """Whether `load_model(source, **options)` means this kind; if two kinds accept it, the subclass is chosen.

        A kind without one of the options is not considered.
        """
        return False

    @classmethod
    def load(cls, source: Any, **options: Any) -> "TextClassifier":
        """Loads the model of this source; tokenizer, device, dtype, max_length and labels are always passed."""
        raise TrothError(f"{cls.kind} cannot be loaded; build {cls.__name__} yourself and pass it")

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A short hash that changes with everything its answers depend on."""

    def identify(self, *, whole: bool = False) -> None:
        """Recomputes the fingerprint if the model has changed since; `whole` does so in any case."""

    @abstractmethod
    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        """Encodes every example as this model reads it."""

    @abstractmethod
    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        """The forward pass; refuses rows it cannot read and outputs it cannot give (see `refuse_insides`)."""

    def aimed(self, encoding: Encoding, target: Any) -> tuple[Encoding, Any]:
        """The text and its class (or label) for a target that names more than a class: a token classifier's word."""
        return encoding, target

    def passes(self, rows: Rows) -> int:
        """The number of forward passes of the network for these rows: one each, more with windows."""
        return len(rows)

    @property
    def spec(self) -> dict[str, Any]:
        """Options of `load_model` that are needed to load this model again besides its source."""
        return {}

    def labels_of(self, encoding: Encoding) -> tuple[str, ...]:
        """The names of the columns for one example; those of a continuation are its tokens."""
        return self.labels

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of a result should know about the model."""
        return (self.masked_by,) if self.masked_by else ()

    @property
    def spent(self) -> str:
        """The cost so far, in words, where it is counted: for a model behind an endpoint."""
        return ""

    def expected(self, passes: int, examples: Sequence[Example], rounds: int = 1) -> str:
        """What so many passes over these examples would cost at most, in words, where that is counted. A method asks in
        `rounds`: later ones depend on the answers to earlier ones, so they cannot share a request.
        """
        return ""

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def pads(self) -> bool:
        """Whether rows of different lengths may share a batch, because padding does not change the output."""
        return False

    @property
    def reads_last(self) -> bool:
        """Whether it classifies the last position (a decoder) rather than the first."""
        return False

    def reading_place(self, rows: Rows) -> Tensor | None:
        """[rows] the position whose state is classified; None if it is the mean of all."""
        return rows.lengths - 1 if self.reads_last else torch.zeros_like(rows.lengths)

    def ready(self, level: str, *, backward: bool) -> None:
        """Refuses, before any computation, rows that a masking has changed at this level, and gradients."""
        if self.erases_only and level == "attention":
            raise self.lacks("attention to mask")
        if self.erases_only and (backward or level == "embeddings"):
            raise self.lacks("word vectors")

    @property
    def padding_worth(self) -> int:
        """The number of padding tokens that cost as much as one more batch."""
        return 32

    @property
    def packs(self) -> bool:
        """Whether `forward` reads rows of different lengths without padding, as long as only logits are needed."""
        return False

    def bytes_per_row(self, length: int, *, backward: bool, attentions: bool) -> int:
        """An estimate of the memory of one row."""
        return 64 * length + 1024

    @contextmanager
    def at_rest(self, *, attentions: bool = False) -> Iterator[None]:
        """Evaluation mode, frozen parameters and the attention implementation needed; restored afterwards."""
        yield

    # Special ids

    @property
    def mask_id(self) -> int:
        raise self.lacks("mask token", "use masking delete")

    @property
    def pad_id(self) -> int:
        raise self.lacks("padding token")

    @property
    def filler_id(self) -> int:
        """Pads rows to the batch's length; never attended to."""
        return 0

    # Word vectors

    @property
    def embedding_matrix(self) -> Tensor:
        """[vocabulary, embedding size]"""
        raise self.lacks("word vectors")

    @property
    def embedding_size(self) -> int:
        return self.embedding_matrix.shape[1]

    @property
    def embedding_output_size(self) -> int:
        """The size of the vectors that the embedding layer returns."""
        return self.embedding_size

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding_matrix.dtype

    @property
    def has_rms_norm(self) -> bool:
        """Whether layers divide vectors by their norm (RMSNorm), which has no limit at zero."""
        return False

    @property
    def gram(self) -> Tensor:
        """[embedding size, embedding size] EᵀE of the embedding matrix."""
        matrix = self.embedding_matrix.detach()
        version = (matrix.data_ptr(), matrix._version)  # the user may train the model between two calls
        if self._gram is None or self._gram[0] != version:
            parts = (part.to(torch.promote_types(part.dtype, torch.float32)) for part in torch.split(matrix, 8192))
            total = sum((part.T @ part for part in parts), start=torch.zeros((), device=matrix.device))
            self._gram = version, total
        return self._gram[1]

    def embed(self, ids: Tensor) -> Tensor:
        """[…] -> […, embedding size]"""
        return self.embedding_matrix[ids]

    # Display

    def _line(self) -> str:
        labels = getattr(self, "labels", ())
        return f"{getattr(self, 'name', '?')!r}: {', '.join(some(list(labels), 5)) or self.outputs}"

    def _parts(self) -> Iterator[str]:
        size = sum(weights.numel() for weights in self.model.parameters()) if isinstance(self.model, Module) else None
        gives = {"classes": "one class of", "labels": f"labels, held above {self.threshold:g}, of", "values": "values"}
        facts = {
            "kind": self.kind,
            "gives": f"{gives[self.outputs]} {', '.join(some(list(self.labels)))}",
            "runs on": str(self.device),
            "parameters": f"{size:,}" if size is not None else "",
            "notes": "; ".join(self.notes),
            "spent": self.spent,
        }
        yield table(self.name, (), [fact for fact in facts.items() if fact[1]])

    # Refusing and copying

    def lacks(self, what: str, instead: str = ERASING) -> TrothError:
        """The error of this model when it is asked for something it cannot give."""
        return refuse(self.name, f"{what} (it is {self.kind})", instead)

    def refuse_insides(self, rows: Rows, *, attentions: bool, hidden: bool) -> None:
        """For kinds that read only ids: refuses to return internal states, and rows that were changed at their
        level.
        """
        if attentions or hidden:
            raise self.lacks("attentions or hidden states")
        if rows.attention is not None:
            raise self.lacks("attention to mask")
        if rows.embeddings is not None or rows.output_factor is not None:
            raise self.lacks("word vectors")

    def twin(self) -> Self:
        """A copy whose weights may be changed; call its `forget` after every change."""
        twin = deepcopy(self)
        twin.forget()
        return twin

    def forget(self) -> None:
        """Discards cached values that depend on weights that have changed."""
        for name in [name for name in vars(self) if isinstance(getattr(type(self), name, None), cached_property)]:
            del vars(self)[name]


class Wrapped(TextClassifier):
    """A model around another one: attributes that the wrapper does not define are those of the wrapped model."""

    inner: TextClassifier


class _Forwarded:
    """An attribute of the wrapped model, which an instance may override."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, wrapper: Any, owner: Any = None) -> Any:
        return self if wrapper is None else getattr(wrapper.inner, self.name)


# Its kind, its refusals and how it is copied are the wrapper's own.
_OWN = ("kind", "loaded_with", "options", "takes", "load", "lacks", "refuse_insides", "twin", "forget")
for _name in {**TextClassifier.__annotations__, **vars(TextClassifier)}:
    if not _name.startswith("_") and _name not in _OWN:
        setattr(Wrapped, _name, _Forwarded(_name))
update_abstractmethods(Wrapped)  # type: ignore[type-abstract]  # they are set now


def check_choices(units: UnitKind | str, segments: str) -> None:
    """Raises an error for units or segments that do not exist."""
    if isinstance(units, str) and units not in UNIT_NAMES:
        names = ", ".join(UNIT_NAMES)
        raise TrothError(f"units must be one of {names}, or a list of (start, end), not {units!r}")
    if segments not in ("first", "both"):
        raise TrothError(
            f"segments must be first or both, not {segments!r}; parts of a prompt are named by load_model(…, "
            "explain_parts=…)"
        )
    if segments == "both" and not isinstance(units, str):
        raise TrothError("units of your own are spans of the first text; leave segments out, or use units word")


def refuse(model: str, lacks: str, instead: str) -> TrothError:
    """The error of a model that is asked for something it cannot give."""
    return TrothError(f"{model} has no {lacks}; {instead}")
