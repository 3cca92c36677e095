"""A kind of model that gives only what it must: it is explained by erasing, and refuses the rest by name."""

import pytest
import torch

import fakes
import troth
import troth.models
from troth.core.errors import TrothError
from troth.models import Output, TextClassifier
from troth.models._encoding import Units
from troth.validity.checking import check
from troth.validity.randomization import parameter_randomization


class Shortness(TextClassifier):
    """Class 1's logit falls by one with every word that is left."""

    kind = "a rule"
    name = "shortness"
    labels = ("long", "short")
    fingerprint = "shortness"

    def encode(self, examples, units="word", segments="first"):
        encodings = []
        for example in examples:
            assembled = Units(units)
            assembled.add(0, example.text)
            encodings.append(assembled.encoding(example))
        return encodings

    def forward(self, rows, *, attentions=False, hidden=False):
        self.refuse_insides(rows, attentions=attentions, hidden=hidden)
        return Output(torch.stack([torch.zeros(len(rows)), 2.0 - rows.lengths], dim=-1))


def test_it_is_explained_and_measured():
    model = Shortness()
    assert troth.load_model(model) is model
    (attribution,) = troth.explain(model, "a good film", "leave_one_out", target="short", masking="delete")
    assert attribution.scores.tolist() == [-1.0, -1.0, -1.0]
    (score,) = troth.measure(model, [attribution], "sufficiency(ratio=0.4)")  # one word of three is kept
    full, kept = torch.sigmoid(torch.tensor([-1.0, 1.0])).tolist()
    assert score.value == pytest.approx(full - kept)


@pytest.mark.parametrize(
    ("explainer", "masking", "lacks"),
    [
        ("leave_one_out", "mask_token", "mask token"),
        ("leave_one_out", "pad", "padding token"),
        ("leave_one_out", "zero", "word vectors"),
        ("leave_one_out", "soft", "word vectors"),
        ("leave_one_out", "attention", "attention to mask"),
        ("gradient", "delete", "word vectors"),
        ("attention", "delete", "attentions or hidden states"),
    ],
)
def test_what_it_does_not_override_it_refuses_by_name(explainer, masking, lacks):
    with pytest.raises(TrothError) as caught:
        troth.explain(Shortness(), "a good film", explainer, masking=masking)
    assert str(caught.value).startswith(f"shortness has no {lacks} (it is a rule); use ")


@pytest.mark.parametrize("name", ["embedding_matrix", "embedding_size", "embedding_output_size", "dtype", "gram"])
def test_vectors_are_refused_however_they_are_asked_for(name):
    with pytest.raises(TrothError, match=r"shortness has no word vectors \(it is a rule\)"):
        getattr(Shortness(), name)


def test_checks_that_need_its_inside_refuse_it():
    with pytest.raises(TrothError, match=r"shortness has no hidden states \(it is a rule\); MaSF cannot test it"):
        check(Shortness(), [f"film {number}" for number in range(60)])
    with pytest.raises(TrothError, match="shortness has no weights to shuffle"):
        parameter_randomization(Shortness(), ["a good film"], "leave_one_out", masking="delete")
    with pytest.raises(TrothError, match="a rule cannot be loaded; build Shortness yourself"):
        Shortness.load("somewhere")


def test_the_kinds_are_the_files():
    assert list(troth.models.kinds()) == [
        "black_box", "continuation", "embedded", "encoder", "encoder_decoder", "multiple_choice", "prompted", "remote",
        "remote_continuation", "similarity", "token_classification", "windowed", "zero_shot",
    ]  # fmt: skip


@pytest.mark.parametrize("source", [5, None, ["a", "list"]])
def test_what_no_kind_takes(source):
    with pytest.raises(TrothError, match=f"no kind of model takes a {type(source).__name__}; pass one of: a function"):
        troth.load_model(source)


def test_two_kinds_that_take_the_same(tmp_path, monkeypatch):
    code = "from troth.models.black_box import BlackBox\n\n\nclass {}(BlackBox):\n    pass\n"
    for file, name in (("left_box", "LeftBox"), ("right_box", "RightBox")):
        (tmp_path / f"{file}.py").write_text(code.format(name))
    monkeypatch.setattr(troth.models, "__path__", [*troth.models.__path__, str(tmp_path)])
    with pytest.raises(TrothError, match="LeftBox and RightBox both accept this function"):
        troth.load_model(fakes.planted())
    (tmp_path / "right_box.py").unlink()
    assert type(troth.load_model(fakes.planted())).__name__ == "LeftBox"  # more special than BlackBox


def test_a_twin_forgets_what_was_computed_from_the_weights():
    model = fakes.encoder("bert")
    assert not model.has_rms_norm
    twin = model.twin()
    assert twin.fingerprint == model.fingerprint
    assert twin.tokenizer is not None
    with torch.no_grad():
        twin.model.classifier.weight.add_(1)
    assert twin.fingerprint == model.fingerprint  # until it is told
    twin.forget()
    assert twin.fingerprint != model.fingerprint
    assert fakes.encoder("bert").model.classifier.weight is not twin.model.classifier.weight
