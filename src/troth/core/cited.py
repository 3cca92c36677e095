"""The return types of `troth.cite`: an answer, the passages it rests on, and how strongly each of its sentences depends
on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from troth import core
from troth.core.display import Shown, counted, short
from troth.core.types import Scores
from troth.core.units import Span


@dataclass(frozen=True)
class CitationProof:
    """The log-probability of a part of the answer without the cited passages, and without as many other passages.

    If nothing is cited, the passage with the highest score is erased instead.
    """

    erased: tuple[int, ...]  # indices of the erased passages
    without_cited: float
    without_random: float | None  # mean over the choices of other passages; None if there are no others
    random_low: float | None  # the lowest of these values
    random_high: float | None  # the highest of these values
    choices: int
    exact: bool  # whether all possible choices were tested

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; passages are numbered from 1."""
        return {**vars(self), "erased": [place + 1 for place in self.erased]}


@dataclass(frozen=True, eq=False)
class CitedPart:
    """The whole answer or one of its sentences: by how much each passage, and each sentence of the passages, raises its
    log-probability.
    """

    text: str
    span: Span  # characters of the answer
    log_probability: float
    without_any: float  # the log-probability without any passage
    scores: Scores  # [passages] decrease of the log-probability without the passage
    sentence_scores: Scores  # [sentences] the same for the sentences of the passages that matter
    cited: tuple[int, ...]  # indices of the cited passages, the most important first; empty if it rests on no passage
    repeated: bool  # several passages contain the same information, so that erasing only one has no effect
    proof: CitationProof

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; passages are numbered from 1."""
        return {
            "text": self.text,
            "span": list(self.span),
            "log_probability": self.log_probability,
            "without_any": self.without_any,
            "cited": [place + 1 for place in self.cited],
            "repeated": self.repeated,
            "scores": self.scores.tolist(),
            "sentence_scores": self.sentence_scores.tolist(),
            "proof": self.proof.to_dict(),
        }


FEW = 4  # minimum number of passages for which the median of their scores is informative


@dataclass(frozen=True, eq=False, repr=False)
class CitedAnswer(Shown):
    """An answer and the passages that it rests on."""

    question: str
    answer: str
    written: bool  # written by the model, because no answer was given
    passages: tuple[str, ...]
    names: tuple[str, ...]  # names of the passages; empty strings if they have none
    whole: CitedPart
    parts: tuple[CitedPart, ...]  # one per sentence of the answer
    sentences: tuple[tuple[int, Span], ...]  # index of the passage, and the characters of the sentence in it
    divided: tuple[int, ...]  # indices of the passages whose sentences were erased one by one
    undivided: float  # decrease of the answer's log-probability if all passages not in `divided` are erased
    tolerance: float
    masking: str
    seed: int
    model: str  # fingerprint of the model
    passes: int  # number of erased inputs that the model has read

    @property
    def scores(self) -> Scores:
        """[passages] decrease of the whole answer's log-probability without the passage."""
        return self.whole.scores

    @property
    def cited(self) -> tuple[int, ...]:
        """Indices of the passages that the whole answer rests on, the most important first."""
        return self.whole.cited

    def sentence(self, number: int) -> str:
        """The text of a sentence of the passages, by its index."""
        place, (start, end) = self.sentences[number]
        return self.passages[place][start:end]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; passages are numbered from 1."""
        passages = [
            {"number": place + 1, "name": name, "text": text, "cited": place in self.cited, "score": float(score)}
            for place, (name, text, score) in enumerate(zip(self.names, self.passages, self.scores, strict=True))
        ]
        sentences = [
            {"passage": place + 1, "span": list(span), "text": self.passages[place][slice(*span)]}
            for place, span in self.sentences
        ]
        return {
            "question": self.question,
            "answer": self.answer,
            "written": self.written,
            "cited": [place + 1 for place in self.cited],
            "passages": passages,
            "sentences": sentences,
            "whole": self.whole.to_dict(),
            "parts": [part.to_dict() for part in self.parts],
            "divided": [place + 1 for place in self.divided],
            "undivided": self.undivided,
            "tolerance": self.tolerance,
            "masking": self.masking,
            "seed": self.seed,
            "model": self.model,
            "passes": self.passes,
        }

    def _line(self) -> str:
        numbers = "".join(f"[{place + 1}]" for place in self.cited) or "no passage"
        top = float(np.max(self.scores, initial=-np.inf))
        return (
            f"{short(self.answer)!r} rests on {numbers} of {counted(len(self.passages), 'passage')} (score {top:.2f})"
        )

    def _parts(self) -> Iterator[str]:
        yield core.rooms["showing"]().cited_html(self)
