"""Any callable from a list of texts to class probabilities: an API, a scikit-learn pipeline, a rule.

It is asked with whole texts in which units were deleted or replaced, so only methods that erase can explain it.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch

from troth.core.errors import TrothError
from troth.core.hashing import digest, fingerprint
from troth.core.types import Encoding, Example, Rows
from troth.core.units import UnitKind
from troth.core.user_code import UserCodeError, calling, said, shown
from troth.models._encoding import Units
from troth.models._heads import checked_threshold, spec_of
from troth.models._loading import is_transformers
from troth.models.base import Output, Segments, TextClassifier, check_choices

_MASKED = -1


class BlackBox(TextClassifier):
    """One "token" per unit; a row is converted back to text just before the callable is called."""

    kind = "a black box"
    loaded_with = "a function from texts to probabilities"
    options: ClassVar[tuple[str, ...]] = ("mask_text", "multi_label", "threshold")
    pads = True
    erases_only = True
    mask_id = _MASKED
    code = ""  # fingerprint of the file it was named by; empty for a callable in memory
    padding_worth = 1 << 40  # a callable gets texts without padding; only the number of calls matters

    def __init__(
        self,
        predict: Callable[[list[Any]], Any],
        *,
        labels: Iterable[str] | None = None,
        mask_text: str = "_",
        name: str = "",
        multi_label: bool = False,
        threshold: float | None = None,
    ) -> None:
        self.predict = predict
        self.mask_text = mask_text
        self.name = name or getattr(predict, "__name__", type(predict).__name__)
        self.outputs = "labels" if multi_label else "classes"
        self.threshold = checked_threshold(self.name, self.outputs, threshold)
        self._given = self._labels = None if labels is None else tuple(labels)

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        is_function = callable(source) or hasattr(source, "predict_proba")
        return is_function and not is_transformers(source)

    @classmethod
    def load(cls, source: Any, *, labels: Iterable[str] | None = None, **options: Any) -> TextClassifier:
        """Accepts a callable, or an object with predict_proba and optionally classes_ (scikit-learn)."""
        how = {name: value for name, value in options.items() if name in cls.options}
        if not hasattr(source, "predict_proba"):
            return cls(source, labels=labels, **how)
        if labels is None and getattr(source, "classes_", None) is not None:
            labels = [str(label) for label in source.classes_]
        return cls(source.predict_proba, labels=labels, name=type(source).__name__, **how)

    @property
    def spec(self) -> dict[str, Any]:
        return spec_of("classes", self.outputs, self.threshold)

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]  # known once it has been asked
        if self._labels is None:
            with calling(self.name, "an empty text"):
                self._ask([""])
        return self._labels or ()

    @cached_property
    def fingerprint(self) -> str:
        # A callable has no weights to hash, so its name, code, attributes and options identify it.
        code = self.code or fingerprint(self.predict)
        meaning = [] if self.outputs == "classes" else [self.outputs, self.threshold]
        return digest([self.name, self._given, self.mask_text, code, meaning])

    def identify(self, *, whole: bool = False) -> None:
        vars(self).pop("fingerprint", None)

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        check_choices(units, segments)
        if units == "token":
            raise self.lacks("tokens", "use units word, sentence or passage")
        return [self._encoding(example, units, segments) for example in examples]

    def _encoding(self, example: Example, units: UnitKind, segments: Segments) -> Encoding:
        assembled = Units(units)
        assembled.add(0, example.text)
        if example.text_pair is not None and segments == "both":
            assembled.add(1, example.text_pair)
        return assembled.encoding(example)

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        self.refuse_insides(rows, attentions=attentions, hidden=hidden)
        erased = [_text(rows, row, self.mask_text) for row in range(len(rows))]
        probabilities = np.clip(self._ask(erased), 1e-12, None)
        logits = np.log(probabilities)
        if self.outputs == "labels":
            logits -= np.log(np.clip(1 - probabilities, 1e-12, None))
        return Output(torch.from_numpy(logits).float())

    def _ask(self, texts: list[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
        more = f"{len(texts)} texts, the first " if len(texts) > 1 else ""
        with calling(self.name, f"{more}{shown(texts[0])}", out_of_memory=False):
            answer = self.predict(texts)
        try:
            with calling(f"the answer of {self.name}"):
                probabilities = np.asarray(answer, dtype=np.float64)
        except UserCodeError as error:
            why = said(error.__cause__ or error)
            raise TrothError(
                f"{self.name} returned something that is not an array of numbers ({why}); it must return "
                "[texts, classes]"
            ) from None
        if probabilities.ndim != 2 or len(probabilities) != len(texts):
            raise TrothError(
                f"{self.name} returned, for {len(texts)} texts, an array of shape {probabilities.shape}; "
                "it must return [texts, classes]"
            )
        classes = probabilities.shape[1]
        if self._labels is None:
            self._labels = tuple(str(index) for index in range(classes))
        if classes < 2 and self.outputs == "classes":
            raise TrothError(f"{self.name} returns one number per text; it must return one probability per class")
        if len(self._labels) != classes:
            raise TrothError(f"{self.name} returns {classes} probabilities, but {len(self._labels)} labels were given")
        if not np.isfinite(probabilities).all():
            return probabilities
        outside = probabilities.min(initial=0) < -1e-6 or probabilities.max(initial=0) > 1 + 1e-3
        if self.outputs == "labels" and outside:
            raise TrothError(f"{self.name} must return a probability from 0 to 1 for each label, not logits")
        if self.outputs == "classes" and (outside or abs(probabilities.sum(1) - 1).max(initial=0) > 1e-3):
            raise TrothError(
                f"{self.name} must return probabilities that sum to 1 for each text, not logits. If each label has "
                "a probability of its own, pass multi_label=True"
            )
        return probabilities


def _text(rows: Rows, row: int, mask_text: str) -> str | tuple[str, str]:
    example = rows.encodings[row].example
    texts = erased_texts(rows, row, mask_text, {0: example.text, 1: example.text_pair or ""})
    return texts[0] if example.text_pair is None else (texts[0], texts[1])


def erased_texts(rows: Rows, row: int, mask_text: str, texts: Mapping[int, str]) -> dict[int, str]:
    """The text of each segment with its units kept, replaced (`_MASKED` marks their place) or deleted."""
    encoding, length = rows.encodings[row], int(rows.lengths[row])
    now = dict(zip(rows.units[row, :length].tolist(), rows.ids[row, :length].tolist(), strict=True))
    pieces = dict(texts)
    for unit in reversed(range(encoding.n_units)):
        segment, (start, end) = encoding.unit_segments[unit], encoding.unit_spans[unit]
        before, after = pieces[segment][:start], pieces[segment][end:]
        if unit not in now:
            # A deleted word takes the preceding white space along, the first word the following. A unit that ends with
            # white space of its own (a passage with the blank line after it) takes none.
            if not pieces[segment][start:end][-1:].isspace():
                before = before.rstrip()
                after = after if before else after.lstrip()
            pieces[segment] = before + after
        elif now[unit] == _MASKED:
            pieces[segment] = before + mask_text + after
    return pieces
