"""Parts of speech from whatever tagger the user has: a spaCy pipeline or any function from words to tags."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from troth.core.errors import TrothError
from troth.core.types import Scores

SHARES = "A text's scores are divided by the sum of their magnitudes and softmaxed before they are averaged by tag."
Tagger = Callable[[Sequence[str]], Sequence[str]]  # the words of one text -> a tag each


def find_tagger(name: str | Tagger) -> Tagger:
    """The tagger that "spacy:PIPELINE" or "package.module:function" names; a function is returned as it is."""
    if not isinstance(name, str):
        return name
    module, _, thing = name.partition(":")
    if not thing:
        raise TrothError(f"a tagger is spacy:PIPELINE or package.module:function, not {name!r}")
    if module == "spacy":
        return _spacy(thing)
    try:
        tagger: Any = getattr(import_module(module), thing)
    except (ImportError, AttributeError):
        raise TrothError(f"there is no tagger {name}: {module} has no {thing} that can be imported") from None
    if not callable(tagger):
        raise TrothError(f"the tagger {name} is a {type(tagger).__name__}; give a function from words to tags")
    return tagger  # type: ignore[no-any-return]


def _spacy(pipeline: str) -> Tagger:
    try:
        import spacy
        from spacy.tokens import Doc

        language = spacy.load(pipeline)
    except (ImportError, OSError):
        raise TrothError(
            f"the spaCy pipeline {pipeline} is not installed; pip install spacy, python -m spacy download {pipeline}"
        ) from None
    return lambda words: [token.pos_ for token in language(Doc(language.vocab, words=list(words)))]


def share_of_text(scores: ArrayLike) -> Scores:
    """A text's scores over the sum of their magnitudes, then softmaxed, so that every text counts alike.

    >>> share_of_text([2e-5, 1e-5, -1e-5]).round(3).tolist()
    [0.444, 0.346, 0.21]
    """
    values = np.asarray(scores, np.float64)
    powers = np.exp(values / (np.abs(values).sum() or 1.0))
    return np.asarray(powers / powers.sum())


def mean_by_tag(tagger: Tagger, texts: Iterable[tuple[Sequence[str], Scores]]) -> Mapping[str, tuple[float, int]]:
    """The mean importance of the words of each tag, and how many there are; from words and their scores."""
    by_tag: dict[str, list[float]] = defaultdict(list)
    for words, scores in texts:
        tags = list(tagger(words))
        if len(tags) != len(words):
            raise TrothError(f"the tagger gave {len(tags)} tags for {len(words)} words; it must give one per word")
        for tag, score in zip(tags, scores, strict=True):
            by_tag[str(tag)].append(float(score))
    return {tag: (float(np.mean(scores)), len(scores)) for tag, scores in sorted(by_tag.items())}
