"""Importance without a model: how much a word stands out in its text, or in the training texts.

TextRank, TF-IDF and χ² as SaLoss uses them (Chrysostomou & Aletras 2021, eq. 1 and appendices B, H), over the
wordpieces of a text without its special tokens. A salience is called with the tokens of one text and scores each
position by its type. `text_rank(tokens, window=8, steps=2)` is what the released code computes.
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
    """Which tokens are pieces of the text, and a name for each one's type. -> [length] bool, one name per piece

    Special tokens and a prompt are none; of a pair, all between the begin and the end token is (as SaLoss has it).
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

    Types that stand less than `window` apart are linked (simple, undirected, no self loops). All start at 1 and move
    together, for at most `steps`, until they move by less than 1e-5 in all. A type without a link has 1 − d.

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
    """The same for every token: the baseline that says nothing."""
    return np.ones(len(tokens))


@dataclass(frozen=True)
class TfIdf:
    """Count in the text times inverse document frequency, at unit length, as scikit-learn computes it; unknown: 0."""

    inverse_document_frequency: Mapping[str, float]

    @classmethod
    def fit(cls, token_lists: Sequence[Tokens], labels: ArrayLike | None = None) -> Self:
        """Learns document frequencies from training texts; labels are not read."""
        vectorizer, _ = _features(token_lists)
        return cls(dict(zip(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_.tolist(), strict=True)))

    def __call__(self, tokens: Tokens) -> Floats:
        counts = Counter(tokens)
        weight = {token: count * self.inverse_document_frequency.get(token, 0.0) for token, count in counts.items()}
        length = float(np.linalg.norm(list(weight.values()))) or 1.0
        return np.array([weight[token] / length for token in tokens])


@dataclass(frozen=True)
class ChiSquared:
    """How far a token's TF-IDF mass depends on the class in the training texts (χ²); unknown: 0."""

    statistic: Mapping[str, float]

    @classmethod
    def fit(cls, token_lists: Sequence[Tokens], labels: ArrayLike | None = None) -> Self:
        """Learns from training texts and one label each."""
        if labels is None or len(np.asarray(labels)) != len(token_lists):
            raise TrothError(f"chi_squared needs one label for each of the {len(token_lists)} training texts")
        vectorizer, features = _features(token_lists)
        statistic, _ = chi2(features, np.asarray(labels))
        return cls(dict(zip(vectorizer.get_feature_names_out().tolist(), statistic.tolist(), strict=True)))

    def __call__(self, tokens: Tokens) -> Floats:
        return np.array([self.statistic.get(token, 0.0) for token in tokens])


def fit_salience(name: str, token_lists: Sequence[Tokens], labels: ArrayLike | None = None) -> Salience:
    """The salience of that name (text_rank, tf_idf, chi_squared, uniform), fitted where there is something to fit."""
    if name not in _FITTED | _PLAIN:
        raise unknown("salience", name, _FITTED | _PLAIN)
    return _FITTED[name].fit(token_lists, labels) if name in _FITTED else _PLAIN[name]


def normalize(scores: ArrayLike) -> Floats:
    """(σ + 1e-8) over its sum: a distribution without zeros; all zero gives the uniform one.

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
    """Both ends of every link between types, each link in both directions, once."""
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
