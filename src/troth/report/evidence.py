"""An explanation's numbers in words, the same in the terminal and in HTML: its strongest units and its proof."""

from __future__ import annotations

import html as markup
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from troth.core.types import Attribution

_SHOWN = 5  # units with their numbers
_LONGEST = 30  # characters of a unit, which may be a sentence
FAINT = 0.2  # of the largest score: below it a unit gets no color in the terminal, and no line or sign
UNDIRECTED = "how much, not which way"


def method_of(attribution: Attribution) -> str:
    """The name of the method; of one whose scores have no sign, also that."""
    name = attribution.explainer.partition("(")[0] or "imported scores"
    return name if attribution.signed else f"{name} ({UNDIRECTED})"


def line(attribution: Attribution) -> str:
    """The text's id, the method, the class and the strongest units, in one line: no tensor, and not the whole text."""
    shown = "{:.4g}".format if attribution.outputs == "values" else percent
    said = "".join(f" ({shown(value)})" for value in attribution.probabilities[attribution.target :][:1])
    units = strongest(attribution) if attribution.question.n_units else "no units"
    name = attribution.label(attribution.target).strip()
    return f"of {attribution.example.id!r} by {method_of(attribution)} → {name}{said}; {units}"


def lines(attribution: Attribution) -> Iterator[str]:
    """The strongest units, then the proof."""
    if attribution.question.n_units:
        yield strongest(attribution)
    if attribution.proof is not None:
        yield proof_line(attribution)
        yield chance_line(attribution)


def strongest(attribution: Attribution) -> str:
    """The units with the largest scores, either way, with their numbers."""
    scores = np.nan_to_num(attribution.scores)
    order = np.argsort(-np.abs(scores), kind="stable")[:_SHOWN]
    shape = "+.2g" if attribution.signed else ".2g"
    shown = (f"{_short(attribution.units[unit])} {format(float(scores[unit]), shape)}" for unit in order)
    return f"strongest: {', '.join(shown)}"


def proof_line(attribution: Attribution) -> str:
    """What becomes of the class without the top units, and without random ones."""
    proof = attribution.proof
    assert proof is not None
    name, units = attribution.label(attribution.target), _units(attribution)
    spread = (proof.random_high - proof.random_low) / 2
    is_value = attribution.outputs == "values"
    shown = "{:.4g}".format if is_value else percent
    points = 100 * spread
    half = f"{spread:.2g}" if is_value else f"{points:.0f}" if points >= 1 or points < 0.005 else f"{points:.1g}"
    flips = proof.predicted_without_top != name and attribution.is_predicted
    return (
        f"without its top {percent(proof.ratio)}: {name} {shown(proof.probability)} → {shown(proof.without_top)} "
        f"(random {units}: → {shown(proof.without_random)} ± {half})"
        f"{f'; the model then says {proof.predicted_without_top}' if flips else ''}"
    )


def chance_line(attribution: Attribution) -> str:
    """How many random choices do as well, and what was erased how."""
    proof = attribution.proof
    assert proof is not None
    units, total = _units(attribution), attribution.question.n_units
    erased = f"{proof.count} of {total} {units if total > 1 else units[:-1]}"
    how = "deleted" if proof.masking == "delete" else f"erased by {proof.masking}"
    return f"{percent(proof.chance)} of random choices of {units} do as well ({erased}, {how})"


def legend(
    attributions: Sequence[Attribution],
    toward: str = "+ or blue",
    away: str = "- or underlined orange",
    either: str = "^ or blue",
) -> Iterator[str]:
    """What colors, signs and ± stand for, as far as they are used."""
    outputs = {attribution.outputs for attribution in attributions}
    written = attributions and all(attribution.question.encoding.written for attribution in attributions)
    is_value = outputs == {"values"} and not written
    thing = "what was written" if written else "the label" if outputs == {"labels"} else "the class"
    if any(attribution.signed for attribution in attributions):
        raises = f"{toward} raises the value, {away} lowers it"
        yield raises if is_value else f"{toward} pushes toward {thing}, {away} away from it"
    if not all(attribution.signed for attribution in attributions):
        matters = "the value, either way" if is_value else f"{thing}, toward it or away from it"
        yield f"{either} matters to {matters}"
    if attributions:
        relative = "strength is relative to the largest score of the same text and method"
        yield f"{relative}; marks begin at {percent(FAINT)} of it"
    if any(attribution.proof is not None for attribution in attributions):
        yield "± is half the range in which 95 % of random choices lie"


def legend_html(attributions: Sequence[Attribution]) -> str:
    """The legend of a page, where a line below a word tells the directions apart in print."""
    lines = legend(attributions, "blue with a solid line", "orange with a dotted line", "blue")
    return "<br>".join(f"<small>{markup.escape(line)}</small>" for line in lines)


def percent(share: float) -> str:
    """A share in whole percent; with a decimal where that would read as none or all.

    >>> percent(0.973), percent(0.998), percent(0.0004), percent(1.0)
    ('97 %', '99.8 %', '0.04 %', '100 %')
    """
    hundred = 100 * share
    if 0 < hundred < 1:
        return f"{hundred:.1g} %" if hundred >= 0.01 else "under 0.01 %"
    if 99 < hundred < 100:
        return f"{hundred:.1f} %" if hundred < 99.95 else "over 99.9 %"
    return f"{hundred:.0f} %"


def _units(attribution: Attribution) -> str:
    return f"{attribution.question.encoding.unit_kind}s"


def _short(text: str) -> str:
    words = " ".join(text.split())
    if not any(letter.isalnum() for letter in words):
        return f"'{words}'"  # a comma would read as one of ours
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
