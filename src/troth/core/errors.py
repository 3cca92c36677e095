"""What a user can fix, in one line and shown without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TrothError(Exception):
    """One line that names the thing, the value and the way out."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split("\n"))  # a name or value may hold several


def unknown(kind: str, name: str, known: Iterable[str]) -> TrothError:
    """The error for a name nobody has: the nearest one first, then all there are.

    >>> print(unknown("masking", "delet", ["zero", "delete"]))
    no masking is called 'delet'; did you mean delete? there are: delete, zero
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5) or _by_initials(name, names)
    hint = f" did you mean {near[0]}?" if near else ""
    return TrothError(f"no {kind} is called {name!r};{hint} there are: {', '.join(names) or 'none'}")


def _by_initials(name: str, names: list[str]) -> list[str]:
    # People abbreviate: 'loo' is leave_one_out, 'ig' is integrated_gradients.
    return [known for known in names if "".join(part[0] for part in known.split("_") if part) == name.lower()]


class NoSplitError(TrothError):
    """The data does not have the split asked for, or has several and none was chosen."""


class NoHeadError(TrothError):
    """The model was never trained to classify."""
