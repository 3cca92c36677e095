"""Importance without a model: how much a word stands out in its text or in the training texts.

TextRank, TF-IDF and χ² as used by SaLoss (Chrysostomou & Aletras 2021, eq. 1 and appendices B, H), computed over the
wordpieces of a text without its special tokens. A salience function takes the tokens of one text and scores each
position by its token type. `text_rank(tokens, window=8, steps=2)` is what the released code computes.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import chi2
from torch import Tensor

from troth.core.errors import TrothError, unknown
from troth.core.types import PROMPT, Encoding

Floats = NDArray[np.float64]
Tokens = Sequence[str]
Salience = Callable[[Tokens], Floats]


def pieces(encoding: Encoding) -> tuple[Tensor, list[str]]:
    """A mask of the tokens that belong to the text ([length] bool), and a name for the type of each of them.

    Special tokens and prompt tokens are excluded; for a pair, everything between the first and the last token is
    included (as in SaLoss).
    """
    if not encoding.tokenized:
        return torch.ones_like(encoding.ids, dtype=torch.bool), list(encoding.unit_texts)
    inside = encoding.units >= 0
    if encoding.example.text_pair is not None:
        inside = encoding.units != PROMPT
        if bool(inside.all()):
            inside[0] = inside[-1] = False
    return inside, [str(number) for number in encoding.ids[inside].tolist()]


def text_rank(tokens: Tokens, window: int = 4, damping: float = 0.85, steps: int = 10) -> Floats:
    """How central each token's type is among its neighbors: σᵢ = (1 − d) + d Σⱼ σⱼ / degree(j).

    Types less than `window` positions apart are linked (simple, undirected, no self-loops). All scores start at 1 and
    are updated together, at most `steps` times, until their total change is below 1e-5. A type without links scores 1 −
    d.

    >>> text_rank(["good", "plot", "weak", "cast"], window=2, damping=0.5, steps=1)
    array([0.75, 1.25, 1.25, 0.75])
    """
    types = list(dict.fromkeys(tokens))
    places = {token: place for place, token in enumerate(types)}
    order = np.array([places[token] for token in tokens], np.int64)
    start, end = _links(order, window, len(types))
    degree = np.bincount(start, minlength=len(types))
    scores: Floats = np.ones(len(types))
    for _ in range(steps):
        before = scores
        received = np.bincount(start, weights=before[end] / degree[end], minlength=len(types))
        scores = np.asarray((1 - damping) + damping * received, np.float64)
        if np.abs(scores - before).sum() < 1e-5:
            break
    return scores[order]


def uniform(tokens: Tokens) -> Floats:
    """Scores every token 1: an uninformative baseline."""
    return np.ones(len(tokens))


@dataclass(frozen=True)
class TfIdf:
    """Count in the text times inverse document frequency, normalized to unit length as in scikit-learn; unknown tokens
    score 0.
    """

    inverse_document_frequency: Mapping[str, float]

    @classmethod
    def fit(cls, token_lists: Sequence[Tokens], labels: ArrayLike | None = None) -> Self:
        """Learns document frequencies from training texts; labels are ignored."""
        vectorizer, _ = _features(token_lists)
        return cls(dict(zip(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_.tolist(), strict=True)))

    def __call__(self, tokens: Tokens) -> Floats:
        counts = Counter(tokens)
        weight = {token: count * self.inverse_document_frequency.get(token, 0.0) for token, count in counts.items()}
        length = float(np.linalg.norm(list(weight.values()))) or 1.0
        return np.array([weight[token] / length for token in tokens])


@dataclass(frozen=True)
class ChiSquared:
    """How strongly a token's TF-IDF mass depends on the class in the training texts (χ²); unknown tokens score 0."""

    statistic: Mapping[str, float]

    @classmethod
    def fit(cls, token_lists: Sequence[Tokens], labels: ArrayLike | None = None) -> Self:
        """Learns from training texts with one label each."""
        if labels is None or len(np.asarray(labels)) != len(token_lists):
            raise TrothError(f"chi_squared needs one label for each of the {len(token_lists)} training texts")
        vectorizer, features = _features(token_lists)
        statistic, _ = chi2(features, np.asarray(labels))
        return cls(dict(zip(vectorizer.get_feature_names_out().tolist(), statistic.tolist(), strict=True)))

    def __call__(self, tokens: Tokens) -> Floats:
        return np.array([self.statistic.get(token, 0.0) for token in tokens])


def fit_salience(name: str, token_lists: Sequence[Tokens], labels: ArrayLike | None = None) -> Salience:
    """The salience function of that name (text_rank, tf_idf, chi_squared, uniform), fitted if it needs fitting."""
    if name not in _FITTED | _PLAIN:
        raise unknown("salience", name, _FITTED | _PLAIN)
    return _FITTED[name].fit(token_lists, labels) if name in _FITTED else _PLAIN[name]


def normalize(scores: ArrayLike) -> Floats:
    """Divides σ + 1e-8 by its sum: a distribution without zeros, uniform if all scores are zero.

    >>> normalize([0, 0])
    array([0.5, 0.5])
    """
    salience = np.asarray(scores, np.float64)
    if np.any(salience < 0):
        raise TrothError("a salience cannot be negative: pass magnitudes")
    raised = salience + 1e-8
    return np.asarray(raised / raised.sum())


_FITTED: dict[str, type[TfIdf] | type[ChiSquared]] = {"tf_idf": TfIdf, "chi_squared": ChiSquared}
_PLAIN: dict[str, Salience] = {"text_rank": text_rank, "uniform": uniform}


def _links(order: NDArray[np.int64], window: int, types: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The source and target index of every link between types; each link appears once in each direction."""
    if window < 1:
        raise TrothError(f"text_rank: a window holds at least one token, not {window}")
    shifts = range(1, min(window, len(order)))
    pairs = [(order[:-shift], order[shift:]) for shift in shifts]
    near = np.concatenate([near for near, _ in pairs] or [order[:0]])
    far = np.concatenate([far for _, far in pairs] or [order[:0]])
    keys = np.concatenate([near * types + far, far * types + near])[np.tile(near != far, 2)]
    start, end = np.divmod(np.unique(keys), max(types, 1))
    return start, end


def _features(token_lists: Sequence[Tokens]) -> tuple[Any, Any]:
    if not any(len(tokens) for tokens in token_lists):
        raise TrothError("a fitted salience needs training texts with words; there are none")
    vectorizer = TfidfVectorizer(analyzer=list)
    return vectorizer, vectorizer.fit_transform(token_lists)
