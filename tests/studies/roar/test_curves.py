import numpy as np
import pytest
import torch

from troth.studies.roar._curves import FLAT, Curve, performance


def curve(performance, random, **options):
    places = np.linspace(0, 1, len(performance[0])).tolist()
    given = {"counted": "share", "places": places, "tests": 1000, **options}
    return Curve("gradient", "recursive", performance=np.array(performance), random=np.array(random), **given)


def test_racu_a_seed_then_the_mean_and_its_interval():
    # Steps of a half: ACU = 0.5 · (0 + 0.5) / 2 · 2 = 0.25 of 0.375 in the first seed, nothing in the second.
    found = curve([[1.0, 0.5, 0.5], [1.0, 1.0, 0.5]], [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5]])
    assert found.racu.tolist() == [pytest.approx(2 / 3), 0.0]
    value, low, high = found.faithfulness
    assert value == pytest.approx(1 / 3)
    half = 12.7062 / 3  # Student's t of one degree of freedom times the standard error of 2/3 and 0
    assert (low, high) == pytest.approx((value - half, value + half), rel=1e-4)
    assert found.why == ""


def test_equal_seeds_have_no_interval():
    found = curve([[1.0, 0.5, 0.5]] * 3, [[1.0, 1.0, 0.5]] * 3)
    value, low, high = found.faithfulness
    assert value == pytest.approx(2 / 3)
    assert low == high == found.racu[0]


def test_a_random_curve_that_does_not_fall_leaves_racu_undefined():
    found = curve([[0.5, 0.4, 0.5], [1.0, 0.5, 0.5]], [[0.5, 0.4, 0.5], [1.0, 1.0, 0.5]])
    assert np.isnan(found.racu[0])
    assert found.racu[1] == pytest.approx(2 / 3)
    assert found.faithfulness[0] == pytest.approx(2 / 3)  # of the seed that has one
    assert found.why == FLAT


def test_the_released_code_clips_each_seed():
    # The random curve falls late and little: the area of the measure is 3 times the largest there could be.
    given = ([[1.0, 0.2, 0.9]], [[1.0, 0.95, 0.9]])
    assert curve(*given).racu[0] == pytest.approx(0.375 / 0.05)
    assert curve(*given, variant="released").racu[0] == 1.0


def test_a_curve_that_rises_is_warned_of():
    random = [[1.0, 0.8, 0.7, 0.6, 0.5]] * 3
    leaks = curve([[1.0, 0.5, 0.6, 0.7, 0.5], [1.0, 0.52, 0.6, 0.7, 0.5], [1.0, 0.5, 0.61, 0.7, 0.5]], random)
    assert leaks.rises == [0.5, 0.75]
    assert leaks.warning.startswith("class leakage: with gradient performance rises at 50%, 75%")
    falls = curve([[1.0, 0.7, 0.705, 0.6, 0.5], [1.0, 0.71, 0.7, 0.6, 0.5], [1.0, 0.7, 0.7, 0.6, 0.5]], random)
    assert falls.rises == []  # half a point of a thousand examples is chance
    assert falls.warning == ""
    # At 100 % nothing was chosen, so nothing can leak.
    assert curve([[1.0, 0.3, 0.3, 0.3, 0.9]] * 3, random).rises == []


def test_one_token_steps_have_an_area_but_no_racu():
    found = curve([[1.0, 0.5]], [[1.0, 1.0]], counted="tokens", places=[0, 1])
    assert np.isnan(found.racu).all()
    assert found.acu.tolist() == [0.25]
    assert "one-token steps" in found.why


def test_performance_of_predictions():
    labels = torch.tensor([0, 0, 0, 1])
    assert performance("accuracy", [0, 0, 0, 0], labels, 2) == 0.75
    assert performance("macro_f1", [0, 0, 0, 0], labels, 2) == pytest.approx((2 * 0.75 / 1.75) / 2)
