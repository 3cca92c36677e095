"""Errors that a user can fix, shown as one line without a traceback; and warnings for deprecated names."""

import warnings
from collections.abc import Iterable, Sequence

_LONGEST = 60  # characters of a name that are compared
_MOST = 3  # number of names that are suggested
_WARNED: set[str] = set()


class TrothError(Exception):
    """An error of one line that gives the name, the value and the way to fix it."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split("\n"))  # a name or value may contain line breaks


def unknown(kind: str, name: str, known: Iterable[str]) -> TrothError:
    """The error for an unknown name: suggests the nearest names, then lists all of them.

    >>> print(unknown("masking", "delet", ["zero", "delete"]))
    no masking is called 'delet'; did you mean delete? there are: delete, zero
    """
    names = sorted(known)
    near = nearest(name, names)
    hint = f" did you mean {_either(near)}?" if near else ""
    return TrothError(f"no {kind} is called {name!r};{hint} there are: {', '.join(names) or 'none'}")


def nearest(name: str, names: Sequence[str]) -> list[str]:
    """The names that were probably meant: those with a typo, a prefix, initials or a word in common.

    >>> names = ["gradient_shap", "integrated_gradients", "kernel_shap", "leave_one_out"]
    >>> nearest("inegrated_gradient", names), nearest("integ", names), nearest("loo", names), nearest("shap", names)
    (['integrated_gradients'], ['integrated_gradients'], ['leave_one_out'], ['gradient_shap', 'kernel_shap'])
    """
    asked = name.lower()[:_LONGEST]
    plain = {known: known.lower() for known in names}
    ways = (
        lambda known: _is_slip(asked, known, 1),
        lambda known: len(asked) > 1 and known.startswith(asked),
        lambda known: "".join(word[0] for word in known.split("_") if word) == asked,
        lambda known: _is_slip(asked, known, max(1, len(asked) // 3)),
        lambda known: len(asked) > 2 and any(word.startswith(asked) for word in known.split("_")),
        lambda known: len(known) > 2 and asked.startswith(known),
    )
    for way in ways:
        if found := [known for known in names if way(plain[known])]:
            closest = sorted(found, key=lambda known: (_distance(asked, plain[known]), known))
            return sorted(closest[:_MOST]) if way in (ways[1], ways[4]) else closest[:1]
    return []


def _is_slip(asked: str, known: str, most: int) -> bool:
    return min(len(asked), len(known)) > 1 and abs(len(asked) - len(known)) <= most and _distance(asked, known) <= most


def _distance(one: str, other: str) -> int:
    """How many letters must be added, removed, changed or swapped with the next one to get the other word."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        last, before, row = before, row, [i]
        for j, second in enumerate(other, start=1):
            steps = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != second))
            if i > 1 and j > 1 and (letter, second) == (other[j - 2], one[i - 2]):
                steps = min(steps, last[j - 2] + 1)
            row.append(steps)
    return row[-1]


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


class NoSplitError(TrothError):
    """The data do not have the requested split, or have several and none was chosen."""


class NoHeadError(TrothError):
    """The model lacks the required head: it was not trained to classify, or to fill in masked tokens."""


def warn_renamed(old: str, new: str, *, stacklevel: int = 2) -> None:
    """Warns about a deprecated name; `stacklevel` as in warnings.warn, counted from the caller of this function."""
    if old not in _WARNED:
        _WARNED.add(old)
        warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=stacklevel + 1)
