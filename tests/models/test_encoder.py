"""Any transformers classifier, from anywhere, read as a plain call reads it, and left as it was."""

import json
import shutil

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2ForSequenceClassification,
    pipeline,
)

import fakes
import troth
from kinds import state_of
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe, keep_all
from troth.maskings.pad import Pad
from troth.models.encoder import Encoder
from troth.verbs.explain import as_examples

TEXTS = ["a good film", "awful", "my new phone is fast , bright and a joy to use", "the soup was cold"]
PAIRS = [("the soup was cold", "is the film good ?"), ("a good film", "nobody")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    fakes.hf_model(classes=3, seed=5).save_pretrained(path)
    fakes.tokenizer_for("bert").save_pretrained(path)
    return path


def logits_of(model, texts, **options):
    def looking(question):
        return (yield Probe(question, keep_all(question), **options)).logits[0]

    encodings = model.encode(as_examples(texts))
    return torch.stack(list(Prober(model).run(looking(Question(encoding, 0)) for encoding in encodings)))


def plain_logits(model, tokenizer, texts):
    """One text at a time, as the documentation of transformers shows it."""
    rows = []
    for text in texts:
        inputs = tokenizer(*([text] if isinstance(text, str) else text), return_tensors="pt")
        with torch.no_grad():
            rows.append(model(**inputs).logits[0])
    return torch.stack(rows)


# --- where a model comes from


def test_a_folder_a_model_in_memory_and_a_pipeline_are_the_same_model(folder):
    tokenizer = fakes.tokenizer_for("bert")
    in_memory = AutoModelForSequenceClassification.from_pretrained(folder)
    expected = plain_logits(in_memory.eval(), tokenizer, TEXTS)
    sources = {
        "folder": troth.load_model(str(folder)),
        "path": troth.load_model(folder),
        "memory": troth.load_model(in_memory, tokenizer=tokenizer),
        "pipeline": troth.load_model(pipeline("text-classification", model=in_memory, tokenizer=tokenizer)),
    }
    for name, model in sources.items():
        torch.testing.assert_close(logits_of(model, TEXTS), expected, rtol=1e-5, atol=1e-5, msg=name)
        assert model.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert len({model.fingerprint for model in sources.values()}) == 1
    assert sources["folder"].fingerprint != fakes.encoder().fingerprint
    assert troth.load_model(sources["folder"]) is sources["folder"]


def test_classes_can_be_named(folder):
    assert troth.load_model(str(folder), labels=["no", "yes", "perhaps"]).labels == ("no", "yes", "perhaps")
    assert fails(str(folder), labels=["no", "yes"]) == f"{folder} has 3 classes, but 2 labels were given: no, yes"


def fails(*arguments, **options):
    with pytest.raises(TrothError) as caught:
        troth.load_model(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_names_and_folders_that_are_no_model(tmp_path, monkeypatch):
    said = fails("nobody/nothing")
    assert said.startswith("cannot load nobody/nothing as a text classifier: ")
    assert fails(str(tmp_path)) == (
        f"{tmp_path} is a folder without config.json, so it is not a model; pass the folder that save_pretrained wrote"
    )
    assert fails(f"{tmp_path}/absent") == f"there is no model folder {tmp_path}/absent"
    monkeypatch.chdir(tmp_path)
    assert fails("./absent") == "there is no model folder ./absent"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", "{"),
        ("config.json", "{}"),
        ("config.json", '{"model_type": "nonsense"}'),
        ("config.json", '["bert"]'),
        ("model.safetensors", "garbage"),
        ("model.safetensors", ""),
        ("tokenizer.json", "{"),
    ],
)
def test_damaged_folders_are_one_line(folder, tmp_path, file, content):
    shutil.copytree(folder, tmp_path / "bad")
    (tmp_path / "bad" / file).write_text(content)
    assert str(tmp_path / "bad") in fails(str(tmp_path / "bad"))


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_folders_with_a_part_missing_are_one_line(folder, tmp_path, file):
    shutil.copytree(folder, tmp_path / "bad")
    (tmp_path / "bad" / file).unlink()
    (tmp_path / "bad" / "tokenizer_config.json").unlink()
    assert str(tmp_path / "bad") in fails(str(tmp_path / "bad"))


def test_weights_of_another_shape_are_one_line(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "bad")
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "bad" / "config.json").write_text(json.dumps(config | {"hidden_size": 32}))
    assert fails(str(tmp_path / "bad")).startswith(f"cannot load {tmp_path / 'bad'} as a text classifier: ")


def test_a_model_without_a_trained_head_is_refused(tmp_path):
    BertForMaskedLM(fakes.hf_model().config).save_pretrained(tmp_path)
    fakes.tokenizer_for("bert").save_pretrained(tmp_path)
    said = fails(str(tmp_path))
    assert "has no trained classification head (" in said
    assert f"troth train plain --base {tmp_path}" in said


@pytest.mark.parametrize("kind", [BertForMaskedLM, BertModel])
def test_a_model_in_memory_that_classifies_no_texts_is_refused(kind):
    model = troth.load_model(kind(fakes.hf_model().config).eval(), tokenizer=fakes.tokenizer_for("bert"))
    with pytest.raises(
        TrothError, match="so it is not a text classifier; load it with AutoModelForSequenceClassification"
    ):
        troth.explain(model, "a good film", "leave_one_out")


def test_what_cannot_be_done_with_a_model_in_memory():
    model, tokenizer = fakes.hf_model(), fakes.tokenizer_for("bert")
    assert fails(model) == "BertForSequenceClassification in memory needs its tokenizer: load_model(model, tokenizer=…)"
    assert "cannot be changed for a model in memory" in fails(model, tokenizer=tokenizer, dtype="bfloat16")
    assert fails(torch.nn.Linear(2, 2), tokenizer=tokenizer).startswith(
        "Linear is not a transformers model; pass one, or"
    )


def test_devices_and_number_formats_that_there_are_not(folder):
    assert (
        fails(str(folder), dtype="float33") == "no number format is called 'float33'; use float32, bfloat16 or float16"
    )
    assert fails(str(folder), device="nowhere").startswith("cannot use device nowhere: ")


# --- the model is left as it was


@pytest.mark.parametrize("explainer", ["leave_one_out", "integrated_gradients(steps=2)", "attention", "gradient"])
def test_a_model_in_training_stays_in_training(explainer):
    model = fakes.hf_model(seed=8).train()
    model.classifier.weight.requires_grad_(False)
    model.bert.encoder.layer[0].eval()  # a part somebody froze
    before = state_of(model)
    wrapped = troth.load_model(model, tokenizer=fakes.tokenizer_for("bert"))
    first = troth.explain(wrapped, TEXTS, explainer)
    second = troth.explain(wrapped, TEXTS, explainer)
    assert state_of(model) == before
    assert model.config._attn_implementation == "sdpa"
    for one, other in zip(first, second, strict=True):  # no dropout while we ask
        assert one.scores.tolist() == other.scores.tolist()


def test_the_tokenizer_stays_as_it_was():
    tokenizer = fakes.wordpiece()
    model = troth.load_model(fakes.hf_model(), tokenizer=tokenizer, max_length=6)
    before = tokenizer.backend_tokenizer.to_str()
    assert model.encode([Example("0", TEXTS[2])])[0].truncated > 0
    assert tokenizer.backend_tokenizer.to_str() == before
    assert len(tokenizer(TEXTS[2])["input_ids"]) > 6


# --- read as a plain call reads it


@pytest.mark.parametrize("family", fakes.FAMILIES)
def test_logits_are_those_of_a_plain_call_in_padded_batches_too(family):
    model = fakes.encoder(family)
    for texts in (TEXTS, PAIRS):
        expected = plain_logits(model.model, model.tokenizer, texts)
        torch.testing.assert_close(logits_of(model, texts), expected, rtol=1e-4, atol=1e-5)
    mixed = [TEXTS[0], PAIRS[0], TEXTS[2], PAIRS[1]]
    expected = plain_logits(model.model, model.tokenizer, mixed)
    torch.testing.assert_close(logits_of(model, mixed), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", fakes.FAMILIES)
def test_pairs_are_tokenized_as_a_plain_call_does(family):
    model = fakes.encoder(family)
    (encoding,) = model.encode([Example("0", *PAIRS[0])])
    plain = model.tokenizer(*PAIRS[0])
    assert encoding.ids.tolist() == plain["input_ids"]
    assert (None if encoding.token_types is None else encoding.token_types.tolist()) == plain.get("token_type_ids")
    assert set(encoding.unit_segments) == {0}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(folder, dtype):
    half, single = troth.load_model(str(folder), dtype=dtype), troth.load_model(str(folder))
    assert half.dtype == getattr(torch, dtype)
    torch.testing.assert_close(logits_of(half, TEXTS), logits_of(single, TEXTS), rtol=0.05, atol=0.05)
    for explainer in ("gradient", "gradient(norm=l1)", "integrated_gradients(steps=4)", "leave_one_out"):
        # The predicted class may differ in half precision, so it is named.
        one, other = (troth.explain(model, TEXTS[2], explainer, target=1)[0] for model in (half, single))
        scale = abs(other.scores).max()
        assert abs(one.scores - other.scores).max() < 0.15 * scale, explainer


@pytest.mark.parametrize("family", ["roberta", "xlm_roberta"])
def test_padded_units_of_roberta_keep_everybody_in_place(family):
    model = fakes.encoder(family)
    (encoding,) = model.encode([Example("0", "the book is good")])
    keep = torch.tensor([[1.0, 0, 1, 1]])

    def looking():
        return (yield Probe(Question(encoding, 0), keep, Pad())).logits

    found = Prober(model).ask(looking())
    ids = encoding.ids.clone()
    ids[encoding.units == 1] = model.pad_id
    positions = torch.arange(len(ids)) + model.pad_id + 1
    inputs = {"input_ids": ids[None], "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    if encoding.token_types is not None:
        inputs["token_type_ids"] = encoding.token_types[None]
    with torch.no_grad():
        by_hand = model.model(**inputs, position_ids=positions[None]).logits
        shifted = model.model(**inputs).logits
    torch.testing.assert_close(found, by_hand, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found, shifted, atol=1e-4)


@pytest.mark.parametrize("pad", [1, None])
def test_a_decoder_with_a_classification_head_reads_the_last_token(pad):
    tokenizer = fakes.tokenizer_for("roberta")
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2, "num_labels": 3}
    plain = GPT2ForSequenceClassification(GPT2Config(**sizes, pad_token_id=pad, bos_token_id=0, eos_token_id=2)).eval()
    with torch.no_grad():
        for parameter in plain.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    model = troth.load_model(plain, tokenizer=tokenizer)
    assert not model.pads
    texts = [*TEXTS, "a good book", "a bad film"]
    torch.testing.assert_close(logits_of(model, texts), plain_logits(plain, tokenizer, texts), rtol=1e-4, atol=1e-5)
    for masking in ("mask_token", "delete"):
        together = troth.explain(model, texts, "leave_one_out", masking=masking)
        for text, attribution in zip(texts, together, strict=True):
            (alone,) = troth.explain(model, text, "leave_one_out", masking=masking)
            torch.testing.assert_close(
                torch.tensor(alone.scores), torch.tensor(attribution.scores), rtol=1e-3, atol=1e-4
            )
    assert plain.config.pad_token_id == pad


# --- truncation


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_end_of_a_long_text_is_cut_off_and_counted(side):
    tokenizer = fakes.wordpiece()
    tokenizer.truncation_side = side
    model = troth.load_model(fakes.hf_model(), tokenizer=tokenizer, max_length=7)
    text = "a good usable film with a cast"
    words, tokens = (model.encode([Example("0", text)], units)[0] for units in ("word", "token"))
    pieces = tokenizer.tokenize(text)
    assert tokenizer.convert_ids_to_tokens(tokens.ids.tolist()) == ["[CLS]", *pieces[:5], "[SEP]"]
    assert tokens.truncated == len(pieces) - 5
    assert pieces[2:5] == ["u", "##s", "##a"]
    assert words.unit_texts == ("a", "good", "usable")
    assert words.truncated == 4
    assert words.units.tolist() == [-1, 0, 1, 2, 2, 2, -1]
    (attribution,) = troth.explain(model, text, "leave_one_out")
    assert attribution.to_dict()["truncated"] == 4


def test_truncation_is_that_of_a_plain_call():
    tokenizer = fakes.wordpiece()
    for family, max_length in (("bert", 9), ("roberta", 12)):
        tokenizer = fakes.tokenizer_for(family)
        model = troth.load_model(fakes.hf_model(family), tokenizer=tokenizer, max_length=max_length)
        for example in (Example("0", TEXTS[2]), Example("1", TEXTS[2], "a good")):
            (encoding,) = model.encode([example])
            texts = [example.text] if example.text_pair is None else [example.text, example.text_pair]
            plain = tokenizer(*texts, truncation="only_first", max_length=max_length)
            assert encoding.ids.tolist() == plain["input_ids"]
            if encoding.token_types is not None:
                assert encoding.token_types.tolist() == plain["token_type_ids"]


def test_a_second_text_is_never_cut():
    model = troth.load_model(fakes.hf_model(), tokenizer=fakes.tokenizer_for("bert"), max_length=8)
    (encoding,) = model.encode([Example("0", "a good film with a cast", "is good")])
    tokens = model.tokenizer.convert_ids_to_tokens(encoding.ids.tolist())
    assert tokens == ["[CLS]", "a", "good", "film", "[SEP]", "is", "good", "[SEP]"]
    assert encoding.truncated == 3
    with pytest.raises(TrothError) as caught:
        model.encode([Example("long", "a good film", "the soup was cold and the bill absurd")])
    assert str(caught.value) == (
        "example long: the second text and the special tokens take 11 of 8 tokens, so no room is left for the text; "
        "shorten the second text"
    )


def test_roberta_has_two_positions_fewer_than_its_table():
    assert fakes.encoder("roberta").max_length == 62
    assert fakes.encoder("bert").max_length == 64
    long = " ".join(["book"] * 80)
    assert torch.isfinite(logits_of(fakes.encoder("roberta"), [long])).all()


# --- units


def units_of(family, text, units="word"):
    (encoding,) = fakes.encoder(family).encode([Example("0", text)], units)
    for span, unit in zip(encoding.unit_spans, encoding.unit_texts, strict=True):
        assert text[slice(*span)] == unit
    return encoding


def test_a_special_token_that_a_user_types_is_a_unit():
    encoding = units_of("bert", "[MASK] good", "token")
    assert encoding.unit_texts == ("[MASK]", "good")
    assert encoding.units.tolist() == [-1, 0, 1, -1]
    assert int(encoding.ids[1]) == fakes.encoder("bert").mask_id
    words = units_of("bert", "[SEP] good")
    assert words.unit_texts == ("[", "SEP", "]", "good")
    assert words.units.tolist() == [-1, 0, 3, -1]  # the token joins the first word it overlaps


@pytest.mark.parametrize("family", fakes.FAMILIES)
@pytest.mark.parametrize(
    "text",
    [
        "👍🏽 good",
        "שלום good عالم",
        "zero\u200bwidth \ufeffgood",
        "ﬁlm ½ İstanbul ",
        "a\u0301 good\r\n\tfilm",
        "  good  ",
    ],
)
def test_odd_texts_keep_their_offsets(family, text):
    for kind in ("word", "token", "sentence"):
        encoding = units_of(family, text, kind)
        of = encoding.units[encoding.units >= 0]
        assert encoding.n_units
        assert torch.equal(of, of.sort().values)  # tokens and units stand in the same order
    words = units_of(family, text)
    joined = {words.unit_texts[unit] for unit in words.units.tolist() if unit >= 0}
    assert "good" in joined or "good" not in text
    (attribution,) = troth.explain(fakes.encoder(family), text, "leave_one_out")
    alone = [score for unit, score in zip(words.unit_texts, attribution.scores, strict=True) if unit not in joined]
    assert all(score == 0 for score in alone)  # what no token joins counts, and scores 0


def test_a_token_over_two_words_joins_the_first():
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "New York": 5, "is": 6}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Split("|", "removed")
    backend.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", mask_token="[MASK]", cls_token="[CLS]"
    )
    model = troth.load_model(fakes.hf_model(), tokenizer=tokenizer)
    (encoding,) = model.encode([Example("0", "New York|is")])
    assert encoding.unit_texts == ("New", "York", "|", "is")
    assert encoding.units.tolist() == [-1, 0, 3, -1]
    assert troth.explain(model, "New York|is", "leave_one_out")[0].scores[[1, 2]].tolist() == [0, 0]


def test_a_text_of_unknown_tokens_only():
    (attribution,) = troth.explain(fakes.encoder("bert"), "漢字 漢", "leave_one_out")
    assert attribution.units == ("漢", "字", "漢")
    assert all(score != 0 for score in attribution.scores)  # an unknown token may be erased


def test_a_slow_tokenizer_and_unknown_units_are_refused():
    model = fakes.encoder()
    with pytest.raises(TrothError, match="units must be one of token, word, sentence, passage, or a list"):
        model.encode([Example("0", "a")], "letter")
    with pytest.raises(TrothError, match="segments must be first or both, not 'second'"):
        model.encode([Example("0", "a")], "word", "second")

    class Slow:
        is_fast = False
        model_max_length = 9

    slow = Encoder(fakes.hf_model(), Slow(), name="slow")
    with pytest.raises(TrothError, match="Slow gives no character offsets; use the fast tokenizer"):
        slow.encode([Example("0", "a")])


def test_no_mask_token_and_no_padding_token():
    tokenizer = fakes.wordpiece()
    tokenizer.mask_token = None
    model = troth.load_model(fakes.hf_model(), tokenizer=tokenizer)
    with pytest.raises(TrothError, match="has no mask token; use masking delete, zero, pad or attention"):
        troth.explain(model, "a good film", "leave_one_out")
    assert len(troth.explain(model, "a good film", "leave_one_out", masking="delete")[0].scores) == 3
    tokenizer.pad_token = None
    with pytest.raises(TrothError, match="has no padding token; use masking mask_token, delete, zero or attention"):
        troth.explain(model, "a good film", "leave_one_out", masking="pad")
