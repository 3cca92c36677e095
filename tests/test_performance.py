import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from troth.core.errors import TrothError
from troth.performance import NAMES, indicators, performance

REFERENCE = {
    "accuracy": accuracy_score,
    "macro_f1": lambda true, guess: f1_score(true, guess, average="macro"),
    "micro_f1": lambda true, guess: f1_score(true, guess, average="micro"),
    "matthews": matthews_corrcoef,
}


@pytest.mark.filterwarnings("ignore:A single label")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_it_is_scikit_learns(pairs):
    labels, predictions = np.array(pairs).T
    means = indicators(labels, predictions, 5).mean(0)  # a class that never occurs does not count
    for name in NAMES:
        assert performance(name, means) == pytest.approx(REFERENCE[name](labels, predictions), abs=1e-9)


def test_weights_are_repeated_examples():
    generator = np.random.default_rng(0)
    labels, predictions = generator.integers(0, 3, 30), generator.integers(0, 3, (30, 2, 4))
    drawn = generator.integers(0, 30, 30)
    weights = np.bincount(drawn, minlength=30) / 30
    weighted = np.tensordot(weights, indicators(labels, predictions, 3), axes=1)  # [2, 4, 3, classes]
    for name in NAMES:
        found = performance(name, weighted)
        expected = [
            [REFERENCE[name](labels[drawn], predictions[drawn, one, two]) for two in range(4)] for one in range(2)
        ]
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_an_unknown_name_is_refused():
    with pytest.raises(TrothError, match="no performance is called 'f1'"):
        performance("f1", np.zeros((3, 2)))
