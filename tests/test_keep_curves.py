"""What is kept of a ROAR run that was stopped, worked out by hand."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts" / "studies"))
import keep_curves


def test_racu_up_to_where_a_run_came_and_what_the_whole_may_be():
    points = (0, 2500, 5000, 7500, 10000)
    random = {point: {0: value} for point, value in zip(points, (1.0, 0.8, 0.6, 0.4, 0.2), strict=True)}
    ends = {0: {0: 1.0}, 10000: {0: 0.2}}
    rows = list(keep_curves.rows_of("run", "share", {"random": random, "gradient": {**ends, 2500: {0: 0.5}}}))
    found = {row["quantity"]: row for row in rows if row["quantity"] != "performance"}
    assert {row["erased"] for row in found.values()} == {25}
    # 0.25 · 0.3 / 2 of 0.25 · (0.8 + 0.6) / 2, up to 25 %
    assert found["racu"]["value"] == pytest.approx(100 * 0.0375 / 0.175, abs=1e-4)
    # The whole: 0.25 · 0.3 or 0.25 · (0.3 + 0.4 + 0.2) of 0.25 · (0.4 + 0.6 + 0.4 + 0.2)
    assert found["racu at least"]["value"] == pytest.approx(18.75)
    assert found["racu at most"]["value"] == pytest.approx(56.25)
    whole = {**ends, 2500: {0: 0.5}, 5000: {0: 0.2}, 7500: {0: 0.2}}
    rows = keep_curves.rows_of("run", "share", {"random": random, "gradient": whole})
    (racu,) = [row for row in rows if row["erased"] == 100 and row["quantity"] == "racu"]
    assert racu["value"] == pytest.approx(56.25)


RIGHT, THREE, HALF, ONE = [0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]  # of four answers, so many are right


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes trainings, each by whom, what was erased and what it says of four texts, and reads their curves."""
    labeled = SimpleNamespace(
        training=[SimpleNamespace(text_pair="?")], labels=("no", "yes"),
        others={"test": [SimpleNamespace(class_index=index) for index in RIGHT]},
    )  # fmt: skip
    monkeypatch.setattr(keep_curves, "load_three_splits", lambda *_, **__: labeled)

    def curves(trainings):
        for number, (by, trail, predicted) in enumerate(trainings):
            folder = tmp_path / "files" / str(number)
            folder.mkdir(parents=True)
            counted = "tokens" if trail and trail[0] < 100 else "share"
            result = {"by": by, "trail": trail, "seed": 0, "predicted": predicted, "counted": counted}
            (folder / "result.json").write_text(json.dumps(result))
        return keep_curves.read(tmp_path, "babi1", None)

    return curves


def test_what_was_erased_at_once_or_token_by_token_is_no_point_of_a_recursive_curve(write):
    counted, curves = write([
        ("", [], RIGHT), ("", [10000], ONE), ("random()", [2500], RIGHT), ("random()", [5000], THREE),
        ("gradient()", [2500], THREE), ("gradient()", [2500, 5000], HALF), ("gradient()", [5000], RIGHT),
        ("gradient()", [1], ONE),
    ])  # fmt: skip
    assert counted == "share"
    assert curves["gradient"] == {0: {0: 1.0}, 2500: {0: 0.75}, 5000: {0: 0.5}, 10000: {0: 0.25}}
    assert curves["random"] == {0: {0: 1.0}, 2500: {0: 1.0}, 5000: {0: 0.75}, 10000: {0: 0.25}}


def test_a_run_of_one_token_per_step_has_curves_by_tokens_and_no_racu(write):
    counted, curves = write([
        ("", [], RIGHT), ("random()", [1], RIGHT), ("random()", [2], THREE),
        ("gradient()", [1], THREE), ("gradient()", [1, 2], HALF),
    ])  # fmt: skip
    rows = [row for row in keep_curves.rows_of("run", counted, curves) if row["measure"] == "gradient"]
    assert [(row["quantity"], row["erased"], row["value"]) for row in rows] == [
        ("performance", 0, 100.0), ("performance", 1, 75.0), ("performance", 2, 50.0),
    ]  # fmt: skip
