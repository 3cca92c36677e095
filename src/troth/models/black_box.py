"""Any callable from a list of texts to class probabilities: an API, a scikit-learn pipeline, a rule.

It is asked with whole texts in which units were deleted or replaced, so only methods that erase can explain it.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Encoding, Example, Rows
from troth.core.units import Span, UnitKind, sentence_spans, word_spans
from troth.models import ERASING, Output, Segments, check_choices, refuse
from troth.models._loading import fingerprint

_MASKED = -1


class BlackBox:
    """One "token" a unit; a row is turned back into text just before the callable is asked."""

    pads = True
    reads_last = False
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
        self._given = self._labels = None if labels is None else tuple(labels)

    @property
    def labels(self) -> tuple[str, ...]:
        if self._labels is None:
            self._ask([""])
        return self._labels or ()

    @cached_property
    def fingerprint(self) -> str:
        # A callable has no weights to hash; its name, its code, what it holds and how it is asked must do.
        code = getattr(self.predict, "__code__", None)
        body = b"" if code is None else code.co_code + repr(code.co_consts).encode()
        told = [self.name, self._given, self.mask_text, *map(_content, _held(self.predict))]
        return hashlib.sha256(repr(told).encode() + body).hexdigest()[:16]

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        check_choices(units, segments)
        return [self._encode(example, units, segments) for example in examples]

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if attentions or hidden:
            raise refuse(self.name, "attentions or hidden states (it is a black box)", ERASING)
        if rows.attention is not None:
            raise refuse(self.name, "attention to mask (it is a black box)", ERASING)
        if rows.embeddings is not None:
            raise refuse(self.name, "word vectors (it is a black box)", ERASING)
        erased = [_text(rows, row, self.mask_text) for row in range(len(rows))]
        return Output(torch.from_numpy(np.log(np.clip(self._ask(erased), 1e-12, None))).float())

    @contextmanager
    def at_rest(self, *, attentions: bool = False) -> Iterator[None]:
        yield

    def bytes_per_row(self, length: int, *, backward: bool, attentions: bool) -> int:
        return 64 * length + 1024

    @property
    def pad_id(self) -> int:
        raise refuse(self.name, "padding token (it is a black box)", ERASING)

    @property
    def _no_vectors(self) -> TrothError:
        return refuse(self.name, "word vectors (it is a black box)", ERASING)

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
        answer = self.predict(texts)
        try:
            probabilities = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TrothError(
                f"{self.name} answered with what is no array of numbers ({error}); it must give [texts, classes]"
            ) from None
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


def _text(rows: Rows, row: int, mask_text: str) -> str | tuple[str, str]:
    """The text with its units kept, replaced (`_MASKED` stands in their place) or gone; the rest stays as it is."""
    encoding, length = rows.encodings[row], int(rows.lengths[row])
    now = dict(zip(rows.units[row, :length].tolist(), rows.ids[row, :length].tolist(), strict=True))
    pieces = [encoding.example.text, encoding.example.text_pair or ""]
    for unit in reversed(range(encoding.n_units)):
        segment, (start, end) = encoding.unit_segments[unit], encoding.unit_spans[unit]
        before, after = pieces[segment][:start], pieces[segment][end:]
        if unit not in now:
            # A deleted word takes the white space before it along, the first one that behind it.
            before = before.rstrip()
            pieces[segment] = before + (after if before else after.lstrip())
        elif now[unit] == _MASKED:
            pieces[segment] = before + mask_text + after
    return pieces[0] if encoding.example.text_pair is None else (pieces[0], pieces[1])


def _held(predict: Callable[..., Any]) -> list[Any]:
    """What a callable's answer may depend on: its object and that one's parts, its closure, the globals it names."""
    owner = getattr(predict, "__self__", None if inspect.isfunction(predict) else predict)
    held = [] if owner is None else [owner, *getattr(owner, "__dict__", {}).values()]
    if inspect.isfunction(predict):
        variables = inspect.getclosurevars(predict)
        named = {**variables.globals, **variables.nonlocals}
        held += [predict.__defaults__, *(named[name] for name in sorted(named))]
    return held


def _content(held: Any) -> str:
    """A hash of values, weights and fitted estimators; of anything else (a cache may change by the call) its kind."""
    network = held if isinstance(held, torch.nn.Module) else getattr(held, "model", None)
    if isinstance(network, torch.nn.Module):
        return fingerprint(network)
    if not (isinstance(held, str | bytes | int | float | tuple | np.ndarray) or hasattr(held, "get_params")):
        return type(held).__name__
    import joblib  # type: ignore[import-untyped]  # comes with scikit-learn

    try:
        return str(joblib.hash(held))
    except Exception:  # it pickles, and pickling may raise anything
        return type(held).__name__
