"""An answer and the passages it rests on: in words, in the terminal, and as HTML in which a click on a sentence of the
answer highlights the passages it rests on.

The HTML needs no script: each sentence is a radio button, and CSS rules define what is highlighted while it is
selected.
"""

from __future__ import annotations

import hashlib
import html as markup
import json
from collections.abc import Iterator
from math import log
from typing import TYPE_CHECKING

import numpy as np

from troth.core.cited import FEW
from troth.report.explanation import FAINT, ground, style

if TYPE_CHECKING:
    from rich.text import Text

    from troth.core.cited import CitedAnswer, CitedPart
    from troth.core.terminal import Console

_STYLE = """
.cited { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24em), 1fr)); gap: 1em 2em; }
.cited > div { min-width: 0; overflow-wrap: anywhere; }
.cited label { display: block; padding: .3em .6em; margin: .2em 0; border-radius: .3em; cursor: pointer;
  border: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
.cited label:has(:checked) { border-color: #2563eb; box-shadow: 0 0 0 1px #2563eb; }
.cited label:has(:focus-visible) { outline: 3px solid #d97706; outline-offset: 2px; }
.cited input { position: absolute; opacity: 0; }
.cited label { position: relative; }
.cited .passage { border-left: .3em solid color-mix(in srgb, currentColor 12%, transparent); padding: .1em .8em;
  margin: 0 0 1em; }
.cited .passage p { white-space: pre-wrap; margin: .2em 0; }
.cited .of { display: none; }
.cited b, .cited .number { font-variant-numeric: tabular-nums; }
"""
_LEGEND = (
    "A score is by how much the log-probability falls when the passage or sentence is erased: blue with a solid line "
    "where it falls, orange with a dotted line where it rises."
)


def numbers(part: CitedPart) -> str:
    """The numbers of the passages that a part rests on, in brackets."""
    return "".join(f"[{place + 1}]" for place in part.cited)


def lines(answer: CitedAnswer, part: CitedPart) -> Iterator[str]:
    """What a part of the answer rests on, and its proof, in words."""
    proof, gain = part.proof, part.log_probability - part.without_any
    erased = _listed(proof.erased)
    if part.cited:
        scores = ", ".join(f"{part.scores[place]:+.2f}" for place in part.cited)
        same = "; they say the same, so that none is missed alone" if part.repeated else ""
        yield f"It rests on {_listed(part.cited)} (score{'s' if len(part.cited) > 1 else ''} {scores}{same})."
    else:
        yield "It rests on no passage: none matters more than random ones."
        if gain >= log(2):
            yield f"All passages together raise its log-probability by {gain:.2f}."
    falls = f"Without {erased}, its log-probability falls by {part.log_probability - proof.without_cited:.2f}"
    if proof.without_random is None or proof.random_high is None or proof.random_low is None:
        yield f"{falls} (there are no other passages to compare with)."
        return
    mean, low, high = (
        part.log_probability - value for value in (proof.without_random, proof.random_high, proof.random_low)
    )
    others = "another passage" if len(proof.erased) == 1 else f"{len(proof.erased)} other passages"
    which = f"all {proof.choices} choices" if proof.exact else f"{proof.choices} random choices"
    which = "the only choice" if proof.choices == 1 else which
    yield f"{falls}; without {others}, by {mean:.2f} ({low:.2f} to {high:.2f} over {which})."


def remarks(answer: CitedAnswer) -> Iterator[str]:
    """How the scores were measured, in words."""
    how = "deleted" if answer.masking == "delete" else f"erased by {answer.masking}"
    rest = len(answer.passages) - len(answer.divided)
    divided = f" Sentences of {_listed(answer.divided)} were erased one by one." if answer.divided else ""
    if rest and answer.divided:
        divided += f" Without all other passages, the log-probability of the answer falls by {answer.undivided:.2f}."
    yield f"Passages are {how}; the model read {answer.passes} erased inputs.{divided}"
    if answer.cited and len(answer.passages) < FEW:
        yield (
            f"With fewer than {FEW} passages, a passage is cited wherever the answer is at most half as probable "
            "without it; for a long answer, this can happen by chance."
        )


def _listed(places: tuple[int, ...]) -> str:
    *before, last = [f"[{place + 1}]" for place in places]
    return f"{', '.join(before)} and {last}" if before else last


def _strengths(part: CitedPart) -> tuple[np.ndarray, np.ndarray]:
    """Scores of passages and of sentences, scaled to −1 … 1; zeros for a part that rests on no passage."""
    largest = max(np.abs(part.scores).max(initial=0), np.abs(part.sentence_scores).max(initial=0))
    scale = 1 / largest if part.cited and largest > 0 else 0.0
    return part.scores * scale, part.sentence_scores * scale


def _pieces(answer: CitedAnswer, place: int) -> Iterator[tuple[str, int | None]]:
    """Splits a passage into (text, index of the sentence), with None for text outside of the erased sentences."""
    cursor, text = 0, answer.passages[place]
    for number, (of, (start, end)) in enumerate(answer.sentences):
        if of == place:
            if start > cursor:
                yield text[cursor:start], None
            yield text[start:end], number
            cursor = end
    if cursor < len(text):
        yield text[cursor:], None


def show(console: Console, answer: CitedAnswer) -> None:
    """Prints the answer with its citations, the proof of each part, and the passages."""
    from rich.padding import Padding
    from rich.text import Text

    console.print(f"\n{answer.question}", style="bold", markup=False)
    parts = answer.parts if len(answer.parts) > 1 else ()
    for part in parts or (answer.whole,):
        console.print(Text.assemble(part.text, " ", (numbers(part) or "[no passage]", "bold")))
        for line in lines(answer, part):
            console.print(Padding(Text(line), (0, 0, 0, 2)), style="dim")
    if parts:
        console.print("The whole answer", style="bold")
        for line in lines(answer, answer.whole):
            console.print(Padding(Text(line), (0, 0, 0, 2)), style="dim")
    console.print()
    for place, (name, score) in enumerate(zip(answer.names, answer.scores, strict=True)):
        mark = "*" if place in answer.cited else " "
        console.print(f"{mark}[{place + 1}] {score:+.2f}  {name}".rstrip(), style="bold" if mark == "*" else "dim",
                      markup=False)  # fmt: skip
        console.print(Padding(_colored(answer, place), (0, 0, 0, 4)))
    console.print()
    for line in (*remarks(answer), "* is cited; + raises the log-probability of the answer, - lowers it"):
        console.print(line, style="dim", markup=False)


def _colored(answer: CitedAnswer, place: int) -> Text:
    """One passage in the terminal; sentences that were erased are shown with their scores for the whole answer."""
    from rich.text import Text

    _, strengths = _strengths(answer.whole)
    shown = Text()
    for text, number in _pieces(answer, place):
        if number is None:
            shown.append(text, style="dim")
            continue
        shown.append(text, style=style(float(strengths[number])))
        shown.append(f" ({answer.whole.sentence_scores[number]:+.2f})", style="dim")
    return shown


def html(answer: CitedAnswer) -> str:
    """One self-contained, escaped HTML fragment without scripts."""
    text = json.dumps(answer.to_dict(), sort_keys=True)
    name = "c" + hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    parts = (answer.whole, *(answer.parts if len(answer.parts) > 1 else ()))
    rules = "\n".join(rule for number, part in enumerate(parts) for rule in _rules(name, number, part))
    buttons = "".join(_button(name, number, part) for number, part in enumerate(parts))
    found = "".join(
        f'<div class="of {name}-{number}"><p>{"<br>".join(map(markup.escape, lines(answer, part)))}</p></div>'
        for number, part in enumerate(parts)
    )
    passages = "".join(_passage(answer, name, place, parts) for place in range(len(answer.passages)))
    said = "".join(f"<small>{markup.escape(line)}</small><br>" for line in (*remarks(answer), _LEGEND))
    return (
        f"<style>{_STYLE}{rules}</style>"
        f'<div class="cited" id="{name}"><div><p><b>{markup.escape(answer.question)}</b></p>'
        f'<div role="radiogroup" aria-label="Parts of the answer">{buttons}</div>'
        f'<div aria-live="polite">{found}</div>{said}</div><div>{passages}</div></div>'
    )


def _button(name: str, number: int, part: CitedPart) -> str:
    title = "The whole answer: " if number == 0 else ""
    checked = " checked" if number == 0 else ""
    return (
        f'<label><input type="radio" name="{name}" value="{number}"{checked} /><small>{title}</small>'
        f"{markup.escape(part.text)} <b>{markup.escape(numbers(part) or '[no passage]')}</b></label>"
    )


def _passage(answer: CitedAnswer, name: str, place: int, parts: tuple[CitedPart, ...]) -> str:
    scores = "".join(
        f'<span class="of {name}-{number}">{part.scores[place]:+.2f}{", cited" if place in part.cited else ""}</span>'
        for number, part in enumerate(parts)
    )
    text = "".join(
        markup.escape(piece) if sentence is None else f'<span class="{name}s{sentence}">{markup.escape(piece)}</span>'
        for piece, sentence in _pieces(answer, place)
    )
    title = markup.escape(answer.names[place])
    return (
        f'<div class="passage {name}p{place}"><b>[{place + 1}]</b> {title} <small class="number">{scores}</small>'
        f"<p>{text}</p></div>"
    )


def _rules(name: str, number: int, part: CitedPart) -> Iterator[str]:
    """The CSS rules for what is shown while a part of the answer is selected."""
    chosen = f"#{name}:has(input[value='{number}']:checked)"
    yield f"{chosen} div.{name}-{number} {{ display: block; }}"
    yield f"{chosen} span.{name}-{number} {{ display: inline; }}"
    passages, sentences = _strengths(part)
    for place in part.cited:
        side = "#2563eb" if passages[place] >= 0 else "#d97706"
        yield f"{chosen} .{name}p{place} {{ border-left-color: {side}; }}"
    for sentence, strength in enumerate(sentences):
        if abs(strength) >= FAINT / 4:
            yield f"{chosen} .{name}s{sentence} {{ {ground(float(strength))} }}"
