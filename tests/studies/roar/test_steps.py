import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troth.core.errors import TrothError
from troth.studies._copies import erase
from troth.studies.roar._plan import steps_of


def slowly(scores, left, counted, amount):
    """Straight from the definition, for one text."""
    n = len(scores)
    count = n * amount // 10_000 if counted == "share" else min(n, amount)
    order = sorted(range(n), key=lambda place: (left[place], -scores[place], place))
    gone = set(order[:count])
    return [left[place] and place not in gone for place in range(n)]


texts = st.lists(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.5]), st.booleans()), max_size=12), min_size=1, max_size=5
)


@given(texts, st.sampled_from(["share", "tokens"]), st.data())
def test_erasing_is_what_the_definition_says(texts, counted, data):
    amount = data.draw(st.integers(0, 10_000 if counted == "share" else 14))
    scores = np.float32([score for text in texts for score, _ in text])
    left = np.array([there for text in texts for _, there in text], bool)
    found = erase(scores, left, [len(text) for text in texts], counted, amount)
    right = [
        there
        for text in texts
        for there in slowly([score for score, _ in text], [there for _, there in text], counted, amount)
    ]
    assert found.tolist() == right


def test_erased_tokens_stay_in_the_count_and_ties_go_to_the_earlier():
    # 10 tokens at 20 %: two in all; one is gone already, so of the two highest the earlier goes, too.
    scores = np.float32([9, 1, 1, 1, 5, 1, 5, 1, 1, 1])
    left = np.array([False] + [True] * 9)
    found = erase(scores, left, [10], "share", 2_000)
    assert np.flatnonzero(~found).tolist() == [0, 4]
    # 9 tokens at 30 %: floor(2.7) = 2; in floats 10 · 0.3 or 100 · 0.29 would be one too few.
    assert (~erase(np.ones(9, np.float32), np.ones(9, bool), [9], "share", 3_000)).sum() == 2
    assert (~erase(np.ones(100, np.float32), np.ones(100, bool), [100], "share", 2_900)).sum() == 29


def test_steps():
    assert steps_of(0.1).amounts == tuple(range(1_000, 10_001, 1_000))
    assert steps_of(0.1).inner[-1] == 9_000  # at 100 % all measures are one
    assert steps_of(0.1).places[:2] == [0, 0.1]
    assert steps_of("one").amounts == tuple(range(1, 11))
    assert steps_of("one").inner == steps_of("one").amounts


@pytest.mark.parametrize("step", [0.3, 0, 1.5, -0.1, "two", True])
def test_a_step_must_divide_one(step):
    with pytest.raises(TrothError, match="step must divide 1") as error:
        steps_of(step)
    assert "\n" not in str(error.value)
