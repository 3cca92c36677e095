"""`precision="fast"` keeps the order of units, and is never taken for the exact numbers."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import fakes
import troth
from sampled import every
from troth.core.errors import TrothError
from troth.models.fused import reading
from troth.models.fused.products import Copies, multiplies_halves
from troth.sweep.context import Context

METHODS = (
    "gradient", "input_x_gradient", "integrated_gradients(steps=10)", "leave_one_out", "lime(samples=100)",
    "kernel_shap(samples=100)", "beam_search(width=3)",
)  # fmt: skip


@pytest.fixture(scope="module")
def models():
    return troth.load_model("embedded"), troth.load_model("embedded", precision="fast")


@pytest.mark.parametrize("method", every(4, METHODS))
def test_ranks_are_those_of_the_exact_numbers(method, models):
    exact, fast = models
    texts = [example.text for example in troth.load_data("reviews")[:8]]
    pairs = list(zip(*(troth.explain(model, texts, method, progress=False) for model in (exact, fast)), strict=True))
    assert np.mean([spearmanr(own.scores, other.scores).statistic for own, other in pairs]) >= 0.99
    if method != "beam_search(width=3)":  # its scores are ranks
        assert any((own.scores != other.scores).any() for own, other in pairs)


def test_only_what_lies_between_two_layers_norms_is_rounded(models):
    layer = models[1].model.bert.encoder.layer[0].output.dense
    values = torch.randn(5, layer.in_features)
    product = Copies()(values, layer)
    assert product.dtype == torch.bfloat16
    torch.testing.assert_close(product.float(), layer(values), atol=0.05, rtol=0.02)


@pytest.mark.parametrize("heads", [1, 4])
def test_attention_in_halves_is_attention(heads):
    torch.manual_seed(0)
    query, key, value = (torch.randn(5, 24, 64).bfloat16() for _ in range(3))
    hidden = torch.zeros(5, 1, 1, 24)
    hidden[2, ..., 7:] = -torch.inf
    for mask in (None, hidden):
        mine = reading._in_halves(query, key, value, mask, heads)
        assert mine.dtype == torch.bfloat16
        theirs = reading._as_torch_does(query.float(), key.float(), value.float(), mask, heads)
        torch.testing.assert_close(mine.float(), theirs, atol=0.03, rtol=0.02)


@pytest.mark.skipif(not multiplies_halves(), reason="this processor has no instructions for bfloat16")
def test_attention_in_halves_is_for_several_short_rows_of_the_fast_lane(models, monkeypatch):
    seen = []
    before = reading._in_halves
    monkeypatch.setattr(
        reading, "_in_halves", lambda query, *rest: seen.append(query.shape[:2]) or before(query, *rest)
    )
    exact, fast = models
    for words, method in ((24, "gradient"), (4, "leave_one_out")):
        troth.explain(fast, " ".join(["film"] * words), method, progress=False)
    troth.explain(exact, " ".join(["film"] * 24), "leave_one_out", progress=False)
    assert seen == []
    troth.explain(fast, " ".join(["film"] * 24), "leave_one_out", progress=False)
    assert {length for _, length in seen} == {26}


def test_a_result_says_which_precision_it_has(models):
    exact, fast = models
    assert fast.spec == {"precision": "fast"}
    assert exact.spec == {}
    assert fast.fingerprint == f"{exact.fingerprint}-fast"
    attribution = troth.explain(fast, "a dull film", "gradient")[0]
    assert "bfloat16" in attribution.note
    assert attribution.model == fast.fingerprint
    assert "bfloat16" not in troth.explain(exact, "a dull film", "gradient")[0].note


def test_runs_of_two_precisions_are_never_mixed():
    context = Context()
    exact, fast = context.model_spec("embedded"), context.model_spec("embedded", {"precision": "fast"})
    assert exact.key != fast.key
    assert exact.model_fingerprint != fast.model_fingerprint
    assert context.model(fast).precision == "fast"
    assert context.model(exact).precision == "exact"


def test_the_command_line_takes_it(request):
    call = request.getfixturevalue("troth")
    for precision, noted in (("fast", True), ("exact", False)):
        options = ("-e", "gradient", "--no-proof", "--json", "--precision", precision)
        code, out, _ = call("explain", "a dull film", *options)
        assert code == 0
        assert ("bfloat16" in out) is noted


def test_what_cannot_be_fast_is_refused():
    with pytest.raises(TrothError, match="precision must be exact or fast, not 'quick'"):
        troth.load_model("embedded", precision="quick")
    albert, tokenizer = fakes.hf_model("albert"), fakes.tokenizer_for("albert")
    with pytest.raises(TrothError, match="AlbertForSequenceClassification"):
        troth.load_model(albert, tokenizer, precision="fast")
    with pytest.raises(TrothError, match="precision is for"):
        troth.load_model(lambda texts: np.ones((len(texts), 2)), labels=["a", "b"], precision="fast")
