"""The reviews as they lie in the file: balanced, varied, no two alike, and every marked span on whole words."""

import re
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

import pytest

DOMAINS = ("film", "book", "restaurant", "gadget")
LABELS = ("negative", "positive")
TAGS = {"negation", "contrast", "irony"}
NEGATORS = {"no", "not", "never", "nothing", "nobody", "none", "neither", "cannot", "without", "hardly", "barely"}
CONTRASTS = {"but", "although", "though", "despite", "however", "yet", "otherwise", "whereas"}

SPAN = re.compile(r"\[\[(.*?)\]\]")
WORD = re.compile(r"\w+(?:'\w+)*")


class Line(NamedTuple):
    id: str
    domain: str
    label: str
    tags: frozenset[str]
    marked: str

    @property
    def text(self) -> str:
        return SPAN.sub(r"\1", self.marked)

    @property
    def words(self) -> list[str]:
        return WORD.findall(self.text.lower())

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Characters in `text`: the n-th span has 4n brackets before its first word, and the two that open it."""
        found = enumerate(SPAN.finditer(self.marked))
        return [(match.start(1) - 4 * n - 2, match.end(1) - 4 * n - 2) for n, match in found]


def read() -> Iterator[Line]:
    for line in (files("troth") / "data" / "reviews.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, domain, label, tags, marked = line.split("\t")
            yield Line(name, domain, label, frozenset() if tags == "-" else frozenset(tags.split(",")), marked)


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return list(read())


def test_two_comment_lines_open_the_file() -> None:
    raw = (files("troth") / "data" / "reviews.txt").read_text(encoding="utf-8").splitlines()
    assert [n for n, line in enumerate(raw) if line.startswith("#")] == [0, 1]
    assert all(line == line.strip() and "  " not in line for line in raw)


def test_enough_reviews_and_balanced_in_every_domain(lines: list[Line]) -> None:
    assert len(lines) >= 264
    counts = Counter((line.domain, line.label) for line in lines)
    assert set(counts) == {(domain, label) for domain in DOMAINS for label in LABELS}
    assert len(set(counts.values())) == 1


def test_any_eight_in_a_row_from_the_top_are_balanced(lines: list[Line]) -> None:
    # A user who asks for the first 8, 16, 24 … reviews gets every domain and both classes.
    for start in range(0, len(lines), 8):
        assert len({(line.domain, line.label) for line in lines[start : start + 8]}) == 8


def test_ids_are_unique_and_numbered_within_their_domain(lines: list[Line]) -> None:
    for domain in DOMAINS:
        ids = [line.id for line in lines if line.domain == domain]
        assert sorted(ids) == [f"{domain}-{n:03d}" for n in range(1, len(ids) + 1)]


def test_lengths(lines: list[Line]) -> None:
    lengths = [len(line.words) for line in lines]
    # The first hundred are short enough for every method, exact_shapley among them.
    assert all(3 <= length <= 11 for length in lengths[:104])
    assert all(12 <= length <= 45 for length in lengths[104:])
    assert max(lengths) >= 40


def test_spans_are_well_formed_and_on_word_boundaries(lines: list[Line]) -> None:
    for line in lines:
        spans = line.spans
        assert 1 <= len(spans) <= 4, line.id
        assert not set("[]") & set(line.text), line.id
        starts = {match.start() for match in WORD.finditer(line.text)}
        ends = {match.end() for match in WORD.finditer(line.text)}
        for (start, end), words in zip(spans, SPAN.findall(line.marked), strict=True):
            assert line.text[start:end] == words, line.id
            assert start in starts, (line.id, words)
            assert end in ends, (line.id, words)
            assert 1 <= len(WORD.findall(words)) <= 5, (line.id, words)


def test_a_sixth_has_negation_contrast_or_irony(lines: list[Line]) -> None:
    tagged = [line for line in lines if line.tags]
    assert len(tagged) * 6 >= len(lines)
    assert set().union(*(line.tags for line in tagged)) == TAGS
    for label in LABELS:
        assert {tag for line in tagged if line.label == label for tag in line.tags} == TAGS


def test_tags_agree_with_the_words(lines: list[Line]) -> None:
    for line in lines:
        negated = any(word in NEGATORS or word.endswith("n't") for word in line.words)
        assert negated == ("negation" in line.tags), line.id
        # Contrast needs no conjunction ("Shame about the story"), but a conjunction makes one.
        assert "contrast" in line.tags or not CONTRASTS & set(line.words), line.id


def test_no_two_reviews_share_five_words_in_a_row(lines: list[Line]) -> None:
    owner: dict[tuple[str, ...], str] = {}
    for line in lines:
        for n in range(len(line.words) - 4):
            run = tuple(line.words[n : n + 5])
            assert owner.setdefault(run, line.id) == line.id, (run, owner[run], line.id)


def test_openings_differ(lines: list[Line]) -> None:
    opening, times = Counter(tuple(line.words[:3]) for line in lines).most_common(1)[0]
    assert times <= 3, opening


def test_many_words_carry_the_verdict_and_none_carries_many(lines: list[Line]) -> None:
    for label in LABELS:
        marked = Counter(
            word
            for line in lines
            if line.label == label
            for word in {word for span in SPAN.findall(line.marked) for word in WORD.findall(span.lower())}
            if len(word) > 3
        )
        assert len(marked) >= 150
        word, times = marked.most_common(1)[0]
        assert times * 20 <= sum(line.label == label for line in lines), word


def test_no_single_word_gives_the_label_away(lines: list[Line]) -> None:
    seen = {label: Counter(w for line in lines if line.label == label for w in set(line.words)) for label in LABELS}
    for word in seen["negative"] | seen["positive"]:
        right = len(lines) // 2 + abs(seen["positive"][word] - seen["negative"][word])
        assert right < 0.6 * len(lines), word
