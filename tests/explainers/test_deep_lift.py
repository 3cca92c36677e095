import math

import pytest
import torch
from captum.attr import DeepLift as CaptumDeepLift
from torch import nn
from transformers.activations import NewGELUActivation

import troth
from fakes import FAMILIES, encoder, hf_model, planted, tokenizer_for
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.core.user_code import UserCodeError
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.explainers._multipliers import multipliers
from troth.explainers.deep_lift import DeepLift
from troth.maskings.delete import Delete
from troth.maskings.mask_token import MaskToken
from troth.maskings.mix import Mix
from troth.models.encoder import Encoder
from troth.verbs.explain import explain

TEXTS = [
    "a good film with a bad ending",
    "the soup was cold",
    ("is the film good ?", "the book was better , honestly ."),
]


def lifted(function, inputs, reference):
    """The contribution of every input element, for one row."""
    inputs, reference = torch.tensor([inputs]), torch.tensor([reference])
    value, before, found = multipliers(lambda row: function(row).reshape(1), inputs, reference)
    contributions = (found * (inputs - reference))[0]
    assert contributions.sum() == pytest.approx(float(value - before), abs=1e-5)
    return contributions.tolist()


def change(model, encoding, target, of="logit", baseline="zero", moves="units"):
    """f(input) − f(reference), by two plain looks at the model."""

    def ask():
        ends = torch.tensor([1.0, 0.0])
        keep = ends[:, None].expand(-1, encoding.n_units)
        others = ends if moves == "all" else None
        answer = yield Probe(Question(encoding, target), keep, Mix(reference=baseline), non_unit_keep=others)
        return answer.value(of)

    value = Prober(model).ask(ask())
    return float(value[0] - value[1])


def test_one_neuron_by_hand():
    # 2a − 3b − 1 is 2 at the input and −1 at the reference; ReLU makes that 2 and 0, so its multiplier is 2/3.
    scores = lifted(lambda x: torch.relu(2 * x[:, 0] - 3 * x[:, 1] - 1), [3.0, 1.0], [0.0, 0.0])
    assert scores == pytest.approx([2 / 3 * 6, 2 / 3 * -3])


def test_a_product_by_hand():
    # 3·5 − 1·2 = 13 = (3 − 1)·(5 + 2)/2 + (3 + 1)/2·(5 − 2)
    assert lifted(lambda x: x[:, 0] * x[:, 1], [3.0, 5.0], [1.0, 2.0]) == pytest.approx([7, 6])


def test_a_quotient_by_hand():
    # 6/2 − 1/1 = 2; the mean quotient is 2 and the mean divisor 1.5, so a brings 5/1.5 and b −2·1/1.5.
    assert lifted(lambda x: x[:, 0] / x[:, 1], [6.0, 2.0], [1.0, 1.0]) == pytest.approx([10 / 3, -4 / 3])


def test_a_linear_model_gives_weight_times_difference():
    layer = nn.Linear(4, 1)
    weight = layer.weight[0].tolist()
    scores = lifted(layer, [1.0, -2.0, 0.5, 3.0], [0.5, 1.0, 0.5, -1.0])
    assert scores == pytest.approx([0.5 * weight[0], -3 * weight[1], 0, 4 * weight[3]], abs=1e-6)


def test_where_nothing_moves_the_slope_counts_and_the_score_is_zero():
    inputs, reference = torch.tensor([[0.3, 1.0]]), torch.tensor([[0.3, 0.0]])
    _, _, found = multipliers(lambda x: torch.tanh(x).sum(1), inputs, reference)
    assert found[0, 0] == pytest.approx(1 - math.tanh(0.3) ** 2, abs=1e-6)
    assert found[0, 1] == pytest.approx(math.tanh(1.0), abs=1e-6)


def test_an_activation_written_out_equals_the_rule_for_it_as_a_whole():
    activation = NewGELUActivation()
    y, before = (float(activation(torch.tensor(x))) for x in (1.5, -0.5))
    assert lifted(lambda x: activation(x[:, 0]), [1.5], [-0.5]) == pytest.approx([y - before], abs=1e-6)


def test_softmax_is_exp_sum_and_log_by_the_rescale_rule():
    now, before = [2.0, -1.0, 0.5], [0.0, 0.3, 0.5]
    total, total_before = sum(map(math.exp, now)), sum(map(math.exp, before))
    of_log = (math.log(total) - math.log(total_before)) / (total - total_before)
    of_sum = [math.exp(x) - math.exp(y) for x, y in zip(now, before, strict=True)]  # what each brings to Σ exp
    logs = [now[0] - math.log(total), before[0] - math.log(total_before)]
    of_exp = (math.exp(logs[0]) - math.exp(logs[1])) / (logs[0] - logs[1])
    expected = [of_exp * ((2.0 if index == 0 else 0.0) - of_log * brought) for index, brought in enumerate(of_sum)]
    assert lifted(lambda x: x.softmax(-1)[:, 0], now, before) == pytest.approx(expected, abs=1e-6)


def test_softmax_does_not_overflow_where_input_and_reference_are_far_apart():
    inputs, reference = (
        torch.tensor([[900.0, 899.0, -torch.inf]]).double(),
        torch.tensor([[0.0, 0.0, -torch.inf]]).double(),
    )
    value, before, found = multipliers(lambda x: nn.functional.softmax(x, dim=-1)[:, 0], inputs, reference)
    assert float(value - before) == pytest.approx(1 / (1 + math.exp(-1)) - 0.5)
    # exp(900) is beyond every float, but the probability moves only by what sets the two apart.
    assert float(900 * found[0, 0] + 899 * found[0, 1]) == pytest.approx(float(value - before))
    assert found[0, 2] == 0


def test_layer_norm_is_its_formula():
    now, before, gamma, eps = [1.0, 4.0, -2.0], [0.0, 1.0, 0.5], [2.0, 1.0, -1.0], 1e-5
    centered, centered_before = ([x - sum(row) / 3 for x in row] for row in (now, before))
    sigma, sigma_before = (math.sqrt(sum(x * x for x in row) / 3 + eps) for row in (centered, centered_before))
    mean_sigma, mean_y = (sigma + sigma_before) / 2, (centered[0] / sigma + centered_before[0] / sigma_before) / 2
    expected = []
    for j in range(3):
        moved = now[j] - before[j]
        to_centered = [moved * ((k == j) - 1 / 3) for k in range(3)]  # what x_j brings to each centered element
        to_variance = sum(c * (centered[k] + centered_before[k]) / 3 for k, c in enumerate(to_centered))
        to_sigma = to_variance / (sigma + sigma_before)
        expected.append(gamma[0] * (to_centered[0] - mean_y * to_sigma) / mean_sigma)
    weight, bias = torch.tensor(gamma), torch.tensor([1.0, 2.0, 3.0])
    scores = lifted(lambda x: nn.functional.layer_norm(x, (3,), weight, bias, eps)[:, 0], now, before)
    assert scores == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.Softplus])
def test_equals_captum_where_captum_is_right(activation):
    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(6, 8), activation(), nn.Linear(8, 8), activation(), nn.Linear(8, 3))
    inputs, reference = torch.randn(5, 6), torch.randn(5, 6)
    _, _, found = multipliers(lambda x: network(x)[:, 1], inputs, reference)
    expected = CaptumDeepLift(network).attribute(inputs, reference, target=1)
    assert (found * (inputs - reference)).tolist() == [pytest.approx(row, abs=1e-5) for row in expected.tolist()]


@pytest.mark.parametrize("baseline", ["zero", "mask"])
@pytest.mark.parametrize("of", ["logit", "probability", "log_probability"])
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_sum_to_the_change(family, of, baseline):
    model = encoder(family)
    for attribution in explain(model, TEXTS, DeepLift(of=of, baseline=baseline)):
        expected = change(model, attribution.question.encoding, attribution.target, of, baseline)
        assert abs(expected) > 1e-5
        assert attribution.scores.sum() == pytest.approx(expected, abs=1e-5 + 1e-4 * abs(expected))
        assert attribution.rest == 0
        assert abs(attribution.gap) < 1e-5


def test_gradient_times_difference_would_not():
    model = encoder()
    for attribution in explain(model, TEXTS, "input_x_gradient"):
        expected = change(model, attribution.question.encoding, attribution.target)
        assert abs(attribution.scores.sum() - expected) > 0.1 * abs(expected)


def test_special_tokens_may_move_too():
    model = encoder()
    for attribution in explain(model, TEXTS, "deep_lift(moves='all')"):
        expected = change(model, attribution.question.encoding, attribution.target, moves="all")
        assert abs(attribution.rest) > 1e-4
        assert attribution.scores.sum() + attribution.rest == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("family", ["bert", "deberta_v2", "modernbert"])
def test_alone_and_in_company(family):
    model = encoder(family)
    together = explain(model, TEXTS, "deep_lift", target=1)
    for text, attribution in zip(TEXTS, together, strict=True):
        (alone,) = explain(model, [text], "deep_lift", target=1)
        assert alone.scores == pytest.approx(attribution.scores, abs=2e-5)


def test_a_contrast_is_the_difference_of_two_classes():
    model = encoder()
    first, second, contrast = (
        explain(model, TEXTS, "deep_lift", target=target, against=against)
        for target, against in ((0, None), (2, None), (0, 2))
    )
    for one, other, both in zip(first, second, contrast, strict=True):
        assert both.scores == pytest.approx(one.scores - other.scores, abs=1e-5)


@pytest.mark.parametrize("erased_by", [MaskToken(), Delete(), Mix(reference="zero")])
def test_an_input_that_was_erased_before(erased_by):
    model = encoder()
    (encoding,) = model.encode([Example("0", "a good film with a bad ending")])
    base = torch.tensor([1.0, 0, 1, 1, 0, 1, 1])
    question = Question(encoding, target=1).erased(base, erased_by)
    prober = Prober(model)

    def ends():
        answer = yield Probe(question, torch.stack([torch.ones(7), 1 - base]), Mix(reference="zero"))
        return answer.value()

    whole, nothing = prober.ask(ends())
    attribution = prober.ask(DeepLift().ask([question]))[0]
    assert attribution.scores.sum() == pytest.approx(float(whole - nothing), abs=1e-5)
    assert attribution.scores[[1, 4]].tolist() == [0, 0]  # a mask token has a word vector of its own, which stays


def test_no_units_at_all():
    (attribution,) = explain(encoder(), [""], "deep_lift")
    assert attribution.scores.shape == (0,)
    assert attribution.gap == 0


def test_half_precision():
    half = Encoder(hf_model().to(torch.bfloat16), tokenizer_for("bert"), name="half")
    both = (explain(model, TEXTS, "deep_lift", target=1) for model in (half, encoder()))
    for rough, fine in zip(*both, strict=True):
        assert rough.scores == pytest.approx(fine.scores, abs=0.05)


def test_the_model_is_as_it_was_even_after_an_exception():
    network = hf_model()
    network.set_attn_implementation("sdpa")
    model = Encoder(network, tokenizer_for("bert"), name="tiny")
    inputs = tokenizer_for("bert")("a good film", return_tensors="pt")
    before = network(**inputs).logits
    explain(model, TEXTS, "deep_lift")

    def fail(*_):
        raise ZeroDivisionError

    handle = network.bert.encoder.layer[1].register_forward_pre_hook(fail)
    with pytest.raises(UserCodeError, match="raised ZeroDivisionError"):
        Prober(model).ask(DeepLift().ask([Question(model.encode([Example("0", "a film")])[0], 0)]))[0]
    handle.remove()
    assert torch.equal(network(**inputs).logits, before)
    assert network.config._attn_implementation == "sdpa"
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())
    x = torch.tensor([0.7], requires_grad=True)
    (slope,) = torch.autograd.grad(torch.tanh(x), x)  # nobody follows any more
    assert float(slope) == pytest.approx(1 - math.tanh(0.7) ** 2, abs=1e-6)


class Sinc(nn.Module):
    def forward(self, inputs):
        return torch.sinc(inputs)


def test_an_operation_without_a_rule_is_refused_by_name():
    network = hf_model()
    for layer in network.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn = Sinc()
    model = Encoder(network, tokenizer_for("bert"), name="odd bert")
    with pytest.raises(TrothError, match=r"deep_lift cannot follow every operation of odd bert.*integrated_gradients"):
        explain(model, TEXTS, "deep_lift")


def test_a_black_box_is_refused_by_name():
    with pytest.raises(TrothError, match="leave_one_out"):
        troth.explain(planted(), "an awful film", "deep_lift")
