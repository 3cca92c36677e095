"""`troth explain --question`: passages from files, as text, JSON and a page."""

import json

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import fakes

QUESTION = "what was it"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("causal")
    tokenizer = fakes.end_of_text()
    tokenizer.model_max_length = 512
    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 512}
    GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes, bos_token_id=0, eos_token_id=0)).save_pretrained(
        path
    )
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture
def passages(tmp_path):
    texts = {"a, b.txt": "A good film. It was <i>fine</i>.", "c.txt": "The bad film.", "d.txt": "the good film"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return list(texts)


def test_files_that_a_shell_has_expanded(troth, folder, passages, tmp_path):
    options = ("explain", "-m", folder, "--question", QUESTION, "--answer", "It was good. A film.")
    code, said, problem = troth(*options, "--passages", *passages, "--json")
    assert code == 0, problem
    facts = json.loads(said)
    assert [each["name"] for each in facts["passages"]] == passages
    assert facts["passages"][0]["text"] == "A good film. It was <i>fine</i>."
    assert [part["text"] for part in facts["parts"]] == ["It was good.", "A film."]
    assert facts["masking"] == "delete"
    code, said, _ = troth(*options, "--passages", "*.txt", "--html", "page.html", "--masking", "mask_token")
    assert code == 0
    assert "[1]" in said
    assert "a, b.txt" in said
    assert "erased by mask_token" in " ".join(said.split())
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert "<i>fine" not in page
    assert "&lt;i&gt;fine" in page


def test_one_file_is_cut_at_blank_lines_and_the_model_writes_the_answer(troth, folder, tmp_path):
    (tmp_path / "all.txt").write_text("A good film.\n\nThe bad film\nwas bad.\n\n\nthe good film\n")
    code, said, problem = troth(
        "explain", "-m", folder, "--question", QUESTION, "--passages", "all.txt", "--generate", "4", "--json"
    )
    assert code == 0, problem
    facts = json.loads(said)
    assert [each["text"] for each in facts["passages"]] == ["A good film.", "The bad film\nwas bad.", "the good film"]
    assert facts["passages"][1]["name"] == "all.txt, 2"
    assert facts["written"] is True


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--question", "q"), "--question needs --passages"),
        (("--question", "q", "--passages", "none.txt"), "--passages none.txt: there is no such file"),
        (("--question", "q", "--passages", "."), "--passages .: it is a folder; name its files"),
        (("--question", "q", "--passages", "latin.txt"), "is not UTF-8"),
        (("--question", "q", "--passages", "empty.txt"), "there are no passages"),
        (("--question", "q", "--passages", "c.txt", "--continuation", "x"), "with --answer"),
        (
            ("--question", "q", "--passages", "c.txt", "-e", "lime"),
            "--explainer cannot be used with --question; leave it out",
        ),
        (("--passages", "c.txt", "a text"), "--passages needs --question"),
        (("--answer", "it", "a text"), "--answer needs --question"),
    ],
)
def test_bad_input(troth, folder, passages, tmp_path, options, problem):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "empty.txt").write_text(" \n")
    code, _, said = troth("explain", "-m", folder, *options)
    assert code == 2
    assert problem in " ".join(said.split())


def test_a_foil_by_against(troth, folder):
    options = ("explain", "a good film", "-m", folder, "-e", "leave_one_out", "--continuation", "the film")
    (plain,), (foil,) = (json.loads(troth(*options, *more, "--json")[1]) for more in ((), ("--against", "bad")))
    assert foil["target_label"] == "the whole continuation rather than “bad”"
    assert foil["scores"] != plain["scores"]
