"""The main job: which explanation is faithful on this model and data?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from troth.commands import _options


def bench(
    model: _options.Model = "embedded",
    data: Annotated[
        str, typer.Option("--data", "-d", help="A file, a folder, a hub name or a data set of ours.")
    ] = "reviews",
    split: Annotated[str | None, typer.Option(help="Which split; by default the one to evaluate on.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many examples; 0 takes all.")] = 50,
    explainers: Annotated[
        list[str] | None, typer.Option("--explainers", "-e", help="A method; repeat for several, or all.")
    ] = None,
    metrics: Annotated[
        list[str] | None, typer.Option("--metrics", help="A metric; repeat for several, or all.")
    ] = None,
    units: _options.Units = "word",
    target: _options.Target = "predicted",
    masking: Annotated[str, typer.Option(help="How erasing explainers erase a unit.")] = "mask_token",
    seed: Annotated[list[int] | None, typer.Option(help="Seed of every random draw; repeat for several.")] = None,
    sort: Annotated[str | None, typer.Option(help="Sort by this metric instead of the mean place.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; by default one under runs/.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; by default one a GPU, else one a core.")] = None,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    retry: Annotated[bool, typer.Option("--retry", help="Try failed cells again.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done, and how long it takes.")
    ] = False,
    as_json: _options.Json = False,
) -> None:
    """Ranks explainers by how faithful they are on a model and data: a leaderboard, a run folder and report.html.

    Example: troth bench --model distilbert-base-uncased-finetuned-sst-2-english --data reviews.csv -e lime -e gradient
    """
    from rich.console import Console

    from troth import benching
    from troth.commands import _sweeping
    from troth.report import leaderboard
    from troth.sweep.context import Context
    from troth.sweep.store import Store

    _options.quieten()
    chosen, judged, left_out = benching.expand(explainers, metrics)
    options: dict[str, Any] = {"units": units, "target": target, "masking": masking, "seeds": tuple(seed or (0,))}
    if dry_run:
        context = Context()
        plan = benching.plan_of(context, model, data, chosen, judged, split=split, limit=limit or None, **options)
        _sweeping.say_estimate(plan, Store(out or benching.default_folder(plan)), workers, context, retry, as_json)
        return
    with _sweeping.shown(not as_json) as progress:
        result = benching.bench(
            model, data, chosen, judged, out, split=split, limit=limit or None, workers=workers, engine=engine,  # type: ignore[arg-type]  # checked there
            retry=retry, progress=progress, **options,
        )  # fmt: skip
    report = result.folder / "report.html"
    leaderboard.write_report(Store(result.folder), report)
    board = result.leaderboard
    order = board.sorted_by(sort) if sort else board.explainers
    if as_json:
        _options.print_json({**leaderboard.as_dict(board, order), "run": str(result.folder), "skipped": left_out})
    else:
        console = Console(highlight=False)
        console.print(leaderboard.table(board, order, console.width))
        console.print()
        for line in board.answer():
            console.print(f"• {line}", markup=False)
        for what, why in {**board.failures, **left_out}.items():
            console.print(f"  not computed: {what}: {why}", style="yellow", markup=False)
        console.print(f"\nreport: {report}", markup=False, style="bold", soft_wrap=True)
    if result.outcome.interrupted:
        raise SystemExit(130)
