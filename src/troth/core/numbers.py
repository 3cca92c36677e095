"""Formats numbers in sentences: the same in the terminal, on pages, in records and in exported notes.

Numbers in tables are formatted by `core/sheet.py`, with the same number of decimals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_MINUS = "−"


def number(value: float) -> str:
    """Formats a number with three decimals, or with an exponent if these would be zero or the number too long.

    >>> number(-0.1234), number(0.00004), number(0.0), number(1.3e16)
    ('−0.123', '4e-05', '0.000', '1.3e+16')
    """
    if abs(value) >= 1e6:
        return _with_minus(f"{value:.2g}")
    text = f"{value:.3f}" if abs(value) >= 0.0005 or value == 0 else f"{value:.1g}"
    return _with_minus(text)


def difference(value: float) -> str:
    """
    >>> difference(0.25), difference(-0.25), difference(0.0)
    ('+0.250', '−0.250', '0.000')
    """
    return f"{'+' if value > 0 else ''}{number(value)}"


def interval(low: float, high: float) -> str:
    """
    >>> interval(-0.1, 0.2537)
    '[−0.100, 0.254]'
    """
    return f"[{number(low)}, {number(high)}]"


def p_value(p: float) -> str:
    """Formats a p-value as `p = …` or `p < …`; values below 0.001 are not distinguished.

    >>> p_value(0.0312), p_value(0.5), p_value(1.0), p_value(1.7e-05)
    ('p = 0.031', 'p = 0.5', 'p = 1.0', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else "p = 1.0" if p > 0.995 else f"p = {p:.2g}"


def percent(share: float) -> str:
    """A fraction in whole percent; with decimals if it would read as 0 or 100 % otherwise.

    >>> percent(0.973), percent(0.998), percent(0.0004), percent(1.0)
    ('97 %', '99.8 %', '0.04 %', '100 %')
    """
    hundred = 100 * share
    if 0 < hundred < 0.5:
        return f"{hundred:.1g} %" if hundred >= 0.01 else "under 0.01 %"
    if 99.5 <= hundred < 100:
        return f"{hundred:.1f} %" if hundred < 99.95 else "over 99.9 %"
    return f"{hundred:.0f} %"


def percents(low: float, high: float) -> str:
    """A range of fractions in whole percent.

    >>> percents(0.31, 0.998), percents(0.501, 0.502)
    ('31–100 %', '50 %')
    """
    return f"{'–'.join(dict.fromkeys(f'{100 * share:.0f}' for share in (low, high)))} %"


def scores(values: Sequence[float], *, signed: bool) -> list[str]:
    """The scores of one text, all with as many decimals as the largest needs for three digits.

    >>> scores([3.04, -0.982, 0.004], signed=True), scores([0.0123, 0.004], signed=False), scores([3e-7], signed=True)
    (['+3.04', '−0.98', '0.00'], ['0.0123', '0.0040'], ['+3e-07'])
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    size = math.floor(math.log10(largest)) if largest else 0
    form = f"{'+' if signed else ''}z.{max(0, 2 - size)}f" if size >= -4 else f"{'+' if signed else ''}.2g"
    return [_with_minus(format(float(value), form)) for value in values]


def _with_minus(text: str) -> str:
    """Uses a minus sign instead of a hyphen, and no sign for zero."""
    if not float(text):
        return text.lstrip("+-")
    return f"{_MINUS}{text[1:]}" if text.startswith("-") else text
