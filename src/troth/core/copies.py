"""Determines which examples count as one observation: copies of the same text, and members of a group that the user has
named.

Two texts are equal if their words are equal after Unicode normalization (NFKC) and case folding; white space and
punctuation do not count. They are near copies if they share at least half of their word trigrams (Jaccard index;
Broder, 1997), where the beginning and the end of a text count as words: one word in nine may differ, in texts of seven
words or more. A copy of a copy is a copy. Pairs of texts are copies if both texts are.
"""

import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from troth.core.units import word_spans

Ints = NDArray[np.int64]
_ROWS = 1_000  # number of texts that are compared with all others at a time
_PAIRS = 10_000  # number of text pairs whose trigrams are counted at a time


def clusters(texts: Sequence[str], pairs: Sequence[str | None], groups: Sequence[str | None] | None = None) -> Ints:
    """The cluster of each example, numbered in the order of their first examples.

    With `groups`, each group is a cluster; a text that occurs in several groups is in the cluster of the first.

    >>> clusters(["Good film.", "good  FILM", "A bad one"], [None] * 3).tolist()
    [0, 0, 1]
    >>> clusters(["One.", "Two.", "Three.", "Two!"], [None] * 4, ["a", "a", "b", "b"]).tolist()
    [0, 0, 1, 0]
    """
    copies = _copies([(_words(text), _words(pair or "")) for text, pair in zip(texts, pairs, strict=True)])
    if groups is None:
        return copies
    _, first = np.unique(copies, return_index=True)
    chosen = [groups[place] for place in first[copies]]
    return numbered((number, None) if group is None else group for number, group in zip(copies, chosen, strict=True))


def numbered(names: Iterable[Hashable]) -> Ints:
    """Numbers the names in the order of their first appearance.

    >>> numbered("baab").tolist()
    [0, 1, 1, 0]
    """
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


Words = tuple[str, ...]
_Trigram = tuple[str, ...]


def _words(text: str) -> Words:
    """The words that distinguish a text from others; the text itself if it has none."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    words = (plain[start:end] for start, end in word_spans(plain))
    return tuple(word for word in words if word.isalnum() or not _is_punctuation(word)) or (plain.strip(),)


def _is_punctuation(word: str) -> bool:
    """Symbols count as words: a text may consist of an emoji."""
    return all(unicodedata.category(letter)[0] in "PZC" for letter in word)


def _copies(keys: Sequence[tuple[Words, Words]]) -> Ints:
    """The cluster of each example: the text and all its copies."""
    distinct = numbered(keys)
    every = list(dict.fromkeys(keys))
    links = [(a, b) for a, b in _near([text for text, _ in every]) if _alike(every[a][1], every[b][1])]
    if not links:
        return distinct
    first, second = np.array(links).T
    graph = sparse.coo_array((np.ones(len(links)), (first, second)), shape=(len(every), len(every)))
    _, component = connected_components(graph, directed=False)
    return numbered(component[distinct].tolist())


def _alike(first: Words, second: Words) -> bool:
    """Whether two short texts are near copies."""
    one, other = _trigrams(first), _trigrams(second)
    return 2 * len(one & other) >= len(one | other)


def _trigrams(words: Words) -> set[_Trigram]:
    padded = ("", "", *words, "", "")
    return {padded[place : place + 3] for place in range(len(padded) - 2)}


def _near(texts: Sequence[Words]) -> Iterator[tuple[int, int]]:
    """All pairs of texts that share at least half of their trigrams.

    Any two such texts share a trigram among the rarer half of each one's trigrams (prefix filtering; Chaudhuri et al.,
    2006). In natural language these rarely occur in a second text, so few pairs have to be compared.
    """
    numbers: dict[_Trigram, int] = {}
    sets = [np.array([numbers.setdefault(each, len(numbers)) for each in _trigrams(words)]) for words in texts]
    if len(sets) < 2:
        return
    sizes = np.array([len(each) for each in sets])
    columns, rows = np.concatenate(sets), np.repeat(np.arange(len(sets)), sizes)
    rarity = np.empty(len(numbers), np.int64)
    rarity[np.argsort(np.bincount(columns), kind="stable")] = np.arange(len(numbers))
    order = np.lexsort((rarity[columns], rows))
    rows, columns = rows[order], rarity[columns[order]]
    # Rank of each trigram within its text, the rarest first.
    place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rare = place <= np.repeat(sizes // 2, sizes)
    whole, prefix = (
        sparse.csr_array((np.ones(int(some.sum()), np.int32), (rows[some], columns[some])), (len(sets), len(numbers)))
        for some in (np.ones(len(rows), bool), rare)
    )
    for start in range(0, len(sets), _ROWS):
        met = (prefix[start : start + _ROWS] @ prefix.T).tocoo()
        first, second = met.coords[0] + start, met.coords[1]
        first, second = first[earlier := first < second], second[earlier]
        for part in range(0, len(first), _PAIRS):
            one, other = first[part : part + _PAIRS], second[part : part + _PAIRS]
            shared = whole[one].multiply(whole[other]).sum(1)
            near = 3 * shared >= sizes[one] + sizes[other]  # 2 × shared ≥ size of the union
            yield from zip(one[near].tolist(), other[near].tolist(), strict=True)
