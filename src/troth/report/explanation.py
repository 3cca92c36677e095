"""An attribution as colored text: HTML for notebooks and reports, rich text for the terminal; and its values in
words.

Blue pushes toward the target, orange away from it; both are distinguishable with color blindness, on light and dark
backgrounds.
"""

from __future__ import annotations

import html as markup
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from troth.core import numbers
from troth.core.interactions import Interactions
from troth.core.numbers import percent, percents
from troth.report import pairs
from troth.report.decision import about
from troth.report.layout import layout, number_of, shared_prompt
from troth.verbs.comparison import sentence

if TYPE_CHECKING:
    from rich.text import Text

    from troth.core.proof import Proof
    from troth.core.results import Matrix
    from troth.core.types import Attribution

_SHOWN = 5  # number of units that are listed with their scores
_LONGEST = 30  # characters of a unit, which may be a sentence
FAINT = 0.2  # fraction of the largest score; units below it get no color in the terminal, and no line or sign
UNDIRECTED = "how much, not which way"
_FOR, _AGAINST = (37, 99, 235), (217, 119, 6)
# As many columns as fit: methods side by side on a screen, one below the other on a phone.
_COLUMNS = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22em),1fr));gap:.5em 2em"


def strengths(of: Attribution | Matrix) -> np.ndarray:
    """[units] or [targets, units] scores divided by their largest magnitude: −1 … 1."""
    scores = np.nan_to_num(np.asarray(of.scores, dtype=np.float64))
    largest = np.abs(scores).max(initial=0.0)
    return scores / largest if largest > 0 else scores


def heading(attribution: Attribution) -> str:
    """What was explained: the class, its probability, the contrast, and the strongest other class.

    A label is answered with yes or no; for values, only the value is shown.
    """
    name, probabilities = attribution.label(attribution.target), attribution.probabilities
    probability = probabilities[attribution.target] if probabilities else float("nan")
    against = attribution.question.against
    rather = f" rather than {attribution.label(against)}" if against is not None else ""
    if written := attribution.question.encoding.written:
        what = f"“{''.join(text for _, text in written).strip()}”" if attribution.target == 0 else f"“{name.strip()}”"
        tokens = f", {len(written)} tokens" if attribution.target == 0 and len(written) > 1 else ""
        # Contrasted with a foil.
        if " rather than " in name and attribution.target == 0 and len(attribution.labels) == 1:
            return f"{what} {name[name.index('rather than') :]} (log-probability {probability:+.2f} above the other's)"
        return f"{what}{rather} (log-probability {probability:.2f}{tokens})"
    if attribution.outputs == "values":
        return f"{name}{rather} = {probability:.4g}"
    if attribution.outputs == "labels":
        return f"{name}{rather}: {'yes' if attribution.is_predicted else 'no'} ({percent(probability)})"
    others = [index for index in range(len(probabilities)) if index != attribution.target]
    if not others:
        return f"{name}{rather} ({percent(probability)})"
    other = max(others, key=lambda index: probabilities[index])
    place = "runner-up" if probabilities[other] <= probability else "predicted"
    return (
        f"{name}{rather} ({percent(probability)}), {place} {attribution.label(other)} ({percent(probabilities[other])})"
    )


def html(attribution: Attribution, *, prompt: bool = True) -> str:
    """One self-contained, escaped HTML fragment for light and dark backgrounds, with the values below the text."""
    strength = strengths(attribution)
    parts = []
    for text, unit, role in layout(attribution, prompt=prompt):
        shown = markup.escape(text)
        if role == "bar":
            parts.append(" <b>|</b> ")
        elif role == "number":
            parts.append(f"<b>{shown}</b>")
        elif role == "prompt":
            parts.append(f'<span class="prompt" style="opacity:.65;white-space:pre-wrap">{shown}</span>')
        elif role in ("written", "explained"):
            mark = "border-bottom:2px solid #7c3aed" if role == "explained" else "opacity:.7"
            parts.append(f'<i class="{role}" style="white-space:pre-wrap;{mark}">{shown}</i>')
        elif unit is None:
            parts.append(f'<span style="opacity:.6">{shown}</span>' if text.strip() else shown)
        else:
            parts.append(
                f'<span title="{attribution.scores[unit]:+.4g}" style="{ground(strength[unit])}">{shown}</span>'
            )
    method = markup.escape(method_of(attribution))
    what = markup.escape(about(attribution, several=False) + heading(attribution))
    numbers = "<br>".join(map(markup.escape, lines(attribution)))
    has_lines = any("\n" in text for text, _, _ in layout(attribution, prompt=prompt))
    arcs = pairs.arcs(attribution) if isinstance(attribution, Interactions) else ""
    lines_kept = ' style="white-space:pre-wrap"' if has_lines else ""
    return (
        f'<div style="line-height:1.8"><small>{method} → <b>{what}</b></small>'
        f"<div{lines_kept}>{''.join(parts)}</div>{arcs}"
        f'<small style="line-height:1.4;display:block">{numbers}</small></div>'
    )


def sections(by_text: Sequence[Sequence[Attribution]]) -> Iterator[str]:
    """Sections of a page: every text with its methods side by side and their comparison, then a legend."""
    for attributions in by_text:
        comparison = markup.escape(sentence(attributions))
        prompt = shared_prompt(attributions)
        if prompt:
            yield f'<div style="opacity:.65;white-space:pre-wrap">{markup.escape(prompt)}</div>'
        shown = "".join(html(attribution, prompt=not prompt) for attribution in attributions)
        side_by_side = f'<div style="{_COLUMNS}">{shown}</div>' if len(attributions) > 1 else shown
        yield "".join([side_by_side, f"<p>{comparison}</p>" if comparison else ""])
    every = [attribution for attributions in by_text for attribution in attributions]
    yield legend_html(every)


def ground(strength: float) -> str:
    """The background color, and an underline that shows the direction in print as well: solid toward the class, dotted
    away from it.
    """
    red, green, blue = _FOR if strength >= 0 else _AGAINST
    line = f"border-bottom:2px {'solid' if strength > 0 else 'dotted'}" if abs(strength) >= FAINT else ""
    color = f"rgba({red},{green},{blue},{0.6 * abs(strength):.2f})"
    return f"background:{color};border-radius:.2em;padding:.05em .1em;{line}"


def text(attribution: Attribution, *, prompt: bool = True) -> Text:
    """The text with colored backgrounds, for the terminal."""
    from rich.text import Text

    from troth.core.terminal import visible

    strength = strengths(attribution)
    shown = Text()
    for raw, unit, role in layout(attribution, prompt=prompt):
        piece = visible(raw)
        if role == "bar":
            shown.append("  |  ", style="bold")
        elif role == "number":
            shown.append(piece, style="bold")
        elif role == "prompt":
            shown.append(piece, style="bright_black")
        elif role in ("written", "explained"):
            shown.append(piece, style="italic bold" if role == "explained" else "italic bright_black")
        else:
            shown.append(piece, style="dim" if unit is None else style(float(strength[unit])))
    return shown


def style(strength: float) -> str:
    """Five levels of background color, each with a readable text color; faint scores keep the terminal's own colors.

    Units that push away are also underlined, so that nothing is conveyed by color alone.
    """
    level = int(min(abs(strength), 1) * 4.999)
    if level == 0:
        return ""
    blues = ("", "#1e3a5f", "#1d4ed8", "#3b82f6", "#93c5fd")
    oranges = ("", "#5c3a10", "#b45309", "#d97706", "#fcd34d")
    ground = (blues if strength > 0 else oranges)[level]
    line = "" if strength > 0 else "underline "
    return f"{line}{'#000000' if level >= 3 else '#ffffff'} on {ground}"


def method_of(attribution: Attribution) -> str:
    """The name of the method, with a note if its scores have no sign."""
    name = attribution.explainer.partition("(")[0] or "imported scores"
    return name if attribution.signed else f"{name} ({UNDIRECTED})"


def line(attribution: Attribution) -> str:
    """The text's id, the method, the class and the strongest units on one line, without tensors or the full text."""
    shown = "{:.4g}".format if attribution.outputs == "values" else percent
    said = "".join(f" ({shown(value)})" for value in attribution.probabilities[attribution.target :][:1])
    units = strongest(attribution) if attribution.question.n_units else "no units"
    name = attribution.label(attribution.target).strip()
    return f"of {attribution.example.id!r} by {method_of(attribution)} → {name}{said}; {units}"


def lines(attribution: Attribution) -> Iterator[str]:
    """The strongest units, the interactions if there are any, and the proof."""
    if attribution.question.n_units:
        yield strongest(attribution)
    if isinstance(attribution, Interactions):
        yield from pairs.lines(attribution)
    if attribution.proof is not None:
        yield _proof_line(attribution, attribution.proof)


def strongest(attribution: Attribution) -> str:
    """The units with the largest magnitudes, with their scores."""
    scores = np.nan_to_num(attribution.scores)
    order = np.argsort(-np.abs(scores), kind="stable")[:_SHOWN]
    names = (number_of(attribution, unit).strip() or _short(attribution.units[unit]) for unit in order)
    written = numbers.scores(scores[order].tolist(), signed=attribution.signed)
    shown = (f"{name} {score}" for name, score in zip(names, written, strict=True))
    return f"strongest: {', '.join(shown)}"


def _proof_line(attribution: Attribution, proof: Proof) -> str:
    """The model's output without the top units, and its range without random units.

    "Without its top 2 of 10 words: 98 % → 6 %. Without 2 random words: 31–100 %."
    """
    total, kind = attribution.question.n_units, attribution.question.encoding.unit_kind
    is_value = attribution.outputs == "values"
    shown = "{:.4g}".format if is_value else percent
    left = f"{shown(proof.probability)} → {shown(proof.without_top)}"
    if proof.count == total:
        return f"Without {f'its only {kind}' if total == 1 else f'all {total} {kind}s'}: {left}."
    low, high = proof.random_low, proof.random_high
    span = f"{shown(low)} to {shown(high)}" if is_value else percents(low, high)
    others = f"{proof.count} random {kind}{'s' if proof.count > 1 else ''}"
    return f"Without its top {proof.count} of {total} {kind}s: {left}. Without {others}: {span}."


def legend(
    attributions: Sequence[Attribution],
    toward: str = "+ or blue",
    away: str = "- or underlined orange",
    either: str = "^ or blue",
) -> Iterator[str]:
    """Explains the colors and signs that are used, and how the proof was made."""
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
        yield f"scores under {percent(FAINT)} of the largest score of a text are not marked"
    ways = {(proof.masking, each.question.encoding.unit_kind): "" for each in attributions if (proof := each.proof)}
    for masking, kind in ways:
        how = "deleted" if masking == "delete" else f"erased by {masking}"
        yield f"{kind}s are {how}; the range covers 95 % of the random choices of {kind}s"


def legend_html(attributions: Sequence[Attribution]) -> str:
    """The legend of a page, where underlines distinguish the directions in print."""
    lines = legend(attributions, "blue with a solid line", "orange with a dotted line", "blue")
    return "<br>".join(f"<small>{markup.escape(line)}</small>" for line in lines)


def _short(text: str) -> str:
    words = " ".join(text.split())
    if not any(letter.isalnum() for letter in words):
        return f"'{words}'"  # quoted, because a comma would look like a separator of the list
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
