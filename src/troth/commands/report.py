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
    from collections.abc import Sequence

    from troth.core.sheet import Sheet
    from troth.report.exhibits import Exhibit
    from troth.store.store import Store

T = TypeVar("T")

_BY_ENDING = {
    ".tex": "latex", ".md": "markdown", ".csv": "csv", ".json": "json",
    ".png": "figure", ".pdf": "figure", ".svg": "figure",
}  # fmt: skip


def report(
    runs: Annotated[list[str], "A run's folder, or its name in runs/. Several runs are compared in one table."],
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

    Several runs in one table: troth report runs/first runs/second --format latex
    """
    from troth.models import short_name
    from troth.report import across, exhibits, export, figures, run_page
    from troth.report.board import leaderboards
    from troth.report.board_sheet import as_dict
    from troth.store.store import open_run
    from troth.studies import stored_exhibits

    if form is not None:
        _options.one_of("--format", form, *export.FORMATS, "json", "html")
    if figures_in is not None and (out is not None or form is not None):
        raise TrothError("--figures writes its own files; leave --out and --format out")
    stores = [open_run(run, sound=True) for run in dict.fromkeys(runs)]
    store = stores[0]
    if len(stores) > 1:
        _compare(stores, out, form, figures_in, as_json)
        return
    if figures_in is not None:
        shown = stored_exhibits(store.folder)
        if not shown:
            boards = leaderboards(store)
            shown = exhibits.named(across.tables(boards))
            for board, facts in zip(boards, run_page.page_data(store, boards).report["boards"], strict=True):
                of_board = [*exhibits.board_exhibits(board), *exhibits.example_exhibits(facts)]
                shown += [
                    each._replace(name=f"{each.name} {short_name(board.model)} {board.data}") for each in of_board
                ]
        _write_figures(figures_in, _required(shown, store), as_json)
        return
    wanted = form or (_BY_ENDING.get(out.suffix.lower(), "html") if out else "html")
    path = out or (store.folder / "report.html" if wanted == "html" else None)
    if path is not None:
        export.require_place(path)
    if wanted == "html":
        assert path is not None
        tables = stored_exhibits(store.folder) or exhibits.named(across.tables(leaderboards(store)))
        run_page.write_report(store, path, exhibits=tables)
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
    _print_path(path, as_json)


def _compare(
    stores: Sequence[Store], out: Path | None, form: str | None, figures_in: Path | None, as_json: bool
) -> None:
    """Tables over the leaderboards of several runs: mean ranks, then the values of each metric."""
    from troth.report import across, exhibits, export, figures
    from troth.report.board import leaderboards
    from troth.report.board_sheet import as_dict

    boards = [board for store in stores for board in _required(leaderboards(store), store)]
    tables = across.tables(boards)
    wanted = form or (_BY_ENDING.get(out.suffix.lower(), "html") if out else None)
    if figures_in is not None:
        _write_figures(figures_in, exhibits.named(tables), as_json)
        return
    if wanted is None or (wanted == "html" and out is None):
        raise TrothError("several runs have no folder of their own: name --out across.html, or --format latex")
    if out is not None:
        export.require_place(out)
    if wanted == "figure":
        figures.plot(tables, out)
    elif wanted == "html":
        assert out is not None
        models, data = (", ".join(dict.fromkeys(getattr(board, of) for board in boards)) for of in ("model", "data"))
        sections = [export.made_by(models, data), *map(export.html_with_notes, tables)]
        export.write_page(out, f"Comparison of {len(stores)} runs", sections)
    else:
        if wanted == "json":
            of_boards = [{"run": str(board.folder), **as_dict(board)} for board in boards]
            text = terminal.json_text(of_boards, sys.stdout.encoding) + "\n"
        else:
            text = export.text(tables, wanted)
        if out is None:
            sys.stdout.write(text)
            return
        export.to(out, text)
    _print_path(out, as_json)


def _print_path(path: Path | None, as_json: bool) -> None:
    if as_json:
        _options.print_json({"report": str(path)})
    else:
        terminal.echo(f"written to {path}")


def _write_figures(folder: Path, shown: Sequence[Exhibit], as_json: bool) -> None:
    from troth.report import exhibits

    paths = exhibits.write(folder, shown)
    if as_json:
        _options.print_json({"figures": str(folder), "files": [path.name for path in paths]})
    else:
        terminal.echo(f"{len(paths)} files written to {folder}")


def _required(shown: list[T], store: Store) -> list[T]:
    if not shown:
        raise TrothError(f"{store.folder} contains no scores yet; run the same command again to resume it")
    return shown


def _sheets(store: Store) -> list[Sheet]:
    """The sheets of a run's leaderboards, or of a study's tables."""
    from troth.report import across
    from troth.report.board import leaderboards
    from troth.studies import stored_sections

    tables = [section.sheet() for section in stored_sections(store.folder) if section.rows]
    boards = [] if tables else leaderboards(store)
    return _required(tables or [*across.tables(boards), *(board.sheet() for board in boards)], store)
