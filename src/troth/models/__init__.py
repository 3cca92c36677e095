"""The models troth can question, behind one protocol, and `load_model`, which finds the right one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Encoding, Example, Rows
from troth.core.units import UnitKind

Segments = Literal["first", "both"]
ERASING = "use an explainer that only erases (leave_one_out, lime, kernel_shap) with masking mask_token or delete"


def short_name(model: str) -> str:
    """A model's name as a table shows it: of a folder given with its whole path the last part.

    >>> short_name("/home/me/models/bert"), short_name("google/bert")
    ('bert', 'google/bert')
    """
    return Path(model).name if Path(model).is_absolute() else model


@dataclass(frozen=True, eq=False)
class Output:
    """What one forward pass gives."""

    logits: Tensor  # [rows, classes]
    attentions: tuple[Tensor, ...] = ()  # a layer each, [rows, heads, length, length]
    hidden: tuple[Tensor, ...] = ()  # the embedding output and every layer, [rows, length, hidden]


class TextClassifier(Protocol):
    """What an explainer, a metric or a recipe may ask of a model. What a model cannot give it refuses by name."""

    name: str
    reads_last: bool  # decides at the last position (a decoder), not at the first

    @property
    def pads(self) -> bool:
        """Whether rows of different lengths may share a batch: whether padding changes nothing."""

    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def fingerprint(self) -> str: ...

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]: ...

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output: ...

    def at_rest(self, *, attentions: bool = False) -> AbstractContextManager[None]:
        """Evaluation mode, frozen parameters and the attention implementation needed; put back afterwards."""

    def bytes_per_row(self, length: int, *, backward: bool, attentions: bool) -> int:
        """A guess at the memory one row takes."""

    @property
    def padding_worth(self) -> int:
        """How many tokens of padding cost as much as one batch more."""

    # Ids that stand for nothing; a model without one refuses by name.
    @property
    def mask_id(self) -> int: ...
    @property
    def pad_id(self) -> int: ...
    @property
    def filler_id(self) -> int:
        """Fills rows up to the batch's width; never attended to."""

    # Word vectors; a model without them (a black box) refuses by name.
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def embedding_size(self) -> int: ...
    @property
    def embedding_output_size(self) -> int: ...
    @property
    def embedding_matrix(self) -> Tensor: ...
    @property
    def gram(self) -> Tensor:
        """[embedding size, embedding size] EᵀE of the embedding matrix."""

    def embed(self, ids: Tensor) -> Tensor: ...


def load_model(
    model: Any,
    tokenizer: Any = None,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    max_length: int | None = None,
    *,
    labels: Sequence[str] | None = None,
    prompt: str | None = None,
    class_words: Sequence[str] | None = None,
    shots: Iterable[Any] = (),
    chat: bool | None = None,
    mask_text: str | None = None,
    explain_shots: bool = False,
) -> TextClassifier:
    """A model folder, a hub name, a model or pipeline in memory, a callable from texts to probabilities, or "embedded".

    What has predict_proba (scikit-learn) is such a callable. The user's model is never altered; `labels` names the
    classes where the model does not. With a `prompt` that holds {text} (and {text_pair}) any causal language model is
    asked for one of the `class_words`; `shots` are labeled examples shown first, `chat` is the tokenizer's chat
    template (used where there is one), `mask_text` what erased words become (docs/prompted.md).
    """
    if hasattr(model, "at_rest"):
        return cast(TextClassifier, model)  # one of ours already
    from troth.models import _loading, black_box, embedded, encoder

    if prompt is not None:
        from troth.models import prompted

        return prompted.load(
            model, tokenizer, prompt=prompt, class_words=class_words or (), shots=shots, chat=chat, labels=labels,
            mask_text=mask_text, explain_shots=explain_shots, device=device, dtype=dtype, max_length=max_length,
        )  # fmt: skip
    shots = list(shots)
    given = {"class_words": class_words, "shots": shots, "chat": chat, "explain_shots": explain_shots}
    for option, value in given.items():
        if value or (value is False and option == "chat"):
            raise TrothError(f'{option} goes with a prompt; pass prompt="… {{text}} …"')

    masked = {} if mask_text is None else {"mask_text": mask_text}
    if masked and (isinstance(model, str | Path) or _loading.is_transformers(model)):
        raise TrothError("mask_text goes with a prompt or a function; a classifier has its own mask token")
    if isinstance(model, str) and model == "embedded":
        return embedded.load(device=device, dtype=dtype, max_length=max_length)
    if hasattr(model, "predict_proba") and not _loading.is_transformers(model):
        known = getattr(model, "classes_", None)
        labels = labels if labels is not None or known is None else [str(label) for label in known]
        return black_box.BlackBox(model.predict_proba, labels=labels, name=type(model).__name__, **masked)
    if not isinstance(model, str) and callable(model) and not _loading.is_transformers(model):
        return black_box.BlackBox(model, labels=labels, **masked)
    return encoder.load(model, tokenizer, device=device, dtype=dtype, max_length=max_length, labels=labels)


def check_choices(units: str, segments: str) -> None:
    """One line for units or segments that there are not."""
    if units not in ("token", "word", "sentence"):
        raise TrothError(f"units must be token, word or sentence, not {units!r}")
    if segments not in ("first", "both"):
        raise TrothError(f"segments must be first or both, not {segments!r}")


def refuse(model: str, lacks: str, instead: str) -> TrothError:
    """The error of a model that is asked for what it cannot give."""
    return TrothError(f"{model} has no {lacks}; {instead}")
