"""What a model says of whole examples."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from troth.core.types import Encoding, Example, Question
from troth.engine.answers import Answers
from troth.engine.prober import Prober
from troth.engine.probes import Probe, keep_all
from troth.engine.routines import Routine
from troth.models import TextClassifier


def predict(model: TextClassifier, examples: Iterable[Example]) -> Tensor:
    """[examples, classes] logits."""
    return logits_of(model, model.encode(examples, "word"))


def logits_of(model: TextClassifier, encodings: Iterable[Encoding]) -> Tensor:
    """[examples, classes] of whole examples as the model reads them."""
    found = list(Prober(model).run(_logits(encoding) for encoding in encodings))
    return torch.stack(found) if found else torch.zeros(0, len(model.labels))


def _logits(encoding: Encoding) -> Routine[Tensor]:
    question = Question(encoding, 0)
    answers: Answers = yield Probe(question, keep_all(question))
    return answers.logits[0]
