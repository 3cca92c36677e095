"""A paper's experiment, our numbers next to the published ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from troth.commands import _options
from troth.commands._completion import names_of
from troth.core import terminal


def study(
    name: Annotated[
        str,
        typer.Argument(
            help="A study (see troth list studies), perhaps with options: 'roar(step=0.2)'.",
            autocompletion=names_of("studies"),
        ),
    ],
    only: Annotated[list[str] | None, _options.several("--only", help="These parts only.")] = None,
    data: Annotated[
        list[str] | None, _options.several("--data", "-d", help="Data sets: sst,imdb.", kind="data")
    ] = None,
    base: Annotated[
        str | None, typer.Option("--base", "-b", help="The model to train or explain.", callback=_options.known_base)
    ] = None,
    seeds: _options.SeedCount = 1,
    limit: _options.Limit = 0,
    prompt: _options.Prompt = None,
    class_words: _options.ClassWords = None,
    chat: _options.Chat = None,
    out: Annotated[Path | None, typer.Option(help="The study's folder; runs/study-NAME by default.")] = None,
    workers: _options.Workers = None,
    retry: _options.Retry = False,
    dry_run: _options.DryRun = False,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Repeats a paper's experiment and prints our numbers next to the published ones; run it again and it resumes.

    Example: troth study roar --only synthetic
    """
    from troth import studies
    from troth.commands import _sweeping
    from troth.core import catalog
    from troth.core.errors import TrothError
    from troth.core.terminal import Console
    from troth.store.store import Store
    from troth.sweep.run import check_options

    _options.quieten()
    chosen: studies.Study = catalog.build("studies", name)
    _options.require_seeds(seeds)
    _options.require("--limit", limit, limit >= 0, "0 or more")
    check_options("local", workers, None, None, 1, None)
    options = _options.prompting(prompt, class_words, chat=chat)
    if options and not chosen.takes_prompt:
        raise TrothError(f"the study {catalog.name_of(chosen)} trains its models; leave --prompt and --class-words out")
    folder = out or Path("runs") / f"study-{catalog.name_of(chosen)}"
    parts = studies.chosen_parts(chosen, only or ())
    console = Console()
    with _sweeping.shown(not as_json and not dry_run) as progress:
        setting = studies.Setting(
            folder, tuple(data or ()), base, tuple(range(seeds)), limit or None, workers, progress,
            model_options=options or None,
            command=" ".join(sys.argv),
            retry=retry,
        )  # fmt: skip
        if dry_run:
            for part in parts:
                plan = chosen.plan(part, setting)
                if plan is None:
                    terminal.echo(f"{part}: computed on the spot")
                else:
                    terminal.echo(f"{part}:")
                    _sweeping.print_estimate(plan, Store(folder), workers, setting.context, retry, as_json)
            return
        done = []
        for section in studies.carry_out(chosen, setting, parts):
            done.append(section)
            if not as_json:
                _show(console, section)
    if failed := Store(folder).failed():
        terminal.echo(f"cells that failed: {len(failed):,}, the first: {failed[0].error}", err=True)
        terminal.echo("run it again with --retry to try them again", err=True)
    if as_json:
        _options.print_json(studies.as_json(done))
    else:
        console.print(f"\nstudy: {folder / 'study.md'}", markup=False, style="bold", soft_wrap=True)


def _show(console, section) -> None:  # type: ignore[no-untyped-def]  # rich is imported late
    from rich.table import Table
    from rich.text import Text

    from troth.studies import shown

    table = Table(title=Text(section.title, "bold"), title_justify="left", box=None, padding=(0, 1))
    for number, column in enumerate(section.columns):
        table.add_column(Text(column), justify="right" if number else "left")
    for row in section.rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    console.print(table)
    if section.words:
        console.print(section.words, markup=False)
    console.print()
