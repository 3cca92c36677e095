"""Reports of a run: an HTML file, tables for a paper, or figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from troth.commands import _options
from troth.core import terminal
from troth.core.errors import TrothError

if TYPE_CHECKING:
    from troth.core.sheet import Sheet
    from troth.store.store import Store

T = TypeVar("T")

_BY_ENDING = {
    ".tex": "latex", ".md": "markdown", ".csv": "csv", ".json": "json",
    ".png": "figure", ".pdf": "figure", ".svg": "figure",
}  # fmt: skip


def report(
    run: _options.Run,
    out: Annotated[
        Path | None,
        "Where to write: .html, .tex, .md, .csv, .json, or a figure as .png, .pdf or .svg. "
        "By default report.html in the run's folder.",
    ] = None,
    form: Annotated[str | None, "Print latex, markdown, csv or json instead of writing a page."] = None,
    figures_in: Annotated[
        Path | None,
        typer.Option(
            "--figures", help="Write every table and figure into this folder: csv, tex, md, svg, pdf and png."
        ),
    ] = None,
    as_json: _options.Json = False,
) -> None:
    """Writes a run's leaderboards as one self-contained HTML page, or as tables and figures for a paper.

    Example: troth report runs/embedded-reviews-5f2c1a --format latex

    Every table and figure as files: troth report runs/embedded-reviews-5f2c1a --figures figures
    """
    from troth.models import short_name
    from troth.report import exhibits, export, figures, run_page
    from troth.report.board import leaderboards
    from troth.report.board_sheet import as_dict
    from troth.store.store import open_run
    from troth.studies import stored_exhibits

    if form is not None:
        _options.one_of("--format", form, *export.FORMATS, "json", "html")
    store = open_run(run, sound=True)
    if figures_in is not None:
        if out is not None or form is not None:
            raise TrothError("--figures writes its own files; leave --out and --format out")
        shown = stored_exhibits(store.folder)
        if not shown:
            boards = leaderboards(store)
            for board, facts in zip(boards, run_page.page_data(store, boards).report["boards"], strict=True):
                of_board = [*exhibits.board_exhibits(board), *exhibits.example_exhibits(facts)]
                shown += [
                    each._replace(name=f"{each.name} {short_name(board.model)} {board.data}") for each in of_board
                ]
        paths = exhibits.write(figures_in, _required(shown, store))
        if as_json:
            _options.print_json({"figures": str(figures_in), "files": [path.name for path in paths]})
        else:
            terminal.echo(f"{len(paths)} files written to {figures_in}")
        return
    wanted = form or (_BY_ENDING.get(out.suffix.lower(), "html") if out else "html")
    path = out or (store.folder / "report.html" if wanted == "html" else None)
    if path is not None:
        export.require_place(path)
    if wanted == "html":
        assert path is not None
        run_page.write_report(store, path, exhibits=stored_exhibits(store.folder))
    elif wanted == "figure":
        figures.plot(_sheets(store), path)
    else:
        if wanted == "json":
            text = terminal.json_text([as_dict(board) for board in leaderboards(store)], sys.stdout.encoding) + "\n"
        else:
            text = export.text(_sheets(store), wanted)
        if path is None:
            sys.stdout.write(text)
            return
        export.to(path, text)
    if as_json:
        _options.print_json({"report": str(path)})
    else:
        terminal.echo(f"written to {path}")


def _required(shown: list[T], store: Store) -> list[T]:
    if not shown:
        raise TrothError(f"{store.folder} contains no scores yet; run the same command again to resume it")
    return shown


def _sheets(store: Store) -> list[Sheet]:
    """The sheets of a run's leaderboards, or of a study's tables."""
    from troth.report.board import leaderboards
    from troth.studies import stored_sections

    tables = [section.sheet() for section in stored_sections(store.folder) if section.rows]
    return _required(tables or [board.sheet() for board in leaderboards(store)], store)
