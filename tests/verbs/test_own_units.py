"""Units of one's own: character spans and passages, for every kind of model, against erasing by hand."""

import numpy as np
import pytest
import torch

import fakes
import kinds
import troth
from troth.core.errors import TrothError
from troth.core.units import passage_spans
from troth.sweep.bench import bench

TEXT = "the soup was cold\n\nbut the film\nwas good , a joy \n \n  to see"
PASSAGES = ((0, 17), (19, 48), (54, 60))
KINDS = ["bert", "roberta", "black_box", "prompted_gpt2", "llama_head"]


def test_passages_end_at_blank_lines():
    assert tuple(passage_spans(TEXT)) == PASSAGES
    for break_ in ("\n\n", "\r\n\r\n", "\r\r", "\n \t\n", "\n\n\n\n", "\u2029\u2029"):
        assert [f"a\nb{break_}c"[start:end] for start, end in passage_spans(f"a\nb{break_}c")] == ["a\nb", "c"]
    assert passage_spans("a\r\nb") == [(0, 4)]
    assert passage_spans(" \n\n ") == []


@pytest.mark.parametrize("kind", KINDS)
def test_passages_are_scored_as_their_spans_are(kind):
    model = kinds.model_of(kind)
    (by_name,) = troth.explain(model, TEXT, "leave_one_out", units="passage")
    assert by_name.spans == PASSAGES
    assert by_name.units == tuple(TEXT[start:end] for start, end in PASSAGES)
    (own,) = troth.explain(model, TEXT, "leave_one_out", units=[list(span) for span in PASSAGES])
    assert own.spans == PASSAGES
    (score,) = troth.measure(model, [by_name], "comprehensiveness(ratio=0.4)")
    assert np.isfinite(score.value)
    if kind in ("bert", "black_box"):  # others have tokens for line ends: outside every span these stay
        np.testing.assert_allclose(own.scores, by_name.scores, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "prompted_gpt2"])
def test_tokens_of_a_span_are_erased_and_no_others(kind):
    model = kinds.model_of(kind)
    text, spans = "the soup was cold but good", [(4, 8), (13, 21)]  # soup; cold but
    (encoding,) = model.encode([troth.Example("0", text)], tuple(spans))
    (words,) = model.encode([troth.Example("0", text)], "word")
    places = {1: 0, 3: 1, 4: 1}  # words of the spans
    blank = [
        not model.tokenizer.decode([number]).strip() for number in encoding.ids.tolist()
    ]  # between words: in no span
    every = zip(words.units.tolist(), blank, strict=True)
    expected = [unit if unit < 0 else -1 if empty else places.get(unit, -1) for unit, empty in every]
    assert encoding.units.tolist() == expected
    (attribution,) = troth.explain(model, text, "leave_one_out", units=spans)
    if not any(blank):
        (by_word,) = troth.explain(model, text, "leave_one_out")
        assert attribution.scores[0] == pytest.approx(by_word.scores[1], abs=1e-5)
    assert attribution.to_dict()["unit_kind"] == "span"


def test_by_hand_on_a_black_box():
    def predict(texts):
        return np.array([[0.2, 0.8] if "good" in text and "joy" in text else [0.9, 0.1] for text in texts])

    model = troth.load_model(predict, labels=["no", "yes"])
    text = "a good film and a joy to see"
    (attribution,) = troth.explain(model, text, "leave_one_out(of=probability)", [(0, 11), (12, 15), (16, 21)])
    assert attribution.units == ("a good film", "and", "a joy")
    np.testing.assert_allclose(attribution.scores, [0.7, 0.0, 0.7], atol=1e-6)


def test_gradients_sum_over_the_tokens_of_a_span():
    model = fakes.encoder("bert")
    text = "the soup was cold but good"
    (words,) = troth.explain(model, text, "input_x_gradient", target=0)
    (own,) = troth.explain(model, text, "input_x_gradient", units=[(0, 8), (13, 17)], target=0)
    np.testing.assert_allclose(own.scores, [words.scores[:2].sum(), words.scores[3]], atol=1e-6)
    assert own.rest == pytest.approx(words.rest + words.scores[[2, 4, 5]].sum(), abs=1e-5)


def test_each_text_has_its_own():
    model = fakes.encoder("bert")
    texts = ["a good film", "the soup was cold"]
    units = [[(2, 6)], [(0, 8), (13, 17)]]
    found = troth.explain(model, texts, ["leave_one_out", "random"], units=units)
    assert [each.units for each in found["leave_one_out"]] == [("good",), ("the soup", "cold")]
    (alone,) = troth.explain(model, texts[1], "leave_one_out", units=units[1])
    np.testing.assert_allclose(alone.scores, found["leave_one_out"][1].scores, atol=1e-5)


def test_they_are_read_back_with_their_model():
    model = fakes.encoder("bert")
    (attribution,) = troth.explain(model, TEXT, "leave_one_out", units=[(4, 8), (13, 17)])
    again = troth.Attribution.from_dict(attribution.to_dict(), model)
    assert torch.equal(again.question.encoding.units, attribution.question.encoding.units)
    metric = "sufficiency(ratio=0.5)"
    assert troth.measure(model, [again], metric) == troth.measure(model, [attribution], metric)


def test_what_was_not_read_is_counted():
    model = troth.load_model(fakes.encoder("bert").model, fakes.tokenizer_for("bert"), max_length=6)
    (encoding,) = model.encode([troth.Example("0", "the soup was cold but good")], ((0, 8), (13, 17), (22, 26)))
    assert (encoding.unit_texts, encoding.truncated) == (("the soup", "cold"), 1)


@pytest.mark.parametrize(
    ("units", "problem"),
    [
        ([(0, 5), (3, 9)], r"units: \(0, 5\) and \(3, 9\) overlap"),
        ([(5, 9), (0, 3)], "not in reading order"),
        ([(0, 5), (20, 99)], r"\(20, 99\) leaves the text; 'the soup was cold but good' has 26 characters"),
        ([(-2, 5)], "leaves the text"),
        ([(4, 4)], "is empty"),
        ([(9, 4)], "ends before it starts"),
        ([(0, 3.5)], r"pairs \(start, end\), not"),
        ([(0, 1, 2)], r"units must be a name .* or pairs"),
        ([], "units"),
        (3, "units must be a name, or a list of"),
        ("words", "units must be one of token, word, sentence, passage, or a list"),
        ([[(0, 3)], [(0, 3)]], "units were given for 2 texts, but there are 1"),
    ],
)
def test_bad_units(units, problem):
    with pytest.raises(TrothError, match=problem) as caught:
        troth.explain(fakes.encoder("bert"), "the soup was cold but good", "random", units=units)
    assert "\n" not in str(caught.value)


def test_bad_combinations():
    model = fakes.encoder("bert")
    with pytest.raises(TrothError, match="units were given for 1 texts, but there are 2"):
        troth.explain(model, ["a good film", "a joy"], "random", units=[(0, 1)])
    with pytest.raises(TrothError, match="units of your own are spans of the first text"):
        troth.explain(model, [("a good film", "a joy")], "random", units=[(0, 1)], segments="both")
    with pytest.raises(TrothError, match="pass your own spans to"):
        bench(model, [troth.Example("0", "a joy")], ["random"], units=[(0, 1)])


def test_a_bench_of_passages(tmp_path):
    data = [troth.Example(str(number), f"{TEXT} {number}") for number in range(2)]
    board = bench(
        fakes.encoder("bert"), data, ["leave_one_out"], ["comprehensiveness(ratio=0.4)"], tmp_path / "run",
        units="passage", progress=False,
    ).leaderboard  # fmt: skip
    assert "leave_one_out" in board.explainers
