"""Texts and references for a paper about a run."""

from __future__ import annotations

import sys
import textwrap
from typing import Annotated

import typer

from troth.commands import _options
from troth.core import terminal
from troth.core.errors import TrothError


def cite(
    run: _options.Run,
    form: Annotated[str, "The paragraph as text, or as latex with \\citep commands."] = "text",
    only_bibtex: Annotated[bool, typer.Option("--bibtex", help="Only the BibTeX entries, for a .bib file.")] = False,
    as_json: _options.Json = False,
) -> None:
    """Prints a paragraph on the methods of a run, and the BibTeX entry of every method and data set used.

    Example: troth cite runs/embedded-reviews-5f2c1a --bibtex > methods.bib
    """
    from troth.report import citing
    from troth.report.board import leaderboards
    from troth.store.store import open_run

    _options.one_of("--format", form, "text", "latex")
    boards = leaderboards(open_run(run, sound=True))
    if not boards:
        raise TrothError(f"{run} contains no scores yet; run the same command again to resume it")
    methods = citing.paragraphs(boards, latex=form == "latex")
    bibtex, missing = citing.bibtex(boards), citing.unreferenced(boards)
    if as_json:
        _options.print_json({"methods": methods, "bibtex": bibtex, "without_reference": missing})
        return
    if not only_bibtex:
        for paragraph in methods:
            terminal.echo(_wrapped(paragraph) + "\n")
    sys.stdout.write("\n".join(_wrapped(line, "    ") for line in bibtex.splitlines()) + "\n")
    if missing:
        terminal.echo(f"no reference is known for {', '.join(missing)}; add your own", err=True)


def _wrapped(line: str, indent: str = "") -> str:
    """The line in several of at most 80 characters if it is read on a terminal; one line if it goes to a file."""
    if not sys.stdout.isatty():
        return line
    wrap = textwrap.TextWrapper(80, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return wrap.fill(line)
