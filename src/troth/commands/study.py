"""Repeats the experiment of a paper, and shows the results next to the published ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from troth.commands import _options
from troth.commands._model_options import Asked, takes
from troth.core import catalog, terminal
from troth.core.errors import TrothError
from troth.core.terminal import Console


@takes("prompt", "class_words", "chat")
def study(
    name: Annotated[
        str,
        typer.Argument(
            help="A study (see troth list studies), perhaps with options: 'roar(step=0.2)'.",
            autocompletion=_options.names_of("studies"),
        ),
    ],
    only: Annotated[list[str] | None, "Run only these parts of the study."] = None,
    data: Annotated[list[str] | None, "Data sets, such as sst,imdb."] = None,
    base: Annotated[str | None, "The model to train or explain."] = None,
    seeds: _options.SeedCount = 1,
    limit: _options.Limit = 0,
    asked: Asked = dict,
    out: Annotated[Path | None, "The study's folder; runs/study-NAME by default."] = None,
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
    from troth.store.store import Store
    from troth.sweep.estimate import Estimator
    from troth.sweep.run import check_options

    _options.quieten()
    chosen: studies.Study = catalog.build("studies", name)
    _options.require_seeds(seeds)
    _options.require("--limit", limit, limit >= 0, "0 or more")
    check_options("local", workers, None, None, 1, None)
    options = asked()
    if options and not chosen.takes_prompt:
        raise TrothError(f"the study {catalog.name_of(chosen)} takes no prompt; leave --prompt and --class-words out")
    folder = out or Path("runs") / f"study-{catalog.name_of(chosen)}"
    parts = studies.chosen_parts(chosen, only or ())
    console = Console()
    with _sweeping.run_bar(not as_json and not dry_run) as progress:
        setting = studies.Setting(
            folder, tuple(data or ()), base, tuple(range(seeds)), limit or None, workers, progress,
            model_options=options or None,
            command=" ".join(sys.argv),
            retry=retry,
        )  # fmt: skip
        if dry_run:
            estimator = Estimator(Store(folder), setting.context)
            names: list[str] = []
            for part in parts:
                plan = chosen.plan(part, setting)
                if plan is None:
                    terminal.echo(f"{part}: computed on the spot")
                else:
                    terminal.echo(f"{part}:")
                    _sweeping.print_estimate(plan, folder, estimator, workers, retry, as_json)
                    names += plan.cells  # a dict by name
            if not as_json and len(set(names)) < len(names):
                terminal.echo("Parts share cells (pieces of work), so their times do not add up.")
            return
        done = []
        for section in studies.carry_out(chosen, setting, parts):
            done.append(section)
            if not as_json:
                _sweeping.print_table(console, section.title, section.columns, section.rows)
                if section.words:
                    console.print(section.words, markup=False)
                console.print()
    if failed := Store(folder).failed():
        terminal.echo(f"cells that failed: {len(failed):,}, the first: {failed[0].error}", err=True)
        terminal.echo("run it again with --retry to try them again", err=True)
    if as_json:
        _options.print_json(studies.as_json(done))
    else:
        console.print(f"\nstudy: {folder / 'study.md'}", markup=False, style="bold", soft_wrap=True)
