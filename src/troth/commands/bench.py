"""The main command: which explanation is faithful for this model and data?"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from troth.commands import _options
from troth.commands._model_options import ALL, Asked, takes
from troth.core import catalog, terminal
from troth.core.terminal import Console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from troth.report.board import Leaderboard


@takes(*(name for name in ALL if name not in ("continuation", "generate")))
def bench(
    model: _options.Model = "embedded",
    data: _options.Data = "reviews",
    split: Annotated[str | None, "Split of the data; by default the one for evaluation."] = None,
    text: _options.TextColumn = None,
    text_pair: _options.PairColumn = None,
    label: _options.LabelColumn = None,
    group: _options.GroupColumn = None,
    unlabelled: Annotated[bool, "Allow rows without a label."] = False,
    limit: Annotated[
        int | None, "Number of examples, drawn with seed 0; 0 takes all. By default 50, or 100 with all explainers."
    ] = None,
    explainers: Annotated[list[str] | None, "Explainers, such as lime,gradient, or all."] = None,
    metrics: Annotated[list[str] | None, "Metrics, such as comprehensiveness,sufficiency, or all."] = None,
    units: _options.Units = "word",
    target: _options.Target = "predicted",
    masking: Annotated[
        str | None,
        "How a unit is erased; by default as in the model's training, else mask_token. A metric that you name keeps "
        "its own: name(masking=…) changes it.",
    ] = None,
    seed: _options.Seeds = None,
    sort: Annotated[str | None, "Sort by this metric instead of the mean rank."] = None,
    out: Annotated[Path | None, "The run's folder; by default one under runs/."] = None,
    workers: _options.Workers = None,
    engine: Annotated[str, "What runs the cells (pieces of work): local processes, or ray."] = "local",
    retry: _options.Retry = False,
    require: Annotated[
        list[str] | None,
        "Requirement, such as 'lime beats random'; exit code 1 if it is not met, 3 if that cannot be told.",
    ] = None,
    baseline: Annotated[str | None, "A run that this one must not be worse than: a folder, or a name in runs/."] = None,
    log: Annotated[str | None, "Log the bench to mlflow or wandb."] = None,
    dry_run: _options.DryRun = False,
    asked: Asked = dict,
    verbose: _options.Verbose = False,
    form: Annotated[str | None, "Print the leaderboard as latex, markdown, csv or json."] = None,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Ranks explainers by how faithful they are on a model and data: a leaderboard, a run folder and report.html.

    Example: troth bench --model distilbert-base-uncased-finetuned-sst-2-english --data reviews.csv -e lime,gradient

    A gate: troth bench -e lime --require "lime beats random" exits with 1 if that is not met, 3 if it cannot be told.

    Your own method and model: troth bench -m my_file.py:predict --labels neg,pos -d my.csv -e my_file.py:MyExplainer
    """
    from troth.commands import _gate, _sweeping
    from troth.report import export, run_page
    from troth.report.board_sheet import as_dict, sheet
    from troth.store.store import Store
    from troth.sweep import bench as benching
    from troth.sweep.context import Context
    from troth.sweep.estimate import Estimator

    if form is not None:
        _options.one_of("--format", form, *export.FORMATS, "json")
    track = _gate.tracker(log)
    as_json = as_json or form == "json"
    _options.quieten()
    methods: Any = "all" if explainers == ["all"] else explainers
    measures: Any = "all" if metrics == ["all"] else metrics
    number = (100 if methods == "all" else 50) if limit is None else limit
    if sort is not None:
        named = sort.partition("(")[0]
        own = {metric.partition("(")[0].rpartition(":")[2] for metric in metrics or () if ":" in metric}
        if named not in own:
            catalog.find("metrics", named)
    columns = {"text": text, "text_pair": text_pair, "label": label, "unlabelled": unlabelled}
    options: dict[str, Any] = {"units": units, "target": target, "masking": masking, "seeds": tuple(seed or (0,))}
    options |= {"split": split, "limit": number or None, "columns": columns, "group": group}
    required = _gate.understood(require, methods, measures, baseline)
    model_options = asked()
    subject: Any = (model, model_options) if model_options else model
    if dry_run:
        context = Context()
        plan = benching.plan_of(context, subject, data, methods, measures, **options)
        store = Store(out or benching.default_folder(plan))
        workers = benching.workers_of(plan, context, workers)
        _sweeping.print_estimate(plan, store.folder, Estimator(store, context), workers, retry, as_json)
        return
    with _sweeping.run_bar(not as_json and form is None) as progress:
        result = benching.bench(
            subject, data, methods, measures, out, workers=workers, engine=engine,  # type: ignore[arg-type]  # checked there
            retry=retry, progress=progress, command=" ".join(sys.argv), **options,
        )  # fmt: skip
    report = result.folder / "report.html"
    board = result.leaderboard
    run_page.write_report(Store(result.folder), report, [board])
    order = board.sorted_by(sort) if sort else board.explainers
    judged = _gate.judged(board, required, baseline)
    if track is not None:
        track(board)
    if as_json:
        spent = {"spent": result.spent} if result.spent else {}
        _options.print_json({**as_dict(board, order), "run": str(result.folder), **spent, **_gate.as_dict(judged)})
    elif form is not None:
        sys.stdout.write(export.text([sheet(board, order)], form))
    else:
        _print(Console(), board, order, report, verbose)
        if result.spent:
            Console().print(result.spent, style="dim", markup=False)
    if result.outcome.interrupted:
        raise SystemExit(130)
    _gate.leave(judged, result.outcome.failed, as_json or form is not None)


def _print(console: Console, board: Leaderboard, order: Sequence[str], report: Path, verbose: bool) -> None:
    from troth.report import screen

    plain = not console.is_terminal or console.no_color or console.color_system is None
    console.print(screen.table(board, order, console.width, marks=plain))
    notes = [
        note
        for kind, name in (("data", board.data), ("models", board.model))
        for note in board.about.get(kind, {}).get(name, {}).get("notes", ())
    ]
    for line in (part for note in dict.fromkeys(notes) for part in terminal.wrapped(note, console.width)):
        console.print(line, style="dim", markup=False)
    console.print()
    for text in (screen.in_full if verbose else screen.closing)(board, console.width):
        console.print(text)
    console.print(f"\nreport: {report}", markup=False, style="bold", soft_wrap=True)
    if not verbose:
        run = shlex.quote(str(report.parent))
        console.print("all notes: the same command with --verbose", style="dim", markup=False)
        console.print(f"for a paper: troth cite {run}", style="dim", markup=False, soft_wrap=True)
