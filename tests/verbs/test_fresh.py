import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fakes import Lookup, encoder
from troth.core.errors import TrothError
from troth.core.types import Attribution, Example
from troth.data import Data
from troth.models import load_model
from troth.training.bases.scratch import Scratch
from troth.training.quality import predict, quality
from troth.training.train import train
from troth.verbs import fresh as module
from troth.verbs.explain import explain
from troth.verbs.fresh import contiguous, fresh, rationale_length, rationale_of, rationales, top_k

BASE = Scratch(layers=1, hidden=32, heads=2, positions=64, dropout=0.0)
SETTINGS = {"epochs": 6, "batch_size": 16, "learning_rate": 5e-3}


def test_how_many_words_a_rationale_has():
    assert [rationale_length(0.1, n) for n in (0, 1, 9, 10, 11, 20)] == [0, 1, 1, 1, 2, 2]
    assert rationale_length(0.07, 100) == 7  # 0.07 · 100 is a little over 7 in floats
    assert rationale_length(1.0, 5) == 5


@given(st.lists(st.integers(-3, 3), max_size=14), st.sampled_from([0.1, 0.2, 0.35, 0.5, 1.0]))
def test_thresholders_follow_their_definition(scores, ratio):
    length = rationale_length(ratio, len(scores))
    best = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:length]
    assert top_k(scores, ratio) == sorted(best)
    spans = [(sum(scores[start : start + length]), -start) for start in range(len(scores) - length + 1)]
    start = -max(spans)[1] if scores else 0
    assert contiguous(scores, ratio) == list(range(start, start + length))


def attribution(text, scores, pair=None):
    return Attribution.from_scores(encoder("bert"), (text, pair) if pair else text, scores)


def test_a_rationale_is_text_and_spans():
    one = attribution("a good, dull film", [0.0, 3.0, 2.0, 0.0, 1.0])
    assert one.units == ("a", "good", ",", "dull", "film")
    found = rationale_of(one, 0.6)
    assert found.text == "good, film"  # neighbors keep what lay between them
    assert found.spans == ((2, 6), (6, 7), (13, 17))
    assert [one.example.text[start:end] for start, end in found.spans] == ["good", ",", "film"]
    # Of three neighbors, "good , dull" has 5, "a good ," too and stands further left.
    assert rationale_of(one, 0.6, "contiguous").text == "a good,"
    assert found.to_dict()["full_text"] == "a good, dull film"


def test_the_second_text_of_a_pair_is_kept():
    found = rationale_of(attribution("a good film", [0.0, 1.0, 0.0], pair="is it good ?"), 0.2)
    assert (found.text, found.example.text_pair) == ("good", "is it good ?")
    assert found.to_dict()["text_pair"] == "is it good ?"


def test_sub_words_are_summed_into_words():
    model = encoder("bert")
    (found,) = rationales(model, [Example("x", "unlovable film", label=0)], "attention", ratio=0.5)
    (words,) = explain(model, "unlovable film", "attention")
    assert found.text == words.units[int(np.argmax(words.scores))]


def test_empty_texts_have_empty_rationales():
    (found,) = rationales(encoder("bert"), [Example("e", "", label=0)], "attention")
    assert (found.text, found.spans) == ("", ())


def test_bad_input_is_one_line():
    model = Lookup({"good": [0, 1], "[M]": [0, 0]})
    for ratio in (0, -0.1, 1.2, float("nan")):
        with pytest.raises(TrothError, match=r"ratio must lie in \(0, 1\], not"):
            rationales(model, [Example("x", "good", label=0)], "random", ratio=ratio)
        with pytest.raises(TrothError, match=r"ratio must lie in \(0, 1\]"):
            top_k([1.0], ratio)
    with pytest.raises(TrothError, match="thresholder is top_k or contiguous, not 'topk'"):
        rationales(model, [Example("x", "good", label=0)], "random", thresholder="topk")
    with pytest.raises(TrothError, match="undefined scores"):
        rationale_of(replace(attribution("a film", [0.0, 1.0]), scores=np.array([np.nan, 1.0])), 0.5)


def planted(count, start, seed=0):
    """Twenty words, one of which gives the class away."""
    draw = random.Random(seed + start)
    filler = [f"w{number}" for number in range(40)]
    made = []
    for number in range(start, start + count):
        words = [draw.choice(filler) for _ in range(20)]
        words[draw.randrange(20)] = ("awful", "great")[number % 2]
        made.append(Example(f"p-{number}", " ".join(words), label=number % 2))
    return Data("planted", made, ("bad", "good"))


def test_planted_words_carry_the_classifier_and_random_ones_do_not(tmp_path):
    splits = {"train": planted(400, 0), "validation": planted(80, 1000), "test": planted(200, 2000)}
    train("plain", splits["train"], BASE, tmp_path / "support", validation=splits["validation"], **SETTINGS)
    support = load_model(str(tmp_path / "support"), device="cpu")
    labels = [example.label for example in splits["test"]]
    full = quality("macro_f1", predict(support, splits["test"]), torch.tensor(labels))
    assert full > 0.97
    scores = {}
    for explainer in ("leave_one_out", "random"):
        out = tmp_path / explainer
        done = fresh(support, splits, BASE, out, explainer=explainer, ratio=0.1, cpu=True, **SETTINGS)
        scores[explainer] = done.macro_f1()
        rows = [json.loads(line) for line in (out / "rationales-test.jsonl").read_text().splitlines()]
        assert {len(row["spans"]) for row in rows} == {2}
        texts = {example.id: example.text for example in splits["test"]}
        for row in rows[:20]:
            assert row["text"].split() == [texts[row["id"]][start:end] for start, end in row["spans"]]
    assert scores["leave_one_out"] >= full - 0.02
    assert scores["random"] <= full - 0.20


def test_it_goes_on_where_it_stopped(tmp_path, monkeypatch):
    splits = {"train": planted(24, 0), "validation": planted(8, 1000), "test": planted(8, 2000)}
    support = BASE.build(splits["train"].examples, ("bad", "good"), 0, None)
    options = {"explainer": "random", "epochs": 1, "cpu": True}
    first = fresh(support, splits, BASE, tmp_path, **options)

    def never(*_args, **_options):
        raise AssertionError("explained again")

    monkeypatch.setattr(module, "explain_each", never)
    assert fresh(support, splits, BASE, tmp_path, **options).macro_f1() == first.macro_f1()
    with pytest.raises(AssertionError, match="explained again"):
        fresh(support, splits, BASE, tmp_path, ratio=0.5, **options)
