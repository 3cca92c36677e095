"""Any callable from a list of texts to class probabilities: an API, a scikit-learn pipeline, a rule.

It is asked with whole texts in which units were deleted or replaced, so only methods that erase can explain it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from troth.errors import TrothError
from troth.models import Output, Segments, refuse
from troth.types import Encoding, Example, Rows
from troth.units import Span, UnitKind, sentence_spans, word_spans

_MASKED = -1
_INSTEAD = "use an explainer that only erases (leave_one_out, lime, kernel_shap) with masking mask_token or delete"


class BlackBox:
    """One "token" a unit; a row is turned back into text just before the callable is asked."""

    pads = True
    device = torch.device("cpu")
    mask_id = _MASKED
    filler_id = 0
    padding_worth = 1 << 40  # a callable gets texts, not padding; it is the calls that cost

    def __init__(
        self,
        predict: Callable[[list[Any]], Any],
        *,
        labels: Sequence[str] | None = None,
        mask_text: str = "_",
        name: str = "",
    ) -> None:
        self.predict = predict
        self.mask_text = mask_text
        self.name = name or getattr(predict, "__name__", type(predict).__name__)
        self._labels = None if labels is None else tuple(labels)

    @property
    def labels(self) -> tuple[str, ...]:
        if self._labels is None:
            self._ask([""])
        return self._labels or ()

    @cached_property
    def fingerprint(self) -> str:
        # A callable has no weights to hash; its name, its code and how it is asked must do.
        code = getattr(self.predict, "__code__", None)
        body = b"" if code is None else code.co_code + repr(code.co_consts).encode()
        told = f"{self.name}{self._labels}{self.mask_text}".encode()
        return hashlib.sha256(told + body).hexdigest()[:16]

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        return [self._encode(example, units, segments) for example in examples]

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if attentions or hidden:
            raise refuse(self.name, "attentions or hidden states (it is a black box)", _INSTEAD)
        if rows.attention is not None:
            raise refuse(self.name, "attention to mask (it is a black box)", _INSTEAD)
        if rows.embeddings is not None:
            raise refuse(self.name, "word vectors (it is a black box)", _INSTEAD)
        erased = [
            _text(encoding, ids, self.mask_text) for encoding, ids in zip(rows.encodings, _trim(rows), strict=True)
        ]
        return Output(torch.from_numpy(np.log(np.clip(self._ask(erased), 1e-12, None))).float())

    @contextmanager
    def at_rest(self, *, attentions: bool = False) -> Iterator[None]:
        yield

    def bytes_per_row(self, length: int, *, backward: bool, attentions: bool) -> int:
        return 64 * length + 1024

    @property
    def pad_id(self) -> int:
        raise refuse(self.name, "padding token (it is a black box)", _INSTEAD)

    @property
    def _no_vectors(self) -> TrothError:
        return refuse(self.name, "word vectors (it is a black box)", _INSTEAD)

    @property
    def dtype(self) -> torch.dtype:
        raise self._no_vectors

    @property
    def embedding_size(self) -> int:
        raise self._no_vectors

    @property
    def embedding_output_size(self) -> int:
        raise self._no_vectors

    @property
    def embedding_matrix(self) -> Tensor:
        raise self._no_vectors

    @property
    def gram(self) -> Tensor:
        raise self._no_vectors

    def embed(self, ids: Tensor) -> Tensor:
        raise self._no_vectors

    def _ask(self, texts: list[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
        probabilities = np.asarray(self.predict(texts), dtype=np.float64)
        if probabilities.ndim != 2 or len(probabilities) != len(texts):
            raise TrothError(
                f"{self.name} answered {len(texts)} texts with an array of shape {probabilities.shape}; "
                "it must give [texts, classes]"
            )
        classes = probabilities.shape[1]
        if self._labels is None:
            self._labels = tuple(str(index) for index in range(classes))
        if classes < 2:
            raise TrothError(f"{self.name} gives one number a text; it must give one probability a class")
        if len(self._labels) != classes:
            raise TrothError(f"{self.name} gives {classes} probabilities, but {len(self._labels)} labels were given")
        if np.isfinite(probabilities).all() and (
            probabilities.min() < -1e-6 or abs(probabilities.sum(1) - 1).max() > 1e-3
        ):
            raise TrothError(f"{self.name} must give probabilities that sum to 1 for each text; a logit is none")
        return probabilities

    def _encode(self, example: Example, units: UnitKind, segments: Segments) -> Encoding:
        if units == "token":
            raise refuse(self.name, "tokens (it is a black box)", "use units word or sentence")
        spans: list[Span] = []
        of_unit: list[int] = []
        texts: list[str] = []
        for segment, text in enumerate([example.text, example.text_pair]):
            if text is not None and (segment == 0 or segments == "both"):
                found = word_spans(text) if units == "word" else sentence_spans(text)
                spans += found
                of_unit += [segment] * len(found)
                texts += [text[start:end] for start, end in found]
        count = torch.arange(len(spans))
        return Encoding(example, count, count.clone(), tuple(texts), tuple(spans), tuple(of_unit))


def _trim(rows: Rows) -> list[list[int]]:
    return [ids[:length] for ids, length in zip(rows.ids.tolist(), rows.lengths.tolist(), strict=True)]


def _text(encoding: Encoding, ids: list[int], mask_text: str) -> str | tuple[str, str]:
    """The text with its units kept, replaced (`_MASKED` stands in their place) or gone."""
    masked = _MASKED in ids
    present = set(ids)
    pieces = [encoding.example.text, encoding.example.text_pair or ""]
    for unit in reversed(range(encoding.n_units)):
        if unit in present:
            continue
        segment, (start, end) = encoding.unit_segments[unit], encoding.unit_spans[unit]
        text = pieces[segment]
        # A deleted word takes the white space before it along.
        before = text[:start] + mask_text if masked else text[:start].rstrip()
        pieces[segment] = before + text[end:]
    first, second = (piece if masked else piece.strip() for piece in pieces)
    return first if encoding.example.text_pair is None else (first, second)
