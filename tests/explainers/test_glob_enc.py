import numpy as np
import pytest
import torch
from tests.explainers import slow_layers
from tests.explainers.slow_layers import OTHERS, POST_NORM, TEXTS, model_of

from fakes import encoder
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.engine.answers import Answers
from troth.engine.prober import Prober
from troth.engine.probes import keep_all
from troth.explainers import _layers
from troth.explainers.glob_enc import GlobEnc, Norms
from troth.maskings.zero import Zero
from troth.models.encoder import Encoder
from troth.verbs.explain import explain


def slow(model, ids, token_types=None):
    """GlobEnc, one pair of tokens at a time."""
    hidden, attentions, _ = slow_layers.seen(model, ids, token_types)
    matrices = []
    for number, layer in enumerate(slow_layers.layers_of(model)):
        states, attention = hidden[number], attentions[number]
        n = len(states)
        matrix = np.zeros((n, n))
        for i in range(n):
            parts = [slow_layers.attention_part(layer, states, attention, i, j) for j in range(n)]
            whole = sum(parts) + layer.output.b
            y = slow_layers.norm_linear(layer.norm_1, whole, whole) + layer.norm_1.b
            second = y + layer.down.w @ layer.act(layer.up.w @ y + layer.up.b) + layer.down.b
            end = slow_layers.norm_linear(layer.norm_2, second, second) + layer.norm_2.b
            assert end == pytest.approx(hidden[number + 1][i], abs=1e-5)  # the twin has read the model rightly
            for j in range(n):
                T = slow_layers.norm_linear(layer.norm_1, parts[j], whole)
                matrix[i, j] = np.sqrt((slow_layers.norm_linear(layer.norm_2, T, second) ** 2).sum())
        matrices.append(matrix)
    return slow_layers.rolled_out(matrices)


def test_norms_by_hand():
    # First norm: the whole (3, 1) has deviation 1, so T = (0.75, −0.75), (0.25, −0.25) and y = (1, −1) + (2, 2).
    # Feed-forward: ReLU of the first element, 3, goes into the second: (3, 1 + 3) has deviation 0.5; γ = (3, 4).
    identity = _layers.Norm(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 2.0]), eps=0.0)
    layer = _layers.Layer(
        heads=1,
        value=None,
        output=None,
        norm_1=identity,
        up=_layers.Linear(torch.tensor([[1.0, 0.0]]), torch.tensor([0.0])),
        activation=torch.relu,
        down=_layers.Linear(torch.tensor([[0.0], [1.0]]), torch.tensor([0.0, 0.0])),
        norm_2=_layers.Norm(torch.tensor([3.0, 4.0]), torch.tensor([9.0, 9.0]), eps=0.0),
    )
    parts = torch.tensor([[[[2.0, 0.5], [1.0, 0.5]]]])
    # ‖(0.75·3, 0.75·4)‖ / 0.5 = 0.75 · 5 · 2
    assert Norms().weigh(layer, parts, parts.sum(2))[0, 0].tolist() == pytest.approx([7.5, 2.5])


@pytest.mark.parametrize("family", POST_NORM)
def test_equals_the_slow_twin_in_a_padded_batch(family):
    model = model_of(family)
    for attribution in explain(model, TEXTS, "glob_enc", units="token"):
        encoding = attribution.question.encoding
        expected = slow(model, encoding.ids, encoding.token_types)
        inside = encoding.units >= 0
        assert attribution.scores == pytest.approx(expected[inside], rel=1e-4)
        assert attribution.rest == pytest.approx(expected[~inside].sum(), rel=1e-4)
        assert attribution.note == ""
        assert not attribution.signed


def test_an_input_whose_word_vectors_were_erased_before():
    model = model_of("bert")
    (encoding,) = model.encode([Example("0", "the soup was cold")])
    question = Question(encoding, 1)
    attribution = Prober(model).ask(GlobEnc().ask([question.erased(torch.tensor([1.0, 0, 1, 1]), Zero())]))[0]
    # The same as asking a model in which "soup" has a zero vector from the start.
    network = slow_layers.hf_model("bert")
    network.load_state_dict(model.model.state_dict())
    with torch.no_grad():
        network.get_input_embeddings().weight[encoding.ids[encoding.units == 1]] = 0
    (expected,) = explain(Encoder(network, model.tokenizer, name="without"), ["the soup was cold"], "glob_enc")
    assert attribution.scores == pytest.approx(expected.scores, rel=1e-4)
    assert attribution.scores != pytest.approx(Prober(model).ask(GlobEnc().ask([question]))[0].scores, rel=1e-2)


def test_alone_in_company_and_in_small_chunks(monkeypatch):
    model = model_of("roberta")
    together = explain(model, TEXTS, "glob_enc")
    alone = [explain(model, [text], "glob_enc")[0] for text in TEXTS]
    monkeypatch.setattr(_layers, "CHUNK_BYTES", {"cpu": 1})
    in_chunks = explain(model, TEXTS, "glob_enc")
    for one, other, third in zip(together, alone, in_chunks, strict=True):
        assert one.scores == pytest.approx(other.scores, rel=1e-5)
        assert one.scores == pytest.approx(third.scores, rel=1e-5)


def test_what_leaves_single_precision_is_scaled_and_says_so():
    (encoding,) = model_of("bert").encode([Example("0", "good film")])
    question = Question(encoding, 0)
    ask = GlobEnc().ask([question])
    (probe,) = next(ask)
    assert torch.equal(probe.keep, keep_all(question))
    huge = Answers(
        [question],
        np.array([1]),
        torch.zeros(1, 3),
        {"reach": torch.tensor([[2e39, 1e40]], dtype=torch.float64)},
        {"reach": torch.tensor([4e39], dtype=torch.float64)},
        {},
    )
    with pytest.raises(StopIteration) as stop:
        ask.send([huge])
    (attribution,) = stop.value.value
    assert attribution.scores.tolist() == pytest.approx([2e37, 1e38])
    assert attribution.rest == pytest.approx(4e37)
    assert "divided by 100" in attribution.note


@pytest.mark.parametrize("family", OTHERS)
def test_other_layers_are_refused_by_name(family):
    with pytest.raises(TrothError, match=r"^glob_enc reads BERT-, RoBERTa- and DistilBERT-like layers"):
        explain(encoder(family), TEXTS, "glob_enc")
