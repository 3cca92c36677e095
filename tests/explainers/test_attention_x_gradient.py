import math

import numpy as np
import pytest
import torch
from tests.explainers.referees import Formula, explained, questions

import troth
from fakes import FAMILIES, encoder
from troth.core.errors import TrothError
from troth.explainers.attention_x_gradient import AttentionXGradient


def test_by_hand():
    # The logit is Σ α · number, so its gradient with respect to α is the number itself.
    numbers = {"good": math.log(3), "film": math.log(4)}
    model = Formula(numbers, lambda values, weights: (weights * values).sum(1))
    (attribution,) = troth.explain(model, "good film", "attention_x_gradient", target=1)
    assert attribution.scores == pytest.approx([3 / 9 * math.log(3), 4 / 9 * math.log(4)])
    assert attribution.rest == pytest.approx(0)
    (attribution,) = troth.explain(model, "good film", "attention_x_gradient(of=probability)", target=1)
    probability = 1 / (1 + math.exp(-(3 / 9 * math.log(3) + 4 / 9 * math.log(4))))
    slope = probability * (1 - probability)
    assert attribution.scores == pytest.approx([slope * 3 / 9 * math.log(3), slope * 4 / 9 * math.log(4)])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("heads", ["mean", "each"])
def test_against_a_loop_over_heads_and_tokens(family, heads):
    model = encoder(family)
    asked = questions(family)
    for question, attribution in zip(
        asked, explained(AttentionXGradient(of="probability", heads=heads), asked, model), strict=True
    ):
        encoding = question.encoding
        types = {} if encoding.token_types is None else {"token_type_ids": encoding.token_types[None]}
        model.model.set_attn_implementation("eager")
        try:
            output = model.model(input_ids=encoding.ids[None], output_attentions=True, **types)  # with its parameters
            last = output.attentions[-1]
            last.retain_grad()
            output.logits.softmax(-1)[0, 1].backward()
        finally:
            model.model.set_attn_implementation("sdpa")
            model.model.zero_grad()
        weights, slopes = last.detach()[0, :, 0], last.grad[0, :, 0]  # [heads, length]
        count = len(weights)
        expected = np.zeros(question.n_units)
        for token, unit in enumerate(encoding.units.tolist()):
            if unit < 0:
                continue
            if heads == "each":
                expected[unit] += (
                    sum(float(weights[head, token] * slopes[head, token]) for head in range(count)) / count
                )
            else:
                mean_weight = sum(float(weights[head, token]) for head in range(count)) / count
                expected[unit] += mean_weight * sum(float(slopes[head, token]) for head in range(count)) / count
        assert attribution.scores == pytest.approx(expected, abs=1e-6)


def test_both_ways_agree_on_one_head_and_differ_on_two():
    asked = questions()
    mean, each = (explained(AttentionXGradient(heads=heads), asked)[0].scores for heads in ("mean", "each"))
    assert np.abs(mean - each).max() > 1e-3
    model = Formula({"good": 1.0, "film": 2.0}, lambda values, weights: (weights * values).sum(1))
    one = [troth.explain(model, "good film", f"attention_x_gradient(heads={heads})")[0] for heads in ("mean", "each")]
    assert one[0].scores == pytest.approx(one[1].scores)


def test_the_model_is_as_before():
    model = encoder("bert")
    model.model.zero_grad()  # other tests share it
    before = (model.model.config._attn_implementation, [p.requires_grad for p in model.model.parameters()])
    troth.explain(model, "a good film", "attention_x_gradient")
    assert before == (model.model.config._attn_implementation, [p.requires_grad for p in model.model.parameters()])
    assert all(parameter.grad is None or not torch.any(parameter.grad) for parameter in model.model.parameters())


def test_a_black_box_refuses():
    with pytest.raises(TrothError, match="no word vectors"):
        troth.explain(lambda texts: [[0.5, 0.5]] * len(texts), "good film", "attention_x_gradient")
