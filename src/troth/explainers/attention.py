"""How much the position that the classifier reads attends to the token: the last layer's attention weights α, averaged
over heads (Bahdanau et al., 2015; as an explanation: Jain & Wallace, 2019).

That position is the first token ([CLS], or the only query of a BiLSTM's attention), in a decoder the last one. For a
head that averages all positions, their weights are averaged. In an encoder-decoder (BART, T5) it is the end-of-text
token of the decoder, and the weights are those of its cross-attention to the encoder's tokens. Weights of tokens
outside all units ([CLS] and [SEP] get much attention) are not redistributed: they are the attribution's `rest`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from troth.core.types import Attribution, Question, Rows
from troth.engine.probes import Reading, Readout, at_least_single, whole_inputs
from troth.engine.routines import Routine
from troth.explainers import Explainer
from troth.models import TextClassifier


def from_reader(attention: Tensor, model: TextClassifier, rows: Rows) -> Tensor:
    """The attention of the position that the classifier reads. [rows, heads, queries, length] -> [rows, heads,
    length]
    """
    if attention.shape[2] == 1:
        return attention[:, :, 0]
    place = model.reading_place(rows)
    if place is None:
        count = rows.lengths[:, None, None]
        return (attention * rows.real[:, None, :, None]).sum(2) / count
    return attention[torch.arange(len(rows), device=attention.device), :, place]


@dataclass(frozen=True)
class Weights(Readout):
    attentions = True
    about_target = False

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        with torch.no_grad():
            output = model.forward(rows, attentions=True)
        weights = from_reader(output.attentions[-1], model, rows).mean(1)
        return Reading(output.logits, {"weights": at_least_single(weights) * rows.real})


@dataclass(frozen=True)
class Attention(Explainer):
    signed = False
    formula = "sᵢ = mean over heads of α[c, i], last layer"
    pitfalls = "Shows where the model looks, not how it uses what it reads: the scores are the same for every class."

    def reads(self) -> Weights:
        return Weights()

    def ask(self, questions: Sequence[Question]) -> Routine[list[Attribution]]:
        return self.from_units((yield whole_inputs(questions, self.reads())), "weights")
