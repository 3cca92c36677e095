"""Checks an attribution function against properties on models with known answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from troth.commands import _options
from troth.core import terminal, user_code
from troth.core.errors import TrothError
from troth.core.terminal import Console

if TYPE_CHECKING:
    from troth.refereeing.subject import Attribute
    from troth.refereeing.verb import Judgment


def referee(
    function: Annotated[
        str,
        "The function, as my_file.py:attribute or package.module:attribute; or the name of one of troth's explainers.",
    ],
    claims: Annotated[
        list[str] | None,
        "Properties that the method claims, which are then checked as well: completeness, dummy, symmetry, "
        "linearity, linear, shapley, "
        "leave_one_out, integrated_gradients, input_x_gradient; by default what function.claims lists.",
    ] = None,
    of: Annotated[
        str | None, "What is explained: logit, probability or log_probability; by default what function.of says."
    ] = None,
    tolerance: Annotated[
        float | None, "The error allowed for an approximation, as a share of the largest score; by default none."
    ] = None,
    only: Annotated[list[str] | None, "Check only these properties, and the ones that they depend on."] = None,
    html: Annotated[Path | None, "Write a self-contained HTML page to this path."] = None,
    badge: Annotated[bool, "Print only the text of a badge."] = False,
    as_json: _options.Json = False,
) -> None:
    """Checks whether an attribution function is right. Exit code 0 if all checked properties hold, 1 if one fails.

    Example: troth referee leave_one_out

    Your own, called as attribute(model, tokenizer, texts, target): troth referee my_file.py:attribute --claims shapley
    """
    from troth.refereeing.verb import referee as check
    from troth.report import export

    _options.quieten()
    _options.spare_threads("embedded")
    if html is not None:
        export.require_place(html)
    console = Console(soft_wrap=True)
    shown = None if badge or as_json else lambda verdict: _show(console, verdict, function)
    verdicts = check(_function(function), claims, of=of, tolerance=tolerance, only=only, name=function, progress=shown)
    if html is not None:
        export.write_page(html, f"The referee on {function}", [verdicts.badge, export.html(verdicts.sheet())])
    if as_json:
        _options.print_json(verdicts.to_dict())
    elif badge:
        terminal.echo(verdicts.badge)
    else:
        console.print(verdicts.summary, markup=False)
        if html is not None:
            terminal.echo(f"written to {html}")
    if not verdicts.holds:
        raise SystemExit(1)


def _function(name: str) -> Attribute:
    """The referenced function, or one of troth's explainers as such a function."""
    reference = user_code.read(name)
    if reference is None:
        from troth.refereeing.ours import as_function

        return as_function(name)
    if reference.options:
        raise TrothError(f"{reference.head} takes no options here; pass a function that sets them itself")
    function: Attribute = user_code.load(reference, Path.cwd())
    return function


def _show(console: Console, verdict: Judgment, function: str) -> None:
    style = {"fails": "bold", "holds": ""}.get(verdict.status, "dim")
    first, *others = terminal.wrapped(verdict.says, console.width - 24)
    console.print(f"{verdict.sign} {verdict.name:22}{first}", markup=False, style=style)
    for line in others:
        console.print(" " * 24 + line, markup=False, style=style)
    details = {
        "expected": verdict.expected, "got": verdict.got, "text": repr(verdict.text) if verdict.expected else "",
        "repeat": f"troth referee {function} {verdict.again}" if verdict.again else "", "–": verdict.why,
    }  # fmt: skip
    for name, words in details.items():
        if words:
            console.print(f"    {name:9}{words}" if name != "–" else f"    {words}", markup=False, style=style)
