import json
import warnings

import pytest
import torch
from typer.testing import CliRunner

import troth
from troth.cli import app
from troth.training import bases


def logits(model, text="a dull film with a great cast"):
    with torch.no_grad():
        return model.model(**model.tokenizer(text, return_tensors="pt")).logits[0]


@pytest.fixture(scope="module")
def shipped():
    return troth.load_model("embedded", device="cpu", dtype="float32")


def test_the_shipped_model_is_a_base_with_its_head_where_the_classes_are_its_own(shipped):
    model = bases.build("embedded").build([], ("negative", "positive"), 0, None)
    assert model.name == "embedded"
    torch.testing.assert_close(logits(model), logits(shipped), atol=1e-5, rtol=0)


@pytest.mark.parametrize("labels", [("objective", "subjective"), ("positive", "negative"), ("a", "b", "c")])
def test_other_classes_get_a_new_head_on_the_same_body(shipped, labels):
    one, same, other = (bases.build("embedded").build([], labels, seed, None) for seed in (0, 0, 1))
    assert one.labels == labels
    body = shipped.model.base_model.state_dict()
    for name, tensor in one.model.base_model.state_dict().items():
        torch.testing.assert_close(tensor, body[name])
    head = one.model.classifier.weight
    assert head.shape == (len(labels), body["embeddings.word_embeddings.weight"].shape[1])
    assert torch.equal(head, same.model.classifier.weight)
    assert not torch.equal(head, other.model.classifier.weight)
    assert not any(torch.allclose(row, known) for row in head for known in shipped.model.classifier.weight)


def test_the_commands_take_it(tmp_path, films):
    file = tmp_path / "films.jsonl"
    rows = [{"id": one.id, "text": one.text, "label": ["bad", "good"][one.label]} for one in films(24)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = ["--data", str(file), "--base", "embedded"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained = CliRunner().invoke(
            app, ["train", "plain", *common, "--epochs", "1", "--out", str(tmp_path / "m"), "--cpu", "--json"]
        )
        assert trained.exit_code == 0, trained.output
        study = CliRunner().invoke(
            app, ["study", "roar(step=0.5, epochs=1, explainers=('gradient',))", *common, "--only", "faithfulness",
                  "--dry-run", "--out", str(tmp_path / "s")],
        )  # fmt: skip
        assert study.exit_code == 0, study.output
    assert troth.load_model(str(tmp_path / "m"), device="cpu").labels == ("bad", "good")
    assert json.loads(trained.stdout)["identity"]["base"] == "embedded"
