"""Explanations in the terminal: with colors if they are available, otherwise with signs under the text (pipes, files,
NO_COLOR).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from troth.core.terminal import Console, visible, wrapped
from troth.report import explanation, matrix
from troth.report.decision import about, cut_off
from troth.report.explanation import FAINT, heading, strengths, text
from troth.report.layout import layout, shared_prompt
from troth.verbs.comparison import sentence

if TYPE_CHECKING:
    from troth.core.results import Matrix
    from troth.core.types import Attribution

_NARROWEST = 48  # minimum width of a method's column if methods are shown side by side
_GAP = 2
# Styles that are visible without color, each standing for one sign.
_STYLES = {"+": "underline bold", "-": "underline", "^": "underline italic"}
_SIGNS = {style: sign for sign, style in _STYLES.items()}


def show(console: Console, by_text: Sequence[Sequence[Attribution]]) -> None:
    """Shows the class of every text, its methods, side by side if they fit, how faithful they are, and a legend."""
    plain = console.no_color or console.color_system is None
    for attributions in by_text:
        place = about(attributions[0], several=len(by_text) > 1)
        console.print()
        console.print("\n".join(wrapped(place + heading(attributions[0]), console.width)), style="bold", markup=False)
        if cut := cut_off(attributions[0]):
            console.print(cut, style="yellow", markup=False)
        prompt = shared_prompt(attributions)
        if prompt:
            console.print(visible(prompt), style="bright_black", markup=False)
        across = max(1, min(len(attributions), (console.width + _GAP) // (_NARROWEST + _GAP)))
        width = (console.width + _GAP) // across - _GAP
        for start in range(0, len(attributions), across):
            row = attributions[start : start + across]
            blocks = [Group(*_block(attribution, console, width, plain, not prompt)) for attribution in row]
            console.print(blocks[0] if across == 1 else _beside(blocks, width))
        if comparison := sentence(attributions):
            console.print("\n".join(wrapped(comparison, console.width)), markup=False)
    _print_legend(console, [attribution for attributions in by_text for attribution in attributions])


def _print_legend(console: Console, attributions: Sequence[Attribution]) -> None:
    console.print()
    for line in explanation.legend(attributions):
        console.print("\n".join(wrapped(line, console.width)), style="dim", markup=False)


def _block(
    attribution: Attribution, console: Console, width: int, plain: bool, prompt: bool
) -> Iterator[RenderableType]:
    """One method: its name, the text and its values."""
    yield Text(visible(explanation.method_of(attribution)), "dim")
    if plain:
        yield from (Text("  ") + line for line in signed_lines(attribution, console, width - 4, prompt=prompt))
    else:
        yield Padding(text(attribution, prompt=prompt), (0, 2))
    for words in [*explanation.lines(attribution), *_remarks(attribution)]:
        yield Padding(Text("\n".join(wrapped(words, width - 2)), "dim"), (0, 0, 0, 2), expand=False)


def _beside(blocks: Sequence[RenderableType], width: int) -> Table:
    """Blocks of equal width side by side."""
    columns = Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
    for _ in blocks:
        columns.add_column(width=width)
    columns.add_row(*blocks)
    return columns


def show_matrices(console: Console, by_text: Sequence[Sequence[Matrix]]) -> None:
    """Shows every text and its continuation, a matrix per method, and a legend."""
    for matrices in by_text:
        first = matrices[0].attributions[0]
        plain = replace(first, scores=0 * first.scores, question=replace(first.question, target=0))
        if cut := cut_off(first):
            console.print(f"\n{cut}", style="yellow", markup=False)
        console.print(Padding(text(plain), (1, 0, 0, 0)))
        for one in matrices:
            console.print(matrix.heading(one), style="dim", markup=False)
            for row in matrix.lines(one, console.width - 2):
                console.print(Text("  ") + row, no_wrap=True, overflow="crop")
        for words in _remarks(first):
            console.print(Padding(Text(words), (0, 0, 0, 2), expand=False), style="dim")
    _print_legend(console, [each for matrices in by_text for one in matrices for each in one.attributions])


def _remarks(attribution: Attribution) -> Iterator[str]:
    encoding = attribution.question.encoding
    if encoding.n_units == 0:
        yield "the text is empty: nothing to explain"
    if attribution.note:
        yield attribution.note


def signed_lines(attribution: Attribution, console: Console, width: int, *, prompt: bool = True) -> Iterator[Text]:
    """The text in lines of at most `width`; a line with marked units is followed by a line of signs."""
    strength = strengths(attribution)
    shown = Text()
    for raw, unit, role in layout(attribution, prompt=prompt):
        piece = "  |  " if role == "bar" else visible(raw)
        sign = ""
        if unit is not None and abs(strength[unit]) >= FAINT:
            sign = "^" if not attribution.signed else "+" if strength[unit] > 0 else "-"
        start = len(shown.plain)
        shown.append(piece)
        if sign:
            shown.stylize(_STYLES[sign], start)
    for line in shown.wrap(console, max(width, 1)):
        signs = [" "] * len(line.plain)
        for span in line.spans:
            for place in range(max(0, span.start), min(span.end, len(signs))):
                signs[place] = _SIGNS[str(span.style)] if not line.plain[place].isspace() else " "
        yield line
        under = "".join(sign * cell_len(letter) for sign, letter in zip(signs, line.plain, strict=True)).rstrip()
        if under:
            yield Text(under)
