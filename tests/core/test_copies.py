"""Which texts count as one: by examples, and against a slow loop written from the definition."""

import itertools

import numpy as np
import pytest

from troth.core import copies
from troth.core.copies import clusters

LONG = "The soup was cold, the waiter was rude and we waited for an hour before anybody came."


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("A good film.", "A good film.", True),
        ("A good film.", "A good film.   \n", True),
        ("A good film.", "\ta  GOOD film", True),
        ("A good film.", "A good film!!!", True),
        ("Ａ ｇｏｏｄ ｆｉｌｍ．", "A good film.", True),  # full width
        ("Un café noir", "Un cafe\u0301 noir", True),  # composed and decomposed
        ("Die Straße", "DIE STRASSE", True),
        ("A good film", "A bad film", False),
        ("This film is very good", "This film is very bad", False),  # too short for a word to be little
        ("nice 😀", "nice 😡", False),
        ("!!!", "...", False),
        ("", "   ", True),
        ("", "!", False),
        (LONG, LONG.replace("soup", "pasta"), True),
        (LONG, LONG.replace("soup", "pasta").replace("hour", "age"), True),  # two of 17
        (LONG, LONG.replace("soup", "pasta").replace("rude", "kind").replace("hour", "age"), False),
        (LONG, f"Well, {LONG}", True),
        (LONG, f"{LONG} (17)", True),
        (LONG, LONG.replace("the waiter was rude and we waited ", ""), False),
        (LONG, " ".join(reversed(LONG.split())), False),
        ("我非常喜欢这部电影的故事和演员的表演", "我非常喜欢这部电影的故事和演员的演出", True),
        ("我非常喜欢这部电影", "我非常喜欢这部电影。", True),
    ],
)
def test_two_texts(first, second, same):
    assert clusters([first, second], [None, None]).tolist() == ([0, 0] if same else [0, 1])


def test_of_a_pair_both_texts_must_be_copies():
    texts, pairs = ["A b.", "A b", "A b.", "A b."], ["C?", "c", "D?", None]
    assert clusters(texts, pairs).tolist() == [0, 0, 1, 2]
    near = [LONG.replace("soup", "pasta"), LONG.replace("cold", "warm"), LONG]
    assert clusters([LONG] * 3, near).tolist() == [0, 0, 0]  # a copy of a copy is a copy
    assert clusters([LONG] * 3, ["who?", "where?", "why?"]).tolist() == [0, 1, 2]


def test_a_group_is_a_cluster_and_a_text_is_in_one_only():
    texts = ["a a", "b b", "c c", "A A!", "d d"]
    assert clusters(texts, [None] * 5, ["x", "x", "y", "z", "y"]).tolist() == [0, 0, 1, 0, 1]
    # Every row a group of its own: the copies are one all the same.
    assert clusters(["a a"] * 4, [None] * 4, list("pqrs")).tolist() == [0] * 4
    # One without a group stands alone.
    assert clusters(texts, [None] * 5, ["x", None, None, None, "x"]).tolist() == [0, 1, 2, 0, 0]
    assert clusters([], []).tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_near_copies_are_those_of_the_definition(seed):
    generator = np.random.default_rng(seed)
    vocabulary = [f"w{number}" for number in range(30)]
    kinds = [generator.choice(vocabulary, size=generator.integers(1, 14)).tolist() for _ in range(6)]
    texts = []
    for _ in range(40):
        words = list(kinds[generator.integers(6)])
        words[generator.integers(len(words))] = str(generator.choice(vocabulary))
        texts.append(tuple(words))
    texts = list(dict.fromkeys(texts))

    def trigrams(words):
        return {(*["", "", *words, "", ""][place : place + 3],) for place in range(len(words) + 2)}

    def jaccard(first, second):
        return len(first & second) / len(first | second)

    sets = [trigrams(words) for words in texts]
    expected = {
        pair for pair in itertools.combinations(range(len(sets)), 2) if jaccard(*(sets[i] for i in pair)) >= 0.5
    }
    assert expected
    assert set(copies._near(texts)) == expected
