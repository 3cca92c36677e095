"""What the page of a run is given, worked out by hand from stored rows."""

import base64
import gzip
import json

import numpy as np
import pytest
from tests.report import page_runs

from troth.core.sheet import plain_sheet
from troth.core.types import Example, Score
from troth.report.exhibits import Exhibit
from troth.report.page_examples import LETTERS, STEPS, curve_of, erased_at, letters, mean_curve, packed
from troth.report.page_overview import Explained, explainer_agreement, model_facts, rank_agreement, top_words
from troth.report.run_page import page_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return page_data(page_runs.three(tmp_path_factory.mktemp("page") / "run"))


def one(words, scores, target=1, probabilities=(0.2, 0.8), label=None):
    text = " ".join(words)
    return Explained(
        Example("x", text), tuple(page_runs.spans(text)), (0,) * len(words), np.array(scores, np.float32),
        target, True, probabilities, label, False, "",
    )  # fmt: skip


def test_scores_are_letters_of_the_largest():
    text, largest = letters(np.array([2.0, 1.0, 0.0, -2.0], np.float32))
    assert largest == 2.0
    assert [LETTERS.index(letter) - STEPS for letter in text] == [45, 22, 0, -45]
    assert letters(np.zeros(3, np.float32)) == (LETTERS[STEPS] * 3, 0.0)
    assert json.dumps(LETTERS) == f'"{LETTERS}"'  # none needs more than a byte


def test_a_curve_begins_with_the_whole_input():
    curve = curve_of(page_runs.erased(0.8, [0.7, 0.6, 0.5, 0.4, 0.3]).record)
    assert (curve.ratios, curve.probabilities) == ((0, 0.01, 0.05, 0.1, 0.2, 0.5), (0.8, 0.7, 0.6, 0.5, 0.4, 0.3))
    logs = curve_of({"ratios": [0.5], "log_p_full": np.log(0.5), "log_p_erased": [np.log(0.25)]})
    assert logs.probabilities == pytest.approx((0.5, 0.25))
    assert curve_of({"ratios": [0.5], "p_full": 1.0, "p_kept": [0.25]}).kept
    assert curve_of({"ratios": [0, 1], "p": [0.1, 0.9]}, inserts=True).kept
    assert curve_of({"p_erased": [0.1]}) is None  # without shares it is no curve
    assert curve_of({"ratios": [0, 1], "predictions": [1, 0]}) is None


def test_which_unit_goes_at_which_step():
    scores = np.array([0.1, 0.9, 0.5, 0.5], np.float32)
    # Counts 0 (whole), 0, 0, 0, 1, 2: the second unit goes at place 4, the third at 5 (ties keep reading order).
    assert erased_at(page_runs.erased(0.8, [0.8] * 5), scores) == [6, 4, 5, 6]
    explained_again = Score(0.1, {"ratios": [0, 0.5, 1], "p_explained": [1, 0.5, 0], "erased_at": [2, 1, 2, 1]})
    assert erased_at(explained_again, scores) == [2, 1, 2, 1]
    by_length = Score(0.1, {"ratios": [0, 0.25, 0.5, 0.75, 1], "p": [1, 0.8, 0.6, 0.4, 0.2]})
    assert erased_at(by_length, scores) == [4, 1, 2, 3]
    assert erased_at(Score(0.1, {"ratios": [0.5], "p_full": 1.0, "p_kept": [0.2]}), scores) is None


def test_curves_of_different_lengths_are_averaged_at_the_same_shares():
    short = Score(0, {"ratios": [0, 1], "p": [1.0, 0.0]})
    long = Score(0, {"ratios": [0, 0.5, 1], "p": [1.0, 1.0, 0.0]})
    curve = mean_curve([[short], [long]])
    assert curve["ratios"][5] == 0.5
    assert curve["mean"][5] == pytest.approx((0.5 + 1) / 2)
    assert curve["mean"][0] == curve["low"][0] == curve["high"][0] == 1
    assert mean_curve([[Score(1.0)]]) is None
    # Two seeds of one example are one example: averaged first.
    twice = mean_curve([[short, long], [long]])
    assert twice["mean"][5] == pytest.approx((0.75 + 1) / 2)
    assert twice["examples"] == 2


def test_the_model_itself():
    rows = [one(["x"], [1], probabilities=p, label=label)
            for p, label in (((0.1, 0.9), 1), ((0.05, 0.95), 0), ((0.7, 0.3), 0), ((0.5, 0.5), None))]  # fmt: skip
    facts = model_facts(rows, ["bad", "good"])
    assert facts["examples"] == 3
    assert facts["accuracy"] == pytest.approx(2 / 3, abs=1e-4)
    assert facts["confusion"] == [[1, 1], [0, 1]]
    assert facts["calibration"] == [
        {"sure": 0.7, "right": 1.0, "examples": 1}, {"sure": 0.925, "right": 0.5, "examples": 2},
    ]  # fmt: skip
    assert facts["calibration_error"] == pytest.approx((0.3 + 2 * 0.425) / 3, abs=1e-4)
    assert model_facts([one(["x"], [1], probabilities=(0.9, 0.8), label=1)], []) is None  # labels, not classes


def test_words_count_once_per_text_and_rare_ones_do_not_win():
    rows = [one(["good", "film", "Good"], [2, 1, 1]), one(["good", "!"], [4, 8]), one(["film", "odd"], [0, 1])]
    # good: 1 and 0.5 over three; film: 0.5 and 0 over three; odd is in one text only; ! is no word.
    assert top_words([dict(enumerate(rows))]) == {
        "1": [{"word": "good", "score": 0.5, "examples": 2}, {"word": "film", "score": 0.1667, "examples": 2}]
    }


def test_words_are_averaged_over_seeds_and_counted_once():
    one_seed = {0: one(["good", "film"], [2, 1]), 1: one(["good", "plot"], [1, 0])}
    other_seed = {0: one(["good", "film"], [1, 2]), 1: one(["good", "plot"], [1, 1])}
    # good: mean of 1 and 0.5, then 1, over three.
    assert top_words([one_seed, other_seed])["1"] == [{"word": "good", "score": 0.5833, "examples": 2}]


def test_agreement_is_of_magnitudes_and_leaves_random_out():
    np.testing.assert_allclose(rank_agreement(np.array([[1.0, 2, 3], [3.0, 2, 1]])), [[1, -1], [-1, 1]])
    same, negated = one(["a", "b", "c"], [1, 2, 3]), one(["a", "b", "c"], [-1, -2, -3])
    turned = one(["a", "b", "c"], [3, 2, 1])
    matrix, of_example = explainer_agreement({"x": [{1: same}], "y": [{1: negated}], "random": [{1: turned}]})
    assert matrix == {"names": ["x", "y", "random"], "values": [[1, 1, -1], [1, 1, -1], [-1, -1, 1]]}
    assert of_example == {1: 1.0}
    two = {"x": [{1: same}, {1: turned}], "y": [{1: same}]}  # y has one seed, which is compared with both
    assert explainer_agreement(two)[1] == {1: 0.0}
    assert explainer_agreement({}) == ({"names": [], "values": []}, {})


def test_an_example_holds_what_filters_and_slider_need(data):
    board, entries = data.report["boards"][0], data.examples[0]
    assert [entry["id"] for entry in entries] == ["a", "b", "c"]
    assert board["labels"] == ["bad", "good"]
    assert board["slider"] == page_runs.CURVED
    first, second, third = entries
    assert first["units"] == [0, 5, 1, 3, 1, 4, 1, 1, 1, 6]  # gaps and lengths in code points
    assert (second["label"], second["probabilities"]) == (0, [0.2, 0.8])  # wrong
    assert second["p"] == pytest.approx(0.02)  # Simes of 0.01 and 0.02
    assert first["p"] == pytest.approx(0.9)
    assert first["agreement"] == 1.0
    assert third["agreement"] < 0.5
    gradient = first["explanations"][[one["name"] for one in board["explainers"]].index("gradient")]
    assert gradient["largest"] == 5.0
    assert [one.get("unsigned", False) for one in first["explanations"]] == [
        explainer["name"] == "random" for explainer in board["explainers"]
    ]
    assert gradient["curve"] == [0.8, 0.8, 0.8, 0.8, 0.4, 0.2]
    assert [LETTERS.index(letter) for letter in gradient["erased_at"]] == [4, 6, 5, 6, 6]


def test_the_board_says_what_the_leaderboard_does(data):
    board = data.report["boards"][0]
    rows = {explainer["name"]: row for explainer, row in zip(board["explainers"], board["cells"], strict=True)}
    assert rows["gradient"][0]["value"] == pytest.approx(0.2)  # (0 + 0 + 0 + 0.4 + 0.6) / 5
    assert rows["random"][0]["value"] == pytest.approx(0.04)
    line = board["curves"][0]["lines"]["gradient"]
    assert (line["mean"][-1], line["kept"], line["examples"]) == (0.2, False, 3)
    assert board["metrics"][0]["validity"]["verdict"] == "not tested"  # it deletes, the check masked
    assert "Nobody tested" in board["metrics"][0]["validity"]["meaning"]
    json.dumps(data.report, allow_nan=False)


def test_numbers_are_over_all_seeds_and_examples_show_the_first(tmp_path):
    board, entries = (part[0] for part in astuple_of(page_data(page_runs.three(tmp_path / "run", seeds=(0, 1)))))
    names = [explainer["name"] for explainer in board["explainers"]]
    line = board["curves"][0]["lines"]["gradient"]
    # Without half of the units 0.2 by the first seed, 0.1 by the second.
    assert (line["mean"][-1], line["examples"]) == (0.15, 3)
    value = entries[0]["values"][names.index("gradient")][0]
    assert value == pytest.approx((0.2 + 0.22) / 2)
    assert entries[0]["explanations"][names.index("gradient")]["curve"][-1] == 0.2
    assert board["seeds"] == 2


def astuple_of(data):
    return data.report["boards"], data.examples


def test_a_run_without_texts_or_probabilities_has_no_examples(tmp_path):
    from tests.report.boards import stored

    data = page_data(stored(tmp_path / "run"))
    assert data.examples == [[]]
    assert data.report["boards"][0]["performance"] is None
    assert data.report["boards"][0]["words"] == {"lime": {}, "lime(samples=9)": {}}


def test_a_study_shows_its_tables_and_figures(tmp_path):
    sheet = plain_sheet(
        "Table 1", ["method", "ours", "published"], [["lime", 0.12345, None], ["random", 3, "n/a"]], ["Note."]
    )
    drawn = {".svg": b"<svg/>", ".png": b"longer than that", ".pdf": b""}
    shown = [Exhibit("table", sheet, drawn), Exhibit("plain", sheet)]
    table, plain = page_data(page_runs.three(tmp_path / "run"), exhibits=shown).report["tables"]
    assert table["figure"] == f"data:image/svg+xml;base64,{base64.b64encode(b'<svg/>').decode()}"  # the smaller one
    assert plain["figure"] is None
    assert [[cell["text"] for cell in row] for row in table["rows"]] == [["lime", "0.123", "–"], ["random", "3", "n/a"]]
    assert [[cell["value"] for cell in row] for row in table["rows"]] == [[None, 0.12345, None], [None, 3, None]]
    assert (table["title"], table["notes"]) == ("Table 1", ["Note."])


def test_a_run_that_is_still_being_written_says_so(tmp_path):
    store = page_runs.three(tmp_path / "run")
    store.note(planned=9)
    assert page_data(store).report["unfinished"] == {"done": 8, "planned": 9}


def test_examples_fit_the_budget_and_say_how_many_do():
    generator = np.random.default_rng(0)
    entries = [{"id": str(place), "scores": generator.integers(0, 10, 200).tolist()} for place in range(100)]
    code, counts = packed([entries, entries[:10]], budget=10_000)
    assert len(code) <= 10_000
    assert 20 < counts[0] < 100
    shown = json.loads(gzip.decompress(base64.b64decode(code)))
    assert shown == [entries[: counts[0]], entries[: counts[1]]]
    assert packed([entries])[1] == [100]
