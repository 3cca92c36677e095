"""What is done another way because it is faster gives the same, to the last bit."""

import random

import numpy as np
import pytest
import torch

from troth.core import draws
from troth.core.units import _WORD, word_spans, words_until
from troth.metrics._erasing import ranking


def by_the_rules(text):
    return [match.span() for match in _WORD.finditer(text) if not match[0].isspace()]


def test_words_of_ascii_are_those_of_the_unicode_rules():
    drawn = random.Random(0)
    alphabet = "aB1 0.,:;'\"_-\t\n\r\x0b\x1c\x1f$!@"
    texts = ["".join(drawn.choices(alphabet, k=drawn.randint(0, 12))) for _ in range(20_000)]
    texts += ["".join(chr(drawn.randrange(128)) for _ in range(30)) for _ in range(2_000)]
    assert all(word_spans(text) == by_the_rules(text) for text in texts)


@pytest.mark.parametrize("text", ["it can't cost $3.50, no!", "l'été n'est pas fini, 3,5 €", "", "  "])
def test_words_up_to_a_cut(text):
    every = by_the_rules(text)
    for end in range(len(text) + 2):
        before = [span for span in every if span[0] < end]
        assert words_until(text, end) == (before, len(every) - len(before))


@pytest.mark.parametrize("key", [0, 5, 2**62 + 12345, 2**63 - 1])
def test_draws_on_the_cpu_are_those_of_a_device(key):
    on_device = draws.uniforms(draws.row_keys(key, torch.arange(7)), 33)
    assert torch.equal(draws.Draws(key).uniforms(7, 33), on_device)


def test_row_keys_of_several_bases():
    bases, rows = torch.tensor([3, 3, 2**62]), torch.tensor([0, 1, 1])
    each = [draws.row_keys(int(base), row[None]) for base, row in zip(bases, rows, strict=True)]
    assert torch.equal(draws.row_keys(bases, rows), torch.cat(each))


def test_ties_and_undefined_scores_are_ranked_as_torch_ranks_them():
    drawn = np.random.default_rng(0)
    for _ in range(200):
        scores = drawn.integers(-2, 3, 9).astype(np.float32) * np.float32(0.5)
        scores[drawn.random(9) < 0.1] = np.nan
        scores[drawn.random(9) < 0.1] = -0.0
        expected = torch.argsort(torch.from_numpy(scores), descending=True, stable=True)
        assert torch.equal(ranking(scores), expected)
