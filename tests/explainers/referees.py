"""What explainers are checked against: a model whose formula the test writes, and plain calls of a random one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fakes import encoder, hf_model, tokenizer_for
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.models import Output
from troth.models._reading import CallConvention
from troth.models.encoder import Encoder

TEXTS = ["a good film , not a bad book", "why would anyone pay for this ?", "unlovable", "my new phone is fast"]


class Formula(Encoder):
    """One number a word (0 unless given) and a class-1 logit that is a formula of the numbers; class 0 has logit 0.

    Its attention, as a BiLSTM's, is one softmax over the numbers. A formula may read places that only the test's own
    text has, so it is not tried on others.
    """

    pads = True  # padding has no number
    call_convention = CallConvention()

    def ready(self, level, *, backward):
        """It does all."""

    def __init__(self, numbers: dict[str, float], formula: Callable[[Tensor, Tensor], Tensor]) -> None:
        tokenizer = tokenizer_for("bert")
        super().__init__(hf_model("bert", classes=2), tokenizer, name="formula")
        self.formula = formula
        with torch.no_grad():
            self.embedding_matrix.zero_()
            for word, number in numbers.items():
                self.embedding_matrix[tokenizer.convert_tokens_to_ids(word), 0] = number

    def forward(self, rows, *, attentions=False, hidden=False):
        numbers = rows.vectors(self)[..., 0].masked_fill(~rows.real, 0)
        weights = numbers.masked_fill(~rows.real, -torch.inf).softmax(-1)[:, None, None]
        value = self.formula(numbers, weights[:, 0, 0])
        return Output(torch.stack([torch.zeros_like(value), value], dim=1), attentions=(weights,) if attentions else ())


def total(numbers: Tensor, weights: Tensor) -> Tensor:
    """The sum of the words' numbers."""
    return numbers.sum(1)


def questions(family: str = "bert", units: str = "word", texts: list[str] = TEXTS, target: int = 1) -> list[Question]:
    """What is asked about each text of a random model."""
    examples = [Example(id=str(number), text=text) for number, text in enumerate(texts)]
    return [Question(encoding, target) for encoding in encoder(family).encode(examples, units)]


def explained(explainer, asked: list[Question], model=None, masking: str = "mask_token"):
    """The explainer's scores, all examples together."""
    return Prober(model or encoder("bert"), masking).ask(explainer.ask(asked))


def from_vectors(model, question: Question, of: Callable[[Tensor], Tensor] = lambda logits: logits):
    """The transformers model as a function of the word vectors of one text, as Captum wants it."""
    encoding = question.encoding

    def forward(vectors: Tensor) -> Tensor:
        types = None if encoding.token_types is None else encoding.token_types.expand(len(vectors), -1)
        extra = {} if types is None else {"token_type_ids": types}
        return of(model.model(inputs_embeds=vectors, **extra).logits)

    return forward, model.embed(encoding.ids[None]).detach()


def value(model, question: Question, erased: list[int], of: str = "logit") -> float:
    """The target's value when these units are masked: one plain call."""
    encoding = question.encoding
    ids = encoding.ids.clone()
    for unit in erased:
        ids[encoding.units == unit] = model.mask_id
    types = None if encoding.token_types is None else encoding.token_types[None]
    with torch.no_grad():
        logits = model.model(input_ids=ids[None], **({} if types is None else {"token_type_ids": types})).logits[0]
    values = {"logit": logits, "probability": logits.softmax(-1), "log_probability": logits.log_softmax(-1)}[of]
    return float(values[question.target])
