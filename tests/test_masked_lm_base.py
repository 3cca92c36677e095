"""scripts/models/masked_lm_base.py: blocks and masks worked out by hand; a small model learns a small corpus."""

import gzip
import json
import lzma
import math
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts" / "models"))
import masked_lm_base

from fakes import masked_lm, tokenizer_for

TEXTS = ["a good film", "a bad film", "the good and the bad"] * 40


@pytest.fixture
def corpus(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("\n\n".join(TEXTS))
    return file


def test_texts_of_every_kind_of_file(tmp_path):
    plain, packed, lines = tmp_path / "a.txt", tmp_path / "b.txt.xz", tmp_path / "c.jsonl.gz"
    plain.write_text("one\n\n two \nthree\n")
    packed.write_bytes(lzma.compress(b"four\n"))
    lines.write_bytes(gzip.compress(b'{"text": "five"}\n{"text": "six"}\n{"text": "seven"}\n'))
    assert list(masked_lm_base.read([plain, packed, lines], 2)) == ["one", "two", "four", "five", "six"]


def test_blocks_hold_running_text_between_special_tokens():
    tokenizer = tokenizer_for("bert")
    a, good, film, bad = tokenizer.convert_tokens_to_ids(["a", "good", "film", "bad"])
    first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
    blocks = masked_lm_base.cut(tokenizer, iter(["a good film", "bad film a"]), 6)
    # Eight tokens with the end of each text: two blocks of four, each between two special tokens.
    assert blocks.tolist() == [[first, a, good, film, last, last], [first, bad, film, a, last, last]]
    assert masked_lm_base.cut(tokenizer, iter(["a good film"]), 12).shape == (0, 12)


def test_a_fifth_is_predicted_of_which_four_fifths_are_masked():
    tokenizer = tokenizer_for("bert")
    good = tokenizer.convert_tokens_to_ids("good")
    ids = torch.full((400, 102), good)
    ids[:, 0], ids[:, -1] = tokenizer.cls_token_id, tokenizer.sep_token_id
    inputs, labels = masked_lm_base.mask(ids, tokenizer, torch.Generator().manual_seed(0))
    asked = labels != masked_lm_base.IGNORED
    assert torch.equal(inputs[~asked], ids[~asked])
    assert (labels[asked] == good).all()
    assert not asked[:, 0].any()
    assert not asked[:, -1].any()

    def share(part, of):  # within five standard deviations of a share of so many
        return pytest.approx(part, abs=5 * math.sqrt(part * (1 - part) / of))

    count = int(asked.sum())
    assert count / 40_000 == share(0.2, 40_000)
    assert float((inputs[asked] == tokenizer.mask_token_id).float().mean()) == share(0.8 + 0.1 / len(tokenizer), count)
    assert float((inputs[asked] == good).float().mean()) == share(0.1 + 0.1 / len(tokenizer), count)
    again = masked_lm_base.mask(ids, tokenizer, torch.Generator().manual_seed(0))
    assert torch.equal(again[0], inputs)
    assert torch.equal(again[1], labels)


def test_a_model_learns_a_corpus_and_becomes_a_base(tmp_path, corpus):
    call = ["--base", masked_lm("bert"), "--length", "16", "--rows", "8", "--device", "cpu"]
    training = [*call, "--corpus", str(corpus), "--epochs", "15", "--learning-rate", "0.01"]
    facts = masked_lm_base.main([*training, "--out", str(tmp_path / "out")])
    # Before, the model knows nothing; a model that only counted the six words of the corpus would lose log 6 at most.
    assert facts["after"]["loss"] < math.log(6) < facts["before"]["loss"]
    assert facts["after"]["accuracy"] > facts["before"]["accuracy"]
    assert facts["steps"] == math.ceil(15 * facts["tokens"] / 16 / 8)
    assert json.loads((tmp_path / "out" / "masked_lm.json").read_text()) == facts
    assert AutoModelForMaskedLM.from_pretrained(tmp_path / "out").dtype == torch.float16
    AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    again = masked_lm_base.main(training)
    assert [again[name] for name in ("before", "after")] == [facts[name] for name in ("before", "after")]
    # Measuring alone, on other texts: twice the same, and what the trained model loses is less.
    measure = ["--held-out", str(corpus), "--epochs", "0"]
    before = masked_lm_base.main([*call, *measure])["before"]
    after = masked_lm_base.main([*call, *measure, "--base", str(tmp_path / "out")])["before"]
    assert after["predicted"] == before["predicted"]
    assert after["loss"] < before["loss"]


def test_only_the_head_learns(tmp_path, corpus):
    out = tmp_path / "head"
    call = ["--base", masked_lm("bert"), "--length", "16", "--rows", "8", "--device", "cpu", "--learning-rate", "0.01"]
    facts = masked_lm_base.main([*call, "--corpus", str(corpus), "--out", str(out), "--epochs", "20", "--head-only"])
    assert facts["after"]["loss"] < 0.9 * facts["before"]["loss"]
    before = AutoModelForMaskedLM.from_pretrained(masked_lm("bert"), dtype=torch.float16).state_dict()
    after = AutoModelForMaskedLM.from_pretrained(out, dtype=torch.float16).state_dict()
    changed = {name for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all(name.startswith("cls.predictions.") and "decoder.weight" not in name for name in changed)


def test_loss_and_accuracy_of_a_model_that_always_writes_one_word(corpus):
    folder = masked_lm("bert", always="film")
    facts = masked_lm_base.main(["--base", folder, "--held-out", str(corpus), "--epochs", "0", "--length", "16"])
    tokenizer = tokenizer_for("bert")
    blocks = masked_lm_base.cut(tokenizer, iter(TEXTS), 16)
    labels = masked_lm_base.mask(blocks, tokenizer, torch.Generator().manual_seed(0))[1]
    asked = labels[labels != masked_lm_base.IGNORED]
    share = float((asked == tokenizer.convert_tokens_to_ids("film")).double().mean())
    assert facts["before"]["predicted"] == len(asked)
    assert facts["before"]["accuracy"] == pytest.approx(share, abs=5e-5)
    assert facts["before"]["loss"] == pytest.approx(1e4 * (1 - share), rel=0.01)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--epochs", "1"], "give --corpus"),
        (["--epochs", "0"], "give --corpus"),
        (["--corpus", "texts.txt", "--length", "4000"], "the texts are too short"),
        (["--corpus", "texts.txt", "--out", "."], "choose another --out"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(wrong, said, corpus, monkeypatch, capsys):
    monkeypatch.chdir(corpus.parent)
    with pytest.raises(SystemExit) as stopped:
        masked_lm_base.main(["--base", masked_lm("bert"), "--device", "cpu", *wrong])
    assert said in str(stopped.value) + capsys.readouterr().err
