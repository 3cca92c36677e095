"""What an attribution model starts from: the pretrained encoder where a record names it, else the explained one."""

import json

import pytest
import torch

import troth
from fakes import hf_model, tokenizer_for
from troth.attribution_model.start import start
from troth.core import trust
from troth.core.errors import TrothError
from troth.models._bases import pretrained_of


def save(folder, seed, **config):
    """A classifier in a folder, told from others by its seed; config.json gets more entries."""
    torch.manual_seed(seed)
    model = hf_model(classes=2)
    for weight in model.parameters():
        weight.data += 0.01 * torch.randn_like(weight)
    model.save_pretrained(folder)
    tokenizer_for("bert").save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return str(folder)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save(folder / "pretrained", 1)
    save(folder / "tuned", 2)
    return folder


def first_layer(model):
    return model.encoder.layer[0].attention.self.query.weight


def record(folder, base):
    (folder / "train.json").write_text(json.dumps({"identity": {"base": base}}))


def weights(place, name):
    return first_layer(troth.load_model(str(place / name)).model.bert)


def test_the_pretrained_encoder_that_train_json_names(place):
    record(place / "tuned", f"pretrained(path={str(place / 'pretrained')!r})")
    model = troth.load_model(str(place / "tuned"))
    begun = start(model, None, seed=0)
    assert begun.source == str(place / "pretrained")
    assert begun.words == "pretrained, from which tuned was fine-tuned (train.json)"  # no path of this machine
    torch.testing.assert_close(first_layer(begun.model.backbone), weights(place, "pretrained"))
    # The released code's way: asked for by name, or with its variant.
    for explained in (start(model, "explained", seed=0), start(model, None, seed=0, variant="released")):
        assert explained.source == "explained"
        torch.testing.assert_close(first_layer(explained.model.backbone), weights(place, "tuned"))


def test_other_records(place, tmp_path):
    relative = save(tmp_path / "by_config", 3, _name_or_path=str(place / "pretrained"))
    assert pretrained_of(relative)[0] is None  # a folder elsewhere is read only where the user names it
    with trust.allowing(str(place)):
        assert pretrained_of(relative) == (str(place / "pretrained"), "config.json")
    itself = save(tmp_path / "itself", 3, _name_or_path=str(tmp_path / "itself"))
    assert pretrained_of(itself)[0] is None
    record(tmp_path / "itself", "embedded()")
    assert pretrained_of(itself) == ("embedded", "train.json")
    from_shipped = start(troth.load_model(itself), None, seed=0)
    assert from_shipped.model.backbone.config.hidden_size == 256
    (tmp_path / "itself" / "train.json").write_text("[")  # damaged: as if it were not there
    assert pretrained_of(itself)[0] is None


@pytest.mark.parametrize(
    ("base", "why"),
    [
        ("scratch(layers=2)", "was not fine-tuned from a pretrained encoder"),
        ("pretrained(path='/gone/away')", "names /gone/away, which is not available here"),
        ("pretrained(path='nobody/nothing')", "names nobody/nothing, which is not available here"),
    ],
)
def test_without_one_the_explained_encoder_is_used_and_the_reason_given(place, tmp_path, base, why):
    save(tmp_path / "tuned", 4)
    record(tmp_path / "tuned", base)
    begun = start(troth.load_model(str(tmp_path / "tuned")), None, seed=0)
    assert begun.source == "explained"
    assert why in begun.words
    assert "--backbone FOLDER" in begun.words
    torch.testing.assert_close(first_layer(begun.model.backbone), weights(tmp_path, "tuned"))


def test_no_record_and_the_shipped_model(tmp_path):
    save(tmp_path / "tuned", 5)
    assert "no file of" in start(troth.load_model(str(tmp_path / "tuned")), None, seed=0).words
    assert "is not shipped" in start(troth.load_model("embedded"), None, seed=0).words
    with pytest.raises(TrothError, match="cannot load /gone as the backbone"):
        start(troth.load_model("embedded"), "/gone", seed=0)
