"""Words and sentences against Unicode's own tests of UAX-29, from the Debian package unicode-data.

A case whose characters have other properties in `regex` than in the files is left out: the files are of one version of
Unicode, `regex` knows a later one (U+2701 is Extended_Pictographic in 15.0, but not in the version of `regex`).
"""

import os
from functools import cache
from pathlib import Path

import pytest
import regex

from troth.core.units import sentence_spans, word_spans

FOLDER = Path(os.environ.get("TROTH_UNICODE", "/usr/share/unicode"))
TESTS = {"word": "auxiliary/WordBreakTest.txt", "sentence": "auxiliary/SentenceBreakTest.txt"}
PROPERTIES = {
    "WB": "auxiliary/WordBreakProperty.txt",
    "SB": "auxiliary/SentenceBreakProperty.txt",
    "Extended_Pictographic": "emoji/emoji-data.txt",
}

pytestmark = pytest.mark.skipif(
    not all((FOLDER / file).is_file() for file in [*TESTS.values(), *PROPERTIES.values()]),
    reason=f"no Unicode tests in {FOLDER}: apt-get install unicode-data, or name their folder in TROTH_UNICODE",
)


def lines_of(file):
    lines = (line.partition("#")[0].strip() for line in (FOLDER / file).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def segments_of(line):
    """The segments of one case: hexadecimal code points, ÷ where a segment ends and × where it does not."""
    parts = (part.replace("×", " ").split() for part in line.split("÷"))
    return ["".join(chr(int(code, 16)) for code in codes) for codes in parts if codes]


@cache
def property_in_files(name):
    """The value of every character that has one."""
    values = {}
    for line in lines_of(PROPERTIES[name]):
        codes, value = (part.strip() for part in line.split(";"))
        if name in ("WB", "SB") or value == name:
            first, _, last = codes.partition("..")
            values |= dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), value)
    return values


def same_in_regex(character, name):
    value = property_in_files(name).get(ord(character))
    if name in ("WB", "SB"):
        return regex.match(rf"\p{{{name}={value or 'Other'}}}", character) is not None
    return (regex.match(rf"\p{{{name}}}", character) is not None) == (value is not None)


def cases(file, *names):
    """The cases whose characters `regex` knows as the files do, which must be nearly all."""
    listed = [segments_of(line) for line in lines_of(file)]
    known = [
        segments
        for segments in listed
        if all(same_in_regex(character, name) for character in "".join(segments) for name in names)
    ]
    assert len(listed) > 400
    assert len(known) > 0.99 * len(listed)
    return known


def test_words_break_where_unicode_says():
    wrong = []
    for segments in cases(TESTS["word"], "WB", "Extended_Pictographic"):
        text = "".join(segments)
        words = [text[start:end] for start, end in word_spans(text)]
        if words != [segment for segment in segments if not segment.isspace()]:
            wrong.append((segments, words))
    assert not wrong


def test_sentences_break_where_unicode_says():
    wrong = []
    for segments in cases(TESTS["sentence"], "SB"):
        text = "".join(segments)
        sentences = [text[start:end] for start, end in sentence_spans(text)]
        if sentences != [segment.strip() for segment in segments if segment.strip()]:
            wrong.append((segments, sentences))
    assert not wrong
