import warnings

import pytest

from troth.core.types import Example


@pytest.fixture(autouse=True)
def quiet():
    import transformers

    transformers.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*scaled_dot_product.*")
        yield


def film(number, *, pair=False, prefix="film"):
    """A sentence whose class is the word it holds, 0 awful or 1 great; of a pair, the second text says nothing."""
    label = number % 2
    filler = ["the", "plot", "of", "this", "long", "old", "film"][: 2 + number % 5]
    text = " ".join([*filler, ["awful", "great"][label], f"w{number}"])
    return Example(f"{prefix}-{number}", text, "is it good ?" if pair else None, label)


@pytest.fixture
def films():
    def make(count, *, start=0, pair=False):
        return [film(number, pair=pair) for number in range(start, start + count)]

    return make
