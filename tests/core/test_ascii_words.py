"""Words of many texts at once: those of `word_spans`, which goes text by text."""

from hypothesis import given, settings
from hypothesis import strategies as st

from troth.core.units import ascii_words, word_spans

CHARACTERS = st.sampled_from("ab12_.,:;'\" \n\t\r-!\x00\x1c\x7f") | st.characters(max_codepoint=127)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.text(CHARACTERS, max_size=14), min_size=1, max_size=4))
def test_as_one_by_one(texts):
    starts, ends, begins = ascii_words(texts)
    expected = [
        (start + begin, end + begin)
        for text, begin in zip(texts, begins.tolist(), strict=True)
        for start, end in word_spans(text)
    ]
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == expected
