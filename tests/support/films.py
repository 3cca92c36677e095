"""Sentences whose class is the word they hold."""

from troth.core.types import Example


def film(number, *, pair=False, prefix="film"):
    """A sentence whose class is the word it holds, 0 awful or 1 great; of a pair, the second text says nothing."""
    label = number % 2
    filler = ["the", "plot", "of", "this", "long", "old", "film"][: 2 + number % 5]
    text = " ".join([*filler, ["awful", "great"][label], f"w{number}"])
    return Example(f"{prefix}-{number}", text, "is it good ?" if pair else None, label)
