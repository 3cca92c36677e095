"""The matrix of what was written: in Python, as plain data, in HTML and in the terminal."""

import json

import numpy as np
import pytest
from rich.cells import cell_len

import fakes
import troth
from troth.core.results import Matrix
from troth.core.terminal import Console
from troth.report import explanation, explanation_screen
from troth.report import matrix as display


def found(text="a <b> film was bad", continuation="the film was good"):
    model = troth.load_model(fakes.causal_model("gpt2"), fakes.causal_tokenizer("gpt2"), continuation=continuation)
    return troth.explain(model, [text, "a good film"], "leave_one_out", target="each")


def test_a_row_for_each_token_of_each_text():
    attributions = found()
    assert len(attributions) == 8
    first, second = attributions.matrices()
    assert first.targets == second.targets == (" the", " film", " was", " good")
    assert second.units == ("a", "good", "film")
    for row, attribution in enumerate(attributions[4:]):
        assert attribution.target == row + 1
        np.testing.assert_array_equal(second.scores[row], attribution.scores)
    assert second.values == tuple(each.probabilities[each.target] for each in attributions[4:])


def test_plain_data():
    matrix = found().matrices()[1]
    facts = json.loads(json.dumps(matrix.to_dict()))
    assert facts["continuation"] == facts["targets"] == [" the", " film", " was", " good"]
    assert facts["units"] == ["a", "good", "film"]
    np.testing.assert_allclose(facts["scores"], matrix.scores)
    np.testing.assert_allclose(facts["values"], matrix.values)
    assert "target" not in facts


def test_html_is_escaped_and_has_every_number():
    matrix = found().matrices()[0]
    page = matrix._repr_html_()
    assert "<b>" not in page
    assert page.count("<td title=") == matrix.scores.size
    assert f'title="{matrix.scores[2, 1]:+.4g}"' in page
    assert page.count("<tr>") == 5


def test_passages_have_numbers_and_their_prompt_is_shown_once(capsys):
    text = "a good film\n\nthe plot was dull and the film was bad and the soup cold"
    by_method = troth.explain(fakes.prompted(), text, ["leave_one_out", "random"], units="passage")
    page = "".join(explanation.sections([[several[0] for several in by_method.values()]]))
    explanation_screen.show(Console(width=120), [[several[0] for several in by_method.values()]])
    prompt = by_method["random"][0].to_dict()["prompt"]
    asked = next(words.strip() for part, words in reversed(prompt) if part is None)
    for shown in (page, capsys.readouterr().out):
        assert shown.count(asked) == 1
        assert shown.count("[2]") == 4  # above the passage, and among the strongest, of both methods
    assert "\n\n" in page
    assert "white-space:pre-wrap" in page


def test_a_passage_as_a_heading_is_short():
    text = "a good film\n\nthe plot was dull and the film was bad and the soup cold"
    model = troth.load_model(fakes.causal_model("gpt2"), fakes.causal_tokenizer("gpt2"), continuation="the film")
    (matrix,) = troth.explain(model, text, "leave_one_out", "passage", target="each").matrices()
    page = matrix._repr_html_()
    assert ">[1] a good film" in page
    assert ">[2] the plot was dull a…<" in page


@pytest.mark.parametrize("width", [40, 60, 200])
def test_the_terminal_shows_every_number_within_its_width(width):
    matrix = found("the soup was cold , the service awful", "the film was 電影 good").matrices()[0]
    lines = list(display.lines(matrix, width))
    assert max(cell_len(line.plain) for line in lines) <= width
    blocks = " ".join(line.plain for line in lines).split(" log p ")[1:]
    assert (len(blocks) == 1) == (width == 200)
    numbers = [display._number(score, "+.2f") for score in matrix.scores.flatten()]
    shown = [word for line in lines for word in line.plain.split()]
    assert all(shown.count(number) >= numbers.count(number) for number in numbers)


def test_nothing_has_no_sign():
    attributions = found()
    zero = Matrix(tuple(troth.core.types.replace(each, scores=0 * each.scores) for each in attributions[:4]))
    assert all(
        "+0.00" not in line.plain and "-0.00" not in line.plain.split(" ", 3)[-1] for line in display.lines(zero, 200)
    )
