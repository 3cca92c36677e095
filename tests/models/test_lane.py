"""The fast lane says what the model says, and stands aside wherever it could not."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import CamembertConfig, CamembertForSequenceClassification

import fakes
import troth
from kinds import state_of
from troth.models import _changes, fused
from troth.models.encoder import Encoder
from troth.models.fused import parts as known_parts

FAMILIES = ("bert", "roberta", "xlm_roberta", "camembert", "electra", "distilbert")
TEXTS = [
    "a good film",
    "my new phone is fast , bright and a joy to use",
    "awful",
    "the soup was cold , the bill absurd",
]
MASKINGS = (
    "mask_token", "delete", "zero", "pad", "mix", "token(id=5)", "soft", 'soft(at="embedding_output")', "gaussian",
    "attention",
)  # fmt: skip


def network(family, **options):
    if family != "camembert":
        return fakes.hf_model(family, **options)
    sizes = {**fakes.SIZES, "vocab_size": len(fakes.tokenizer_for("roberta")), "num_labels": 3, "pad_token_id": 1}
    torch.manual_seed(0)
    return CamembertForSequenceClassification(CamembertConfig(**sizes, initializer_range=0.3, **options)).eval()


def wrapped(family, number_format=torch.float32, **options):
    model = network(family, **options).to(number_format)
    tokenizer = fakes.tokenizer_for("roberta" if family == "camembert" else family)
    return Encoder(model, tokenizer, name=f"tiny {family}")


@contextmanager
def counted(monkeypatch):
    """Which of the two readers was called, without those of the trial."""
    calls = []
    plain, read = Encoder.plain_forward, fused.read
    with monkeypatch.context() as patch:
        patch.setattr(
            Encoder, "plain_forward", lambda *given, **options: calls.append("plain") or plain(*given, **options)
        )
        patch.setattr(fused, "read", lambda *given: calls.append("lane") or read(*given))
        yield calls


def plainly(model, *given, **options):
    with model.at_rest(), _changes.swapped(model._fused, reads=lambda *_: None):
        return troth.explain(model, *given, progress=False, **options)


def rows_of(model):
    return fused._trial_rows(known_parts.parts_of(model.model))


def both(model, rows):
    """Logits and gradient by the lane and by the model; the lane has not stood aside."""
    parts = known_parts.parts_of(model.model)
    with model.at_rest():
        assert model._fused.logits(model.model, rows, lambda rows: model.plain_forward(rows).logits) is not None
        ours = fused._logits_and_gradient(lambda rows: model.forward(rows).logits, rows, parts)
        theirs = fused._logits_and_gradient(lambda rows: model.plain_forward(rows).logits, rows, parts)
    return zip(ours, theirs, strict=True)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [1, 2])
def test_logits_and_gradients_of_ragged_rows_are_those_of_the_model(family, layers):
    model = wrapped(family)
    stack = model.model.base_model.transformer if family == "distilbert" else model.model.base_model.encoder
    stack.layer = stack.layer[:layers]
    assert len(set(rows_of(model).lengths.tolist())) > 2
    for own, other in both(model, rows_of(model)):
        assert float((own - other).abs().max()) <= 1e-5 * max(1, float(other.abs().max()))


@pytest.mark.parametrize(("number_format", "allowed"), [(torch.float64, 1e-12), (torch.bfloat16, 0.1)])
def test_models_in_other_number_formats(number_format, allowed):
    for own, other in both(model := wrapped("roberta", number_format), rows_of(model)):
        assert own.dtype == number_format
        assert float((own - other).abs().max()) <= allowed * float(other.abs().max())


@pytest.mark.parametrize("masking", MASKINGS)
@pytest.mark.parametrize("family", ["bert", "electra", "distilbert"])
def test_rows_erased_by_every_masking(family, masking, monkeypatch):
    model = wrapped(family)
    expected = plainly(model, TEXTS, "leave_one_out", masking=masking)
    troth.explain(model, TEXTS[0], "leave_one_out")
    with counted(monkeypatch) as calls:
        attributions = troth.explain(model, TEXTS, "leave_one_out", masking=masking)
    assert set(calls) == {"lane"}
    for own, other in zip(attributions, expected, strict=True):
        np.testing.assert_allclose(own.scores, other.scores, atol=1e-5)


@pytest.mark.parametrize("explainer", ["gradient", "input_x_gradient", "integrated_gradients(steps=5)"])
def test_pairs_with_token_types(explainer, monkeypatch):
    model, pairs = wrapped("bert"), list(zip(TEXTS, reversed(TEXTS), strict=True))
    assert model.encode([troth.Example("0", *pairs[0])])[0].token_types.max() == 1
    expected = plainly(model, pairs, explainer, segments="both")
    for own, other in zip(troth.explain(model, pairs, explainer, segments="both"), expected, strict=True):
        np.testing.assert_allclose(own.scores, other.scores, atol=1e-5 * max(1, np.abs(other.scores).max()))


def test_more_tokens_than_go_at_a_time(monkeypatch):
    model = wrapped("bert")
    whole = troth.explain(model, TEXTS, "leave_one_out")
    monkeypatch.setattr(fused, "_TOKENS", 20)
    for own, other in zip(troth.explain(model, TEXTS, "leave_one_out"), whole, strict=True):
        np.testing.assert_allclose(own.scores, other.scores, atol=1e-5)


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("change", ["step", "data", "replaced"])
def test_weights_that_the_user_changes_between_two_calls(precision, change):
    model = wrapped("bert", num_hidden_layers=3)
    model = Encoder(model.model, model.tokenizer, name="tiny", precision=precision)
    before = troth.explain(model, TEXTS, "leave_one_out")
    layer = model.model.bert.encoder.layer[0].output
    if change == "step":
        optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
        for parameter in layer.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
    elif change == "data":
        layer.dense.weight.data += torch.randn_like(layer.dense.weight)
    else:
        torch.manual_seed(1)
        layer.dense = nn.Linear(32, 16)
    expected = plainly(model, TEXTS, "leave_one_out")
    for own, other, old in zip(troth.explain(model, TEXTS, "leave_one_out"), expected, before, strict=True):
        moved = float(np.abs(other.scores - old.scores).max())
        assert float(np.abs(own.scores - other.scores).max()) <= (1e-5 if precision == "exact" else 0.2 * moved)


def test_the_model_is_left_as_it_was():
    model = wrapped("bert")
    model.model.train()
    before = state_of(model.model)
    troth.explain(model, TEXTS, ["gradient", "leave_one_out", "integrated_gradients(steps=3)"])
    assert state_of(model.model) == before


class Scaled(nn.Linear):
    """A layer that an adapter has put in another's place."""

    def forward(self, values):
        return 2 * super().forward(values)


def hooked(model):
    model.bert.encoder.layer[0].register_forward_hook(lambda _module, _inputs, output: output * 1.5)


def adapted(model):
    layer = model.bert.encoder.layer[1].output
    adapter = Scaled(32, 16)
    adapter.load_state_dict(layer.dense.state_dict())
    layer.dense = adapter


def patched(model):
    inner = model.bert.encoder.forward
    model.bert.encoder.forward = lambda *given, **options: inner(*given, **options)


def another_activation(model):
    for layer in model.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn = nn.SiLU()


@pytest.mark.parametrize("change", [hooked, adapted, patched, another_activation])
def test_a_changed_model_reads_its_texts_itself(change, monkeypatch):
    model = wrapped("bert")
    troth.explain(model, TEXTS, "leave_one_out")  # the lane is proved and in use
    change(model.model)
    with counted(monkeypatch) as calls:
        attributions = troth.explain(model, TEXTS, "leave_one_out")
    assert set(calls) == {"plain"}
    for own, other in zip(attributions, plainly(model, TEXTS, "leave_one_out"), strict=True):
        np.testing.assert_allclose(own.scores, other.scores, atol=1e-6)


@pytest.mark.parametrize("family", ["albert", "deberta_v2", "modernbert"])
def test_other_families_read_their_texts_themselves(family, monkeypatch):
    with counted(monkeypatch) as calls:
        troth.explain(wrapped(family), TEXTS, "gradient")
    assert set(calls) == {"plain"}


def test_a_lane_that_says_something_else_is_not_used(monkeypatch):
    read = fused.read
    monkeypatch.setattr(fused, "read", lambda *given: read(*given) * 1.001)
    model = wrapped("bert")
    for own, other in zip(
        troth.explain(model, TEXTS, "leave_one_out"), plainly(model, TEXTS, "leave_one_out"), strict=True
    ):
        np.testing.assert_array_equal(own.scores, other.scores)


def test_a_model_that_says_the_same_of_everything_proves_nothing(monkeypatch):
    model = wrapped("bert")
    weight = model.model.classifier.weight
    trained = weight.detach().clone()
    weight.data.zero_()
    with counted(monkeypatch) as calls:
        troth.explain(model, TEXTS, "gradient")
        assert set(calls) == {"plain"}
        weight.data.copy_(trained)
        calls.clear()
        troth.explain(model, TEXTS, "gradient")
        assert "lane" in calls


def test_whoever_follows_each_operation_or_reads_insides_gets_the_model_itself(monkeypatch):
    model = wrapped("bert")
    troth.explain(model, TEXTS, "gradient")
    for explainer in ("deep_lift", "attention", "attention_x_gradient"):
        with counted(monkeypatch) as calls:
            troth.explain(model, TEXTS, explainer, target=0)
        assert "plain" in calls, explainer
    with torch.autocast("cpu", torch.bfloat16), counted(monkeypatch) as calls:
        troth.explain(model, TEXTS, "leave_one_out")
    assert set(calls) == {"plain"}


def test_rows_in_any_order_come_back_in_theirs():
    model = wrapped("bert")
    rows = rows_of(model)
    backward = torch.arange(len(rows)).flip(0)
    turned = replace(
        rows, ids=rows.ids[backward], lengths=rows.lengths[backward], token_types=rows.token_types[backward]
    )
    torch.testing.assert_close(model.forward(turned).logits, model.forward(rows).logits[backward], atol=1e-6, rtol=1e-5)
