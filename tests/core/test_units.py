import numpy as np
import pytest

from troth.core.units import join, sentence_spans, word_spans

WORDS = {
    "can't stop, won't stop.": ["can't", "stop", ",", "won't", "stop", "."],
    "U.S.A. costs 3.14 or 1,000": ["U.S.A", ".", "costs", "3.14", "or", "1,000"],
    "'em and 'arty": ["'", "em", "and", "'", "arty"],  # no break only between letters
    "foo_bar x:y a·b": ["foo_bar", "x:y", "a·b"],
    "👩‍👩‍👧 👍🏽 🇩🇪🇫🇷": ["👩‍👩‍👧", "👍🏽", "🇩🇪", "🇫🇷"],
    "cafe\u0301 zero\u200bwidth": ["cafe\u0301", "zero", "\u200b", "width"],
    "שלום ל\"ב ג'": ["שלום", 'ל"ב', "ג'"],
    "日本 カタカナ": ["日", "本", "カタカナ"],
    "a\r\nb \t c": ["a", "b", "c"],
    "[MASK] @user": ["[", "MASK", "]", "@", "user"],
    "": [],
    " \n": [],
}


@pytest.mark.parametrize("text", WORDS)
def test_words_follow_unicode(text):
    assert [text[a:b] for a, b in word_spans(text)] == WORDS[text]


SENTENCES = {
    "It cost 3.5 euros. Nobody came!": ["It cost 3.5 euros.", "Nobody came!"],
    'He said "no." Then he left.': ['He said "no."', "Then he left."],
    "Really?! Yes... no. it goes on": ["Really?!", "Yes... no. it goes on"],
    "A.B. Smith\nNew line": ["A.B.", "Smith", "New line"],
    "": [],
}


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences_follow_unicode(text):
    assert [text[a:b] for a, b in sentence_spans(text)] == SENTENCES[text]


def test_a_piece_joins_the_first_unit_it_overlaps():
    units = [(0, 3), (4, 8), (9, 10)]
    pieces = [(0, 3), (3, 5), (2, 6), (4, 8), (8, 9), (10, 12), (3, 3)]
    #          same    gap+1   0+1     same    gap     end      empty, before 1
    assert join(pieces, units).tolist() == [0, 1, 0, 1, 2, 2, 1]


def test_without_units_nothing_joins():
    assert join([(0, 1)], []).tolist() == [-1]
    assert join([], [(0, 1)]).dtype == np.int64
