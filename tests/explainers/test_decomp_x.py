import numpy as np
import pytest
import torch
from tests.explainers import slow_layers
from tests.explainers.slow_layers import OTHERS, POST_NORM, TEXTS, array, model_of

from fakes import encoder
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.explainers import _layers
from troth.explainers.decomp_x import DecompX, _bend, _share
from troth.maskings.delete import Delete
from troth.maskings.mask_token import MaskToken
from troth.models.encoder import Encoder
from troth.verbs.explain import explain


def share(parts, bias):
    """Bias among the parts in proportion to |⟨part, bias⟩|."""
    weights = [abs(part @ bias) for part in parts]
    return [part + weight / sum(weights) * bias for part, weight in zip(parts, weights, strict=True)]


def through(linear, parts):
    return share([linear.w @ part for part in parts], linear.b)


def bend(activation, parts):
    whole = sum(parts)
    return [part * activation(whole) / whole for part in parts]


def normalize(norm, parts):
    whole = sum(parts)
    return share([slow_layers.norm_linear(norm, part, whole) for part in parts], norm.b)


def head_of(model):
    network = model.model
    if network.config.model_type == "distilbert":
        modules, act = (network.pre_classifier, network.classifier), torch.relu
    elif network.config.model_type == "bert":
        modules, act = (network.bert.pooler.dense, network.classifier), torch.tanh
    else:
        modules, act = (network.classifier.dense, network.classifier.out_proj), torch.tanh
    dense, out = (slow_layers.SimpleNamespace(w=array(module.weight), b=array(module.bias)) for module in modules)
    return dense, slow_layers.activation(act), out


def slow(model, ids, token_types=None):
    """DecompX, one part of one token at a time: [length, classes]."""
    hidden, attentions, logits = slow_layers.seen(model, ids, token_types)
    n, size = hidden[0].shape
    parts = [[hidden[0][i] if k == i else np.zeros(size) for k in range(n)] for i in range(n)]
    for number, layer in enumerate(slow_layers.layers_of(model)):
        per_head, after = size // layer.heads, []
        for i in range(n):
            mixed = []
            for k in range(n):
                vector = np.zeros(size)
                for j in range(n):
                    value = layer.value.w @ parts[j][k]
                    if number == 0 and j == k:
                        value = value + layer.value.b
                    for head in range(layer.heads):
                        here = slice(head * per_head, (head + 1) * per_head)
                        vector += attentions[number][head, i, j] * (layer.output.w[:, here] @ value[here])
                mixed.append(vector + parts[i][k])
            bias = layer.output.b if number == 0 else layer.output.w @ layer.value.b + layer.output.b
            ours = normalize(layer.norm_1, share(mixed, bias))
            inner = bend(layer.act, through(layer.up, ours))
            outer = through(layer.down, inner)
            after.append(normalize(layer.norm_2, [one + other for one, other in zip(ours, outer, strict=True)]))
            assert sum(after[i]) == pytest.approx(hidden[number + 1][i], abs=1e-5)
        parts = after
    dense, act, out = head_of(model)
    found = np.array(through(out, bend(act, through(dense, parts[0]))))
    assert found.sum(0) == pytest.approx(logits, abs=1e-5)
    return found


def test_a_bias_is_shared_by_hand():
    # ⟨(1, 0), (2, 1)⟩ = 2 and ⟨(0, −4), (2, 1)⟩ = −4: one third and two thirds; padding gets nothing.
    parts = torch.tensor([[[[1.0, 0.0], [0.0, -4.0], [0.0, 0.0]]]])
    shared = _share(parts, torch.tensor([2.0, 1.0]), torch.tensor([[True, True, False]]))[0, 0]
    assert shared.flatten().tolist() == pytest.approx([1 + 2 / 3, 1 / 3, 4 / 3, -4 + 2 / 3, 0, 0])


def test_a_bias_no_part_points_to_is_shared_equally_among_the_real_tokens():
    parts = torch.tensor([[[[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]]]])
    shared = _share(parts, torch.tensor([0.0, 3.0]), torch.tensor([[True, True, False]]))[0, 0]
    assert shared.tolist() == [[1.0, 1.5], [2.0, 1.5], [0.0, 0.0]]


def test_an_activation_is_a_line_through_the_origin_by_hand():
    # Columns: whole 2 passes ReLU, whole −2 does not, whole 0 has the slope just right of it.
    parts = torch.tensor([[[[3.0, 1.0, 5.0], [-1.0, -3.0, -5.0]]]])
    assert _bend(torch.relu, parts)[0, 0].tolist() == [[3.0, 0.0, 5.0], [-1.0, 0.0, -5.0]]
    slope = np.tanh(2.0) / 2
    assert _bend(torch.tanh, parts)[0, 0, :, 0].tolist() == pytest.approx([3 * slope, -slope])


@pytest.mark.parametrize("family", POST_NORM)
def test_equals_the_slow_twin_in_a_padded_batch(family):
    model = model_of(family)
    for attribution in explain(model, TEXTS[1:], "decomp_x", units="token"):
        encoding = attribution.question.encoding
        expected = slow(model, encoding.ids, encoding.token_types)[:, attribution.target]
        inside = encoding.units >= 0
        assert attribution.scores == pytest.approx(expected[inside], abs=1e-5)
        assert attribution.rest == pytest.approx(expected[~inside].sum(), abs=1e-5)
        assert attribution.signed


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("family", POST_NORM)
def test_parts_sum_to_the_logits(family, seed):
    model = model_of(family, seed)
    for target in range(3):
        for attribution in explain(model, TEXTS, "decomp_x", target=target):
            encoding = attribution.question.encoding
            _, _, logits = slow_layers.seen(model, encoding.ids, encoding.token_types)
            assert attribution.scores.sum() + attribution.rest == pytest.approx(logits[target], abs=1e-4)
            assert abs(attribution.gap) < 1e-4


def test_a_contrast_is_the_difference_of_two_columns():
    model = model_of("bert")
    first, second, contrast = (
        explain(model, TEXTS, "decomp_x", target=target, against=against)
        for target, against in ((0, None), (2, None), (0, 2))
    )
    for one, other, both in zip(first, second, contrast, strict=True):
        assert both.scores == pytest.approx(one.scores - other.scores, abs=1e-6)
        assert both.rest == pytest.approx(one.rest - other.rest, abs=1e-6)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_alone_in_company_and_in_small_chunks(family, monkeypatch):
    model = model_of(family)
    together = explain(model, TEXTS, "decomp_x", target=1)
    alone = [explain(model, [text], "decomp_x", target=1)[0] for text in TEXTS]
    monkeypatch.setattr(_layers, "CHUNK_BYTES", {"cpu": 1})
    in_chunks = explain(model, TEXTS, "decomp_x", target=1)
    for one, other, third in zip(together, alone, in_chunks, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-5)
        assert one.scores == pytest.approx(third.scores, abs=1e-5)


def test_both_texts_of_a_pair():
    model = model_of("bert")
    (first,) = explain(model, [TEXTS[2]], "decomp_x", target=1)
    (both,) = explain(model, [TEXTS[2]], "decomp_x", target=1, segments="both")
    assert len(both.scores) > len(first.scores)
    assert both.scores[: len(first.scores)] == pytest.approx(first.scores, abs=1e-6)
    assert both.scores[len(first.scores) :].sum() + both.rest == pytest.approx(first.rest, abs=1e-5)


@pytest.mark.parametrize("erased_by", [MaskToken(), Delete()])
def test_an_input_that_was_erased_before(erased_by):
    model = model_of("bert")
    (encoding,) = model.encode([Example("0", "the soup was cold")], "token")
    base = torch.tensor([1.0, 0, 1, 1])
    attribution = Prober(model).ask(DecompX().ask([Question(encoding, 1).erased(base, erased_by)]))[0]
    if isinstance(erased_by, Delete):
        stays = [0, 1, 3, 4, 5]  # [CLS] comes first
        expected = np.zeros(6)
        expected[stays] = slow(model, encoding.ids[stays], encoding.token_types[stays])[:, 1]
    else:
        masked = encoding.ids.index_fill(0, torch.tensor([2]), model.mask_id)
        expected = slow(model, masked, encoding.token_types)[:, 1]
    assert attribution.scores == pytest.approx(expected[1:-1], abs=1e-5)


def test_one_layer_is_first_and_last():
    network = slow_layers.hf_model("bert")
    network.load_state_dict(model_of("bert").model.state_dict())
    network.bert.encoder.layer = network.bert.encoder.layer[:1]
    network.config.num_hidden_layers = 1
    model = Encoder(network, model_of("bert").tokenizer, name="shallow")
    (attribution,) = explain(model, ["the soup was cold"], "decomp_x", units="token", target=0)
    encoding = attribution.question.encoding
    assert attribution.scores == pytest.approx(slow(model, encoding.ids, encoding.token_types)[1:-1, 0], abs=1e-5)


def test_no_units_at_all():
    (attribution,) = explain(model_of("bert"), [""], "decomp_x", target=0)
    assert attribution.scores.shape == (0,)
    _, _, logits = slow_layers.seen(model_of("bert"), attribution.question.encoding.ids)
    assert attribution.rest == pytest.approx(logits[0], abs=1e-5)


def test_half_precision():
    network = slow_layers.hf_model("bert")
    network.load_state_dict(model_of("bert").model.state_dict())
    half = Encoder(network.to(torch.bfloat16), model_of("bert").tokenizer, name="half")
    both = (explain(model, TEXTS, "decomp_x", target=1) for model in (half, model_of("bert")))
    for rough, fine in zip(*both, strict=True):
        assert rough.scores == pytest.approx(fine.scores, abs=0.05)


@pytest.mark.parametrize("family", OTHERS)
def test_other_layers_are_refused_by_name(family):
    with pytest.raises(TrothError, match=r"^decomp_x reads BERT-, RoBERTa- and DistilBERT-like layers"):
        explain(encoder(family), TEXTS, "decomp_x")


def test_a_bert_that_is_built_otherwise_is_refused():
    network = slow_layers.hf_model("bert")
    network.bert.pooler.activation = torch.nn.Sigmoid()
    model = Encoder(network, model_of("bert").tokenizer, name="odd bert")
    with pytest.raises(TrothError, match=r"^decomp_x cannot take odd bert apart: the parts miss its logits"):
        explain(model, TEXTS, "decomp_x")
