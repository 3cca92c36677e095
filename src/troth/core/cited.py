"""What `troth.cite` returns: an answer, the passages behind it, and how much each sentence of it rests on them."""

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
    """Log-probabilities of a part of the answer without the cited passages, and without as many others.

    Where nothing is cited, the passage with the highest score stands for what would have been.
    """

    erased: tuple[int, ...]  # places of the passages
    without_cited: float
    without_random: float | None  # the mean over the choices of other passages; None where there are no others
    random_low: float | None  # the lowest of them
    random_high: float | None  # the highest
    choices: int
    exact: bool  # they are all the choices there are

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {**vars(self), "erased": [place + 1 for place in self.erased]}


@dataclass(frozen=True, eq=False)
class CitedPart:
    """The whole answer, or one sentence of it: how much each passage, and each of their sentences, raises its
    log-probability.
    """

    text: str
    span: Span  # characters of the answer
    log_probability: float
    without_any: float  # the log-probability without any passage
    scores: Scores  # [passages] by how much it falls without the passage
    sentence_scores: Scores  # [sentences] the same for the sentences of the passages that matter
    cited: tuple[int, ...]  # places of the passages, the most important one first; none: it rests on no passage
    repeated: bool  # several passages say the same, so that none is missed alone
    proof: CitationProof

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; passages are numbered from 1."""
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


@dataclass(frozen=True, eq=False, repr=False)
class CitedAnswer(Shown):
    """Which passages an answer rests on."""

    question: str
    answer: str
    written: bool  # by the model, because no answer was given
    passages: tuple[str, ...]
    names: tuple[str, ...]  # of the passages; empty where they have none
    whole: CitedPart
    parts: tuple[CitedPart, ...]  # one per sentence of the answer
    sentences: tuple[tuple[int, Span], ...]  # place of the passage, and characters of it
    divided: tuple[int, ...]  # places of the passages whose sentences were asked about
    undivided: float  # by how much the log-probability of the answer falls without all the others at once
    tolerance: float
    masking: str
    seed: int
    model: str  # fingerprint
    passes: int  # erased inputs that the model has read

    @property
    def scores(self) -> Scores:
        """[passages] by how much the log-probability of the whole answer falls without the passage."""
        return self.whole.scores

    @property
    def cited(self) -> tuple[int, ...]:
        """Places of the passages that the whole answer rests on, the most important one first."""
        return self.whole.cited

    def sentence(self, number: int) -> str:
        """The text of one of the sentences of the passages."""
        place, (start, end) = self.sentences[number]
        return self.passages[place][start:end]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; passages are numbered from 1."""
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
