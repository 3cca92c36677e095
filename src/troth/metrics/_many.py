"""The units of many explanations in order, and what is left of many texts, as arrays as wide as the longest text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from troth.core.outputs import log_probabilities, probabilities
from troth.core.types import Attribution, Question
from troth.engine.looks import LOGITS
from troth.engine.many import Answers, AskMany, Looks
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.metrics.formulas import Floats

Bools = NDArray[np.bool_]
Heard = tuple[NDArray[np.int64], Tensor]  # rows of a result, flat, and what the model has said of them already


def orders(attributions: Sequence[Attribution], widest: int) -> NDArray[np.int64]:
    """[texts, widest] units from the highest score to the lowest; ties keep reading order, no unit comes last."""
    falling = np.full((len(attributions), widest), np.inf, np.float32)
    for row, attribution in enumerate(attributions):
        falling[row, : len(attribution.scores)] = attribution.scores
    falling[falling != np.inf] *= -1
    return np.argsort(falling, axis=1, kind="stable")


def have_order(attributions: Sequence[Attribution]) -> bool:
    """Whether every text has units, and every unit a number for a score."""
    scores = [attribution.scores for attribution in attributions]
    return all(map(len, scores)) and bool(np.isfinite(np.concatenate(scores)).all() if scores else True)


def looks(questions: Sequence[Question], keep: Bools, n_units: NDArray[np.int64], masking: Masking) -> Looks:
    """The rows of [texts, rows, widest], without what is no unit."""
    inside = np.arange(keep.shape[2]) < n_units[:, None]
    flat = keep[np.broadcast_to(inside[:, None], keep.shape)]
    return Looks(questions, flat, np.full(len(questions), keep.shape[1]), masking)


def target_probabilities(answers: Answers, logs: bool = False) -> Floats:
    """[texts, rows] of the class each text is asked about, in double precision."""
    turned = (log_probabilities if logs else probabilities)(answers.logits.double(), answers.outputs)
    chosen: Floats = turned.gather(1, answers.target[:, None])[:, 0].numpy()
    return chosen.reshape(len(answers.questions), -1)


def erased_in_step(
    questions: Sequence[Question],
    attributions: Sequence[Attribution],
    explainer: Explainer | None,
    masking: Masking,
    points: Sequence[int],
    heard: Sequence[Heard] = (),
) -> AskMany[tuple[Bools, Answers]]:
    """As `recursively_erased`, all texts in step: what is left at each point, and what the model says of that.

    [texts, points, widest]; without an explainer the order stays. What was `heard` before is not asked again.
    """
    n_units = np.array([question.n_units for question in questions], np.int64)
    widest = int(n_units.max())
    left = np.arange(widest) < n_units[:, None]
    order = orders(attributions, widest)
    gone = np.zeros(len(questions), np.int64)
    steps: list[Bools] = []
    heard = list(heard)
    for place, point in enumerate(points):
        missing = n_units * point // 10_000 - gone
        again = np.flatnonzero((missing > 0) & (gone > 0) & (point < 10_000))
        if explainer is not None and len(again):
            some = [_erased(questions[text], left[text, : n_units[text]], masking) for text in again.tolist()]
            explained, logits = yield from _overheard(explainer.ask_many(some, None))
            order[again] = orders(explained, widest)
            if logits is not None:
                heard.append((again * len(points) + place - 1, logits))
        if point == 10_000:
            left = np.zeros_like(left)
        else:
            there = np.take_along_axis(left, order, 1)
            goes = there & (np.cumsum(there, axis=1) <= missing[:, None])
            stays = np.empty_like(left)
            np.put_along_axis(stays, order, there & ~goes, 1)
            left, gone = stays, gone + missing
        steps.append(left)
    keep = np.stack(steps, axis=1)
    return keep, (yield from _said(questions, keep, n_units, masking, heard))


def _said(
    questions: Sequence[Question],
    keep: Bools,
    n_units: NDArray[np.int64],
    masking: Masking,
    heard: Sequence[Heard],
) -> AskMany[Answers]:
    """The answers to every row; those that were heard are not asked again."""
    is_known = np.zeros(keep.shape[:2], np.bool_)
    for rows, _ in heard:
        is_known.reshape(-1)[rows] = True
    inside = (np.arange(keep.shape[2]) < n_units[:, None])[:, None] & ~is_known[:, :, None]
    asked = Looks(questions, keep[inside], (~is_known).sum(1), masking)
    answers = yield asked
    asked_rows = np.flatnonzero(~is_known)
    parts = [*heard, *([(asked_rows, answers.logits)] if len(asked_rows) else [])]
    logits = parts[0][1].new_empty(is_known.size, parts[0][1].shape[1])
    for rows, known in parts:
        logits[torch.from_numpy(rows)] = known
    return replace(answers, rows=np.full(len(questions), keep.shape[1]), logits=logits)


def both_ends(answers: Answers) -> Heard:
    """The first and the last row of each text: the whole and nothing of it, whatever the order between."""
    count = len(answers.logits) // len(answers.questions)
    rows = np.arange(len(answers.logits)).reshape(-1, count)[:, [0, -1]].reshape(-1)
    return rows, answers.logits[torch.from_numpy(rows)]


def _overheard(ask: AskMany[list[Attribution]]) -> AskMany[tuple[list[Attribution], Tensor | None]]:
    """The result of an ask, and what the model said of the inputs as they are, where it asked that of each once."""
    answers: Answers | None = None
    logits: Tensor | None = None
    while True:
        try:
            asked = next(ask) if answers is None else ask.send(answers)
        except StopIteration as stop:
            return stop.value, logits
        answers = yield asked
        rows = asked.whole_rows()
        if asked.want == LOGITS and asked.masking is None and len(rows) == len(asked.questions):
            logits = answers.logits[torch.from_numpy(rows)]


def _erased(question: Question, left: Bools, masking: Masking) -> Question:
    base = torch.from_numpy(left.astype(np.float32))
    return Question(question.encoding, question.target, question.against, base, masking, question.seed)
