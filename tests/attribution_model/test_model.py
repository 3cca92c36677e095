import pytest
import torch
from tests.attribution_model.batches import rows_of
from transformers import GPT2Config, GPT2Model

from asking import Additive
from fakes import FAMILIES, attribution_model, encoder, hf_model, tokenizer_for
from troth.attribution_model import saving
from troth.attribution_model.model import NEVER, from_backbone, from_model, read
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models.encoder import Encoder


def test_label_encoding_by_hand():
    own = attribution_model()
    own.prediction.data = torch.arange(16.0)
    own.classes.data = torch.stack([torch.ones(16), 10 * torch.ones(16), 100 * torch.ones(16)])
    told = own.label_vector(torch.tensor([[0.5, 0.3, 0.2]]))
    torch.testing.assert_close(told, torch.arange(16.0)[None] + 0.5 + 3 + 20)
    own.variant = "released"  # divides the sum by the number of classes
    torch.testing.assert_close(own.label_vector(torch.tensor([[0.5, 0.3, 0.2]])), torch.arange(16.0)[None] + 23.5 / 3)


def test_label_vectors_are_drawn_with_the_range_of_the_backbone():
    wide = Encoder(hf_model("bert", initializer_range=0.5), tokenizer_for("bert"), name="wide")
    models = [from_model(wide, seed) for seed in range(9)]
    drawn = torch.cat([torch.cat([own.prediction[None], own.classes]) for own in models])
    assert drawn.std().item() == pytest.approx(0.5, rel=0.15)
    again = from_model(wide, 8)
    torch.testing.assert_close(again.classes, drawn[-3:])


@pytest.mark.parametrize("family", FAMILIES)
def test_one_more_token_behind_the_text_and_a_score_for_the_others(family):
    own, model = attribution_model(family), encoder(family)
    rows = rows_of(model, ["a good film", "the soup was cold and awful"])
    told = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    found = own.scores(read(own, rows), told)
    for row, encoding in enumerate(rows.encodings):
        words = own.backbone.get_input_embeddings()(encoding.ids)
        label = own.prediction + told[row] @ own.classes
        inputs = {"inputs_embeds": torch.cat([words, label[None]])[None]}
        if encoding.token_types is not None and family != "distilbert":
            inputs["token_type_ids"] = torch.cat([encoding.token_types, torch.zeros(1, dtype=torch.int64)])[None]
        states = own.backbone(**inputs).last_hidden_state[0]
        scores = torch.tanh(states @ own.hidden.weight.T + own.hidden.bias) @ own.score.weight[0] + own.score.bias
        expected = [scores[place] for place, unit in enumerate(encoding.units.tolist()) if unit >= 0]
        torch.testing.assert_close(found[row, : encoding.n_units], torch.stack(expected), rtol=1e-4, atol=1e-5)
        assert (found[row, encoding.n_units :] == NEVER).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_embeddings_are_frozen_and_fine_tuning_leaves_the_labels(family):
    own = attribution_model(family)
    trained = {name for name, weight in own.named_parameters() if weight.requires_grad}
    assert not any(name.startswith("backbone.embeddings.") for name in trained)
    assert {"prediction", "classes", "hidden.weight", "score.bias"} <= trained
    assert set(own.own_weights()) == trained - {"prediction", "classes"}


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_of_its_own_for_each_row_are_as_one_model_each(family):
    model = encoder(family)
    rows = rows_of(model, ["a good film", "the soup was cold and awful", "why ?"])
    models = [attribution_model(family, seed=seed) for seed in range(3)]
    with torch.no_grad():
        for seed, own in enumerate(models):
            for weight in own.own_weights().values():
                weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed))
    told = torch.full((3, 3), 1 / 3)
    own = models[0]
    weights = {name: torch.stack([one.own_weights()[name] for one in models]) for name in own.own_weights()}
    page = read(own, rows)
    found = own.scores_of_each(weights, page, own.label_vector(told))
    for row, one in enumerate(models):
        one.prediction.data, one.classes.data = own.prediction.data, own.classes.data
        expected = one.scores(page.take(slice(row, row + 1)), told[[row]])
        torch.testing.assert_close(found[[row]], expected, rtol=1e-3, atol=1e-4)


def test_scores_are_mapped_through_characters():
    """G cuts words into letters and pieces, F into words: the highest of them; a piece over two units goes to both."""
    own, model = attribution_model("roberta"), encoder("bert")
    (encoding,) = model.encode([Example("0", "a good book")], "word")
    own.require_fit(model)
    page = read(own, rows_of(model, ["a good book"], "word"))
    pieces = tokenizer_for("roberta")("a good book", return_offsets_mapping=True)
    scores = torch.arange(1.0, len(pieces["input_ids"]) + 2)[None]
    expected = []
    for start, end in encoding.unit_spans:
        inside = [
            float(scores[0, place])
            for place, (first, last) in enumerate(pieces["offset_mapping"])
            if max(first, start) < min(last, end)
        ]
        expected.append(max(inside))
    assert page.per_unit(scores)[0].tolist() == expected
    # The other way round: F's letters each have the score of G's word.
    letters = encoder("roberta")
    page = read(attribution_model("bert"), rows_of(letters, ["good"]))
    count = len(letters.tokenizer.tokenize("good"))
    assert page.per_unit(torch.tensor([[0.0, 7.0, 0.0, 0.0]])).tolist() == [[7.0] * count]


def test_what_lies_behind_the_last_token_of_the_attribution_model_scores_nothing():
    own, model = attribution_model(), encoder("bert")
    rows = rows_of(model, [" ".join(["good"] * 62)])  # 64 tokens: F reads them all, G one less
    page = read(own, rows)
    assert page.ids.shape == (1, 64)
    assert page.per_unit(torch.ones(1, 64))[0].tolist() == [1.0] * 61 + [NEVER]


def test_saved_and_loaded(tmp_path):
    own = attribution_model("roberta")
    saving.save(tmp_path, own, {"loss": {"inverse": 0.5}, "metric": "log_odds", "learning_rate": 1e-3})
    loaded = saving.load(tmp_path)
    assert loaded is saving.load(tmp_path)
    for name, weight in own.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], weight)
    assert saving.loss_of(saving.facts(tmp_path)).inverse == 0.5


def test_another_model_of_the_same_classes_is_warned_of(tmp_path):
    model = encoder("bert")
    about = {"loss": {}, "metric": "log_odds", "model": {"fingerprint": model.fingerprint}}
    saving.save(tmp_path, attribution_model(), about)
    own = saving.load(tmp_path)
    own.require_fit(model)  # its own: no warning, which would be an error here
    with pytest.warns(UserWarning, match="fitted to another model of these classes"):
        own.require_fit(encoder("bert", seed=1))


def test_bad_folders(tmp_path):
    with pytest.raises(TrothError, match=r"there is no folder .*nowhere; fit one"):
        saving.load(tmp_path / "nowhere")
    with pytest.raises(TrothError, match="no attribution model is in"):
        saving.load(tmp_path)
    (tmp_path / saving.FACTS).write_text("{}")
    with pytest.raises(TrothError, match="cannot be read"):
        saving.load(tmp_path)
    saving.save(tmp_path, attribution_model(), {"loss": {}, "metric": "log_odds"})
    (tmp_path / "attributive.safetensors").write_bytes(b"nothing")
    with pytest.raises(TrothError, match="cannot load the attribution model"):
        saving.load(tmp_path)


def test_bad_backbones(tmp_path):
    model = encoder("bert")
    with pytest.raises(TrothError, match=r"cannot load .*nowhere as the backbone"):
        from_backbone(str(tmp_path / "nowhere"), model, 0)
    config = GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=99)
    GPT2Model(config).save_pretrained(tmp_path)
    tokenizer_for("bert").save_pretrained(tmp_path)
    with pytest.raises(TrothError, match="does not read in both directions"):
        from_backbone(str(tmp_path), model, 0)
    with pytest.raises(TrothError, match="name one: --backbone"):
        from_model(Additive({"good": 1.0}), 0)


def test_the_explained_model_is_not_touched():
    model = encoder("bert")
    before = model.fingerprint, model.model.config._attn_implementation
    own = from_model(model, 0)
    with torch.no_grad():
        for weight in own.parameters():
            weight.zero_()
    del model.__dict__["fingerprint"]
    assert (model.fingerprint, model.model.config._attn_implementation) == before
