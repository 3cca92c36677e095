"""`troth referee`: what it prints, and its exit code."""

import json

import pytest

from troth.core.errors import TrothError
from troth.refereeing.verb import referee

RIGHT = '''
import torch


def attribute(model, tokenizer, texts, target):
    """What is lost without each token."""
    results = []
    for text in texts:
        encoded = tokenizer(text, return_tensors="pt")
        ids = encoded["input_ids"]
        places = range(1, ids.shape[1] - 1)
        with torch.no_grad():
            whole = model(**encoded).logits[0, target]
            rows = [torch.cat([ids[:, :place], ids[:, place + 1 :]], 1) for place in places]
            without = [model(row).logits[0, target] for row in rows]
        results.append([float(whole - value) for value in without])
    return results


def of_class_zero(model, tokenizer, texts, target):
    return attribute(model, tokenizer, texts, 0)


number = 3
'''
ONLY = ("--only", "leave_one_out", "--only", "class_asked_about")


@pytest.fixture
def mine(troth, tmp_path):
    (tmp_path / "mine.py").write_text(RIGHT)
    return troth


def test_a_function_that_is_right(mine):
    code, out, _ = mine("referee", "mine.py:attribute", "--claims", "leave_one_out", *ONLY)
    assert code == 0
    assert "✓ leave_one_out" in out
    assert "all hold" in out


def test_a_function_that_is_wrong(mine):
    code, out, _ = mine("referee", "mine.py:of_class_zero", *ONLY)
    assert code == 1
    assert "✗ class_asked_about" in out
    assert "expected another" not in out
    assert "repeat   troth referee mine.py:of_class_zero --only class_asked_about" in out


def test_json_html_and_badge(mine, tmp_path):
    code, out, _ = mine("referee", "mine.py:of_class_zero", *ONLY, "--json", "--html", "page.html")
    facts = json.loads(out)
    assert (code, facts["holds"], facts["badge"]) == (1, False, "troth referee: 2/3")
    failed = [each for each in facts["properties"] if each["status"] == "fails"]
    assert [(each["property"], each["text"]) for each in failed] == [("class_asked_about", "good film bad")]
    assert "class_asked_about" in (tmp_path / "page.html").read_text()
    assert mine("referee", "mine.py:attribute", *ONLY, "--badge")[1] == "troth referee: 3/3\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mine.py:nobody"], "no object in mine.py is called 'nobody'"),
        (["mine.py:number"], "attribute must be a function attribute(model, tokenizer, texts, target)"),
        (["leave_one_oot"], "did you mean leave_one_out?"),
        (["mine.py:attribute", "--claims", "shaply"], "no claim is called 'shaply'; did you mean shapley?"),
        (["mine.py:attribute", "--of", "logits"], "no explained value is called 'logits'; did you mean logit?"),
        (["mine.py:attribute", "--only", "dumy"], "no property is called 'dumy'; did you mean dummy?"),
        (["mine.py:attribute", "--tolerance", "2"], "tolerance must be a share of the largest score"),
    ],
)
def test_what_is_not_understood(mine, arguments, said):
    code, _, err = mine("referee", *arguments)
    assert code == 2
    assert said in err


def scores(form):
    """What is lost without each token, in one of the forms that may be returned."""

    def attribute(model, tokenizer, texts, target):
        import torch

        results = []
        for text in texts:
            encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
            offsets = encoded.pop("offset_mapping")[0].tolist()
            ids = encoded["input_ids"]
            with torch.no_grad():
                whole = model(**encoded).logits[0, target]
                lost = [
                    float(whole - model(torch.cat([ids[:, :i], ids[:, i + 1 :]], 1)).logits[0, target])
                    for i in range(ids.shape[1])
                ]
            results.append(form(tokenizer.convert_ids_to_tokens(ids[0]), offsets, lost))
        return results

    return attribute


@pytest.mark.parametrize(
    "form",
    [
        lambda tokens, offsets, scores: scores,
        lambda tokens, offsets, scores: scores[1:-1],
        lambda tokens, offsets, scores: (tokens, scores),
        lambda tokens, offsets, scores: list(zip(tokens, scores, strict=True)),
        lambda tokens, offsets, scores: [(*span, score) for span, score in zip(offsets, scores, strict=True)][1:-1],
        lambda tokens, offsets, scores: [(tuple(s), score) for s, score in zip(offsets, scores, strict=True)][1:-1],
    ],
)
def test_the_forms_of_scores(form):
    verdicts = referee(scores(form), ["leave_one_out"], only=["leave_one_out", "word_pieces", "bytes_of_words"])
    assert verdicts.holds, verdicts


def test_scores_that_do_not_belong_to_the_text():
    def attribute(model, tokenizer, texts, target):
        return [[1.0, 2.0, 3.0] for _ in texts]

    got = referee(attribute, only=["answers"])["answers"].got
    assert got == "3 scores for a text of 4 or 2 tokens or words"


def test_results_in_python():
    verdicts = referee(scores(lambda tokens, offsets, scores: scores), ["leave_one_out"], only=["dummy"])
    assert verdicts["dummy"].status == "holds"
    assert "✓" in verdicts.to_markdown()
    assert verdicts._repr_html_()
    with pytest.raises(TrothError, match="no claim is called"):
        referee(print, ["nothing"])
