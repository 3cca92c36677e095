"""What a model says of whole examples, and how much of a text must go before it says something else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from troth.explaining import explain_each
from troth.looks import Ask, Look, keep_all
from troth.measuring import measure_each
from troth.models import TextClassifier
from troth.probing import Prober
from troth.types import Encoding, Example, Question


def predict(model: TextClassifier, examples: Iterable[Example]) -> Tensor:
    """[examples, classes] logits."""
    return logits_of(model, model.encode(examples, "word"))


def logits_of(model: TextClassifier, encodings: Iterable[Encoding]) -> Tensor:
    """[examples, classes] of whole examples as the model reads them."""
    found = list(Prober(model).run(_logits(encoding) for encoding in encodings))
    return torch.stack(found) if found else torch.zeros(0, len(model.labels))


def flip_fraction(model: TextClassifier, examples: Sequence[Example], explainer: str = "attention") -> float:
    """The mean share of tokens that must go, most important first, before the predicted class changes."""
    prober = Prober(model)
    attributions = list(explain_each(prober, examples, explainer, units="token"))
    return float(np.nanmean([score.value for score in measure_each(prober, attributions, "decision_flip")]))


def _logits(encoding: Encoding) -> Ask[Tensor]:
    question = Question(encoding, 0)
    answer = yield Look(question, keep_all(question))
    return answer.logits[0]
