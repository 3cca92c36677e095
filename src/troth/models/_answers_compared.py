"""How much two answers agree, from their texts alone: a number from 0 to 1."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from troth.core.errors import TrothError
from troth.core.types import Example
from troth.core.user_code import calling

Compare = Callable[[str, str], float]  # what was written, and the answer that is explained


def exact(written: str, answer: str) -> float:
    """1 if both hold the same words in the same order; case, punctuation and white space do not count.

    >>> exact("It is Paris.", "it is paris"), exact("Paris", "It is Paris")
    (1.0, 0.0)
    """
    return float(_words(written) == _words(answer))


def token_f1(written: str, answer: str) -> float:
    """The harmonic mean of precision and recall of the words of the answer (Rajpurkar et al., 2016).

    >>> round(token_f1("It is Paris", "Paris, of course"), 3), token_f1("no", "yes")
    (0.333, 0.0)
    """
    own, other = Counter(_words(written)), Counter(_words(answer))
    shared = (own & other).total()
    return 2 * shared / (own.total() + other.total()) if shared else float(not own and not other)


COMPARISONS: Mapping[str, Compare] = {"exact": exact, "token_f1": token_f1}


def comparison(compare: Any) -> tuple[str, Compare]:
    """The name and the function of `compare`: a name, a bi-encoder of load_model, or a function of two texts."""
    from troth.models.similarity import Similarity

    if isinstance(compare, str) and compare in COMPARISONS:
        return compare, COMPARISONS[compare]
    if isinstance(compare, Similarity):
        return f"the cosine of {compare.name}", lambda written, answer: _cosine(compare, written, answer)
    if not callable(compare):
        raise TrothError(
            f"compare must be {', '.join(COMPARISONS)}, a bi-encoder of load_model or a function of two texts, not "
            f"{compare!r}"
        )
    name = getattr(compare, "__name__", type(compare).__name__)

    def called(written: str, answer: str) -> float:
        with calling(name, "two answers"):
            return float(compare(written, answer))

    return name, called


def _cosine(model: Any, written: str, answer: str) -> float:
    from troth.models._trial import rows_of

    encodings = model.encode([Example("", written or " ", answer)])
    return max(0.0, float(model.forward(rows_of(model, encodings)).logits[0, 0]))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
