"""Of many similar cases the quick suite tries a few; `make test-full` tries all of them."""

import pytest


def every(step, values):
    """Each value as a parameter; all but every `step`-th one are long checks."""
    return [value if number % step == 0 else long(value) for number, value in enumerate(values)]


def long(value):
    """A parameter that only the full suite tries; a tuple is several arguments."""
    values = value if isinstance(value, tuple) else (value,)
    return value if hasattr(value, "marks") else pytest.param(*values, marks=pytest.mark.full)
