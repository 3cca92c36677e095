import json

import pytest

from troth.core.errors import TrothError
from troth.models import load_model
from troth.training import recipes
from troth.training.bases.scratch import Scratch
from troth.verbs.tune import best_weight, flip_fraction, search, with_salience

TINY = Scratch(layers=1, hidden=16, heads=2, positions=32)


def test_the_lowest_flip_fraction_wins():
    assert best_weight({1e-2: 0.31, 1e-3: 0.30, 1e-4: 0.35}) == 1e-3


def test_lambda_is_searched_on_the_development_set(films, tmp_path):
    held = films(10, start=100)
    options = {"validation": held, "epochs": 2, "batch_size": 8, "learning_rate": 1e-2, "cpu": True}
    trained = search("masked + salience", films(40), TINY, tmp_path / "m", weights=(1.0, 0.01), **options)
    found = trained.report["lambda_search"]
    flips = {
        name: flip_fraction(load_model(str(tmp_path / "m" / "lambda" / name), device="cpu"), held)
        for name in ("1", "0.01")
    }
    assert found["flip_fraction"] == pytest.approx(flips)
    assert found["chosen"] == min((1.0, 0.01), key=lambda weight: (flips[f"{weight:g}"], weight))
    assert f"weight={found['chosen']}" in trained.report["identity"]["recipe"]
    assert json.loads((tmp_path / "m" / "train.json").read_text()) == trained.report
    assert flip_fraction(load_model(str(tmp_path / "m"), device="cpu"), held) == pytest.approx(
        flips[f"{found['chosen']:g}"]
    )
    before = (tmp_path / "m" / "lambda" / "1" / "model.safetensors").stat().st_mtime
    assert search("masked + salience", films(40), TINY, tmp_path / "m", weights=(1.0, 0.01), **options) == trained
    assert (tmp_path / "m" / "lambda" / "1" / "model.safetensors").stat().st_mtime == before


def test_only_salience_has_a_lambda():
    assert recipes.spec(with_salience("masked + salience", weight=0.5)) == "masked + salience(weight=0.5)"
    with pytest.raises(TrothError, match="not masked; write 'masked \\+ salience'"):
        with_salience("masked", weight=0.5)
