import numpy as np
import pytest
import torch
from tests.explainers import slow_layers
from tests.explainers.slow_layers import OTHERS, POST_NORM, TEXTS, model_of

import troth
from fakes import encoder, planted
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.explainers import _layers
from troth.explainers.alti import Alti, Shares
from troth.maskings.delete import Delete
from troth.maskings.mask_token import MaskToken
from troth.models.encoder import Encoder
from troth.verbs.explain import explain


def slow(model, ids, token_types=None):
    """ALTI, one pair of tokens at a time."""
    hidden, attentions, _ = slow_layers.seen(model, ids, token_types)
    matrices = []
    for layer, states, attention in zip(slow_layers.layers_of(model), hidden, attentions, strict=False):
        n = len(states)
        matrix = np.zeros((n, n))
        for i in range(n):
            parts = [slow_layers.attention_part(layer, states, attention, i, j) for j in range(n)]
            whole = sum(parts) + layer.output.b
            y = slow_layers.norm_linear(layer.norm_1, whole, whole) + layer.norm_1.b
            for j in range(n):
                T = slow_layers.norm_linear(layer.norm_1, parts[j], whole)
                matrix[i, j] = max(0.0, np.abs(y).sum() - np.abs(y - T).sum())
            if matrix[i].sum() > 0:
                matrix[i] /= matrix[i].sum()
        matrices.append(matrix)
    return slow_layers.rolled_out(matrices)


def layer_with(scale, bias):
    """A layer of which only the first norm is looked at."""
    norm = _layers.Norm(torch.tensor(scale), torch.tensor(bias), eps=0.0)
    return _layers.Layer(2, value=None, output=None, norm_1=norm, up=None, activation=None, down=None, norm_2=None)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        # The whole (3, 1) has mean 2 and deviation 1, so y = (1, −1), ‖y‖₁ = 2.
        # T = ±(0.75, −0.75), ±(0.25, −0.25): the distances are 0.5 and 1.5, the gains 1.5 and 0.5.
        ([[2.0, 0.5], [1.0, 0.5]], [0.75, 0.25]),
        # T = (2, −2), (−1, 1): as far as nothing and further; a row without gain stays zero.
        ([[4.0, 0.0], [-1.0, 1.0]], [0.0, 0.0]),
    ],
)
def test_shares_by_hand(parts, expected):
    parts = torch.tensor([[parts]])
    shares = Shares().weigh(layer_with([1.0, 1.0], [0.0, 0.0]), parts, parts.sum(2))
    assert shares[0, 0].tolist() == pytest.approx(expected)


def test_the_bias_of_the_norm_is_in_y_but_in_no_part():
    # y = (1, −1)·2 + (1, 0) = (3, −2); T = (1.5, −1.5), (0.5, −0.5): ‖y‖₁ = 5, distances 1.5 + 0.5 and 2.5 + 1.5.
    parts = torch.tensor([[[[2.0, 0.5], [1.0, 0.5]]]])
    shares = Shares().weigh(layer_with([2.0, 2.0], [1.0, 0.0]), parts, parts.sum(2))
    assert shares[0, 0].tolist() == pytest.approx([3 / 4, 1 / 4])


@pytest.mark.parametrize("family", POST_NORM)
def test_equals_the_slow_twin_in_a_padded_batch(family):
    model = model_of(family)
    for attribution in explain(model, TEXTS, "alti", units="token"):
        encoding = attribution.question.encoding
        expected = slow(model, encoding.ids, encoding.token_types)
        inside = encoding.units >= 0
        assert attribution.scores == pytest.approx(expected[inside], abs=1e-5)
        assert attribution.rest == pytest.approx(expected[~inside].sum(), abs=1e-5)
        assert attribution.rest > 0
        assert not attribution.signed


@pytest.mark.parametrize("erased_by", [MaskToken(), Delete()])
def test_an_input_that_was_erased_before(erased_by):
    model = model_of("bert")
    (encoding,) = model.encode([Example("0", "a good film with a bad ending")], "token")
    base = torch.tensor([1.0, 0, 1, 1, 0, 1, 1])
    attribution = Prober(model).ask(Alti().ask([Question(encoding, 1).erased(base, erased_by)]))[0]
    gone = encoding.units.new_tensor([2, 5])  # [CLS] comes first
    if isinstance(erased_by, Delete):
        stays = [place for place in range(len(encoding.ids)) if place not in gone.tolist()]
        expected = np.zeros(len(encoding.ids))
        expected[stays] = slow(model, encoding.ids[stays], encoding.token_types[stays])
    else:
        expected = slow(model, encoding.ids.index_fill(0, gone, model.mask_id), encoding.token_types)
    assert attribution.scores == pytest.approx(expected[1:-1], abs=1e-5)


def test_attention_that_hands_over_nothing_leaves_everything_with_the_first_token():
    model = model_of("bert", seed=5)
    network = slow_layers.hf_model("bert", seed=5)
    network.load_state_dict(model.model.state_dict())
    with torch.no_grad():
        for layer in network.bert.encoder.layer:
            layer.attention.output.dense.weight.zero_()
    (attribution,) = explain(Encoder(network, model.tokenizer, name="deaf"), ["a good film"], "alti")
    assert attribution.scores.tolist() == [0, 0, 0]
    assert attribution.rest == pytest.approx(1)


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_alone_in_company_and_in_small_chunks(family, monkeypatch):
    model = model_of(family)
    together = explain(model, TEXTS, "alti")
    alone = [explain(model, [text], "alti")[0] for text in TEXTS]
    monkeypatch.setattr(_layers, "CHUNK_BYTES", {"cpu": 1})
    in_chunks = explain(model, TEXTS, "alti")
    for one, other, third in zip(together, alone, in_chunks, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-6)
        assert one.scores == pytest.approx(third.scores, abs=1e-6)


def test_both_texts_of_a_pair():
    model = model_of("bert")
    (first,) = explain(model, [TEXTS[2]], "alti")
    (both,) = explain(model, [TEXTS[2]], "alti", segments="both")
    assert both.scores[: len(first.scores)] == pytest.approx(first.scores)
    assert both.scores[len(first.scores) :].sum() == pytest.approx(first.rest - both.rest, abs=1e-6)


@pytest.mark.parametrize("family", OTHERS)
def test_other_layers_are_refused_by_name(family):
    model = encoder(family)
    kind = model.model.config.model_type
    with pytest.raises(
        TrothError, match=f"^alti reads BERT-, RoBERTa- and DistilBERT-like layers; '{kind}' has others"
    ):
        explain(model, TEXTS, "alti")


def test_a_black_box_is_refused_by_name():
    with pytest.raises(TrothError, match="layers for alti to read; use leave_one_out"):
        troth.explain(planted(), "an awful film", "alti")


def test_an_adapter_is_refused():
    class Adapted(torch.nn.Module):
        def forward(self, inputs):
            return inputs

    network = slow_layers.hf_model("bert")
    network.bert.encoder.layer[0].attention.self.value = Adapted()
    with pytest.raises(TrothError, match="not Adapted; merge the adapter"):
        explain(Encoder(network, model_of("bert").tokenizer, name="adapted"), ["a film"], "alti")
