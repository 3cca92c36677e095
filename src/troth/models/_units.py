"""The units of an example, for every kind of model: words and sentences come from the text, tokens join them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core.types import Encoding, Example
from troth.core.units import Span, UnitKind, join, sentence_spans, word_spans, words_until


class Units:
    """Collects the units of one example, text by text, and the unit of each of its tokens."""

    def __init__(self, kind: UnitKind, tokens: int = 0, outside: int = -1) -> None:
        self.kind = kind
        self.of_token = np.full(tokens, outside)  # what no text claims stays `outside`
        self.spans: list[Span] = []
        self.segments: list[int] = []
        self.texts: list[str] = []
        self.truncated = 0

    def add(
        self,
        segment: int,
        text: str,
        tokens: NDArray[np.int64] | None = None,
        pieces: Sequence[Span] | NDArray[np.int64] = (),
        *,
        end: int | None = None,
        lost_tokens: int = 0,
        whole: bool = False,
    ) -> None:
        """One text, the numbers of its tokens and their characters in it; beyond `end` it was not read.

        With `whole` it is one unit; tokens that were not read are units only where units are tokens.
        """
        if whole:
            spans = [(0, len(text))]
        elif self.kind == "token":
            spans, self.truncated = [(int(start), int(stop)) for start, stop in pieces], self.truncated + lost_tokens
        elif self.kind == "word" and end is not None:
            spans, beyond = words_until(text, end)
            self.truncated += beyond
        else:
            every = word_spans(text) if self.kind == "word" else sentence_spans(text)
            spans = every if end is None else [span for span in every if span[0] < end]
            self.truncated += len(every) - len(spans)
        if tokens is not None:
            is_token = self.kind == "token" and not whole
            numbers = np.arange(len(spans)) if is_token else join(pieces, spans)
            self.of_token[tokens] = np.where(numbers < 0, -1, numbers + len(self.spans))
        self.spans += spans
        self.segments += [segment] * len(spans)
        self.texts += [text[start:stop] for start, stop in spans]

    def encoding(self, example: Example, ids: Tensor | None = None, **more: Any) -> Encoding:
        """The example with these units; without ids each unit is its own token, whose id is its number."""
        return Encoding(
            example,
            ids=torch.arange(len(self.spans)) if ids is None else ids,
            units=torch.arange(len(self.spans)) if ids is None else torch.from_numpy(self.of_token),
            unit_texts=tuple(self.texts),
            unit_spans=tuple(self.spans),
            unit_segments=tuple(self.segments),
            truncated=self.truncated,
            tokenized=ids is not None,
            unit_kind=self.kind,
            **more,
        )
