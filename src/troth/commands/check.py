"""Tests whether masked inputs are in distribution for a model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from troth.commands import _options
from troth.commands._model_options import PROMPT, Asked, takes
from troth.core import numbers, terminal
from troth.core.errors import TrothError
from troth.core.terminal import Console

_MEANING = (
    "Weights, near 0: the scores depend on what the model learned; near 1: they would be the same for a model that "
    "learned nothing, so they cannot explain this one. Class, near 1: the scores are the same whatever class is "
    "explained."
)


@takes(*PROMPT, "labels", "max_requests", "model_option")
def check(
    model: _options.Model = "embedded",
    data: _options.Data = "reviews",
    split: Annotated[str | None, "Split that is tested; by default test, if there is one."] = None,
    text: _options.TextColumn = None,
    text_pair: _options.PairColumn = None,
    label: _options.LabelColumn = None,
    validation_data: Annotated[
        str | None,
        "Reference texts, like those that the model was trained on; by default what was held out of "
        "its training, else the validation split, else half of the data.",
    ] = None,
    validation_split: Annotated[str | None, "Split of the references."] = None,
    limit: Annotated[
        int | None,
        "Test at most this many examples, 200 by default; 0 takes all. With --reasoning, 40 questions are generated.",
    ] = None,
    explainers: Annotated[list[str] | None, "Explainers in whose order words are erased."] = None,
    masking: _options.Masking = "mask_token",
    step: Annotated[float, "Fraction of the words erased per step."] = 0.1,
    references: Annotated[
        str, "masked (every second one), all_masked or whole; by default as the model's training record says."
    ] = "as_trained",
    variant: Annotated[str, "Form of the test: calibrated, or as in the paper."] = "calibrated",
    recompute: Annotated[
        bool | None,
        typer.Option(
            "--recompute/--once",
            help="Explain the remaining text again at every step, or keep the first order; by default "
            "again, except for "
            "beam_search, which is recursive by itself.",
        ),
    ] = None,
    randomization: Annotated[
        bool,
        "Test the explainers instead: do their scores change when the model's weights are shuffled, and when another "
        "class is explained?",
    ] = False,
    cascade: Annotated[bool, "With --randomization: shuffle from the top down, block by block."] = False,
    reasoning: Annotated[
        bool,
        "Test a language model's reasoning instead: does its answer change when the reasoning is cut, filled or wrong? "
        "Questions are generated, or read from --data (a file with question, choices and answer).",
    ] = False,
    units: _options.Units = "word",
    target: Annotated[
        str | None,
        "The class explained: predicted, gold, an index or a label; by default, as for recursive_erasure, "
        "gold where there are labels, else predicted.",
    ] = None,
    seed: _options.Seed = 0,
    device: _options.Device = None,
    asked: Asked = dict,
    html: Annotated[Path | None, "Write a self-contained HTML page here."] = None,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Tests whether masked inputs are in distribution for a model: p-values by erased share and explainer (MaSF).

    Example: troth check --model my-model --data sst2 -e random,leave_one_out

    Example: troth check --randomization --data sst2 -e gradient,attention

    Example: troth check --reasoning --model my-llm --limit 60

    As a page: troth check --html check.html
    """
    from troth.data import load_data
    from troth.models import load_named
    from troth.models.targets import require_class
    from troth.report import export, run_page
    from troth.sweep.bench import EXPLAINERS
    from troth.validity import checking
    from troth.validity.randomization import randomizations
    from troth.validity.references import splits_of

    _options.quieten()
    if html is not None:
        export.require_place(html)
    methods = explainers or ["random"]
    checking.settle(methods, masking, step, units, references, variant)
    _options.require("--limit", limit, limit is None or limit >= 0, "0 or more")
    prompted = asked()
    if reasoning:
        if html is not None or randomization or prompted.keys() & {*PROMPT, "labels"}:
            raise TrothError(
                "--reasoning has its own prompt and report; leave --html, --randomization and --prompt out"
            )
        options = prompted if device is None else {"device": device, **prompted}
        _reasoning(model, None if data == "reviews" else data, limit, seed, options, as_json)
        return
    limit = 200 if limit is None else limit
    if cascade and not randomization:
        raise TrothError("--cascade needs --randomization; pass both")
    loaded = load_named(model, device=device, **prompted)
    columns: dict[str, Any] = {"text": text, "text_pair": text_pair, "label": label}
    require_class(loaded, target)
    facts: Any
    show: Callable[[], None]
    if randomization:
        examples = load_data(data, split, limit or None, **columns)
        chosen = explainers or [name for name in EXPLAINERS if name != "random"]
        how: Any = {"cascade": cascade, "units": units, "masking": masking, "seed": seed}
        results = [one for name in chosen for one in randomizations(loaded, examples, name, **how)]
        about = f"{len(examples)} examples of {examples.name} on {loaded.name}"
        facts, show = [result.to_dict() for result in results], partial(_print_randomization, about, results)
        if html is not None:
            run_page.write_randomization(html, about, results, _MEANING)
    else:
        tested, known = splits_of(data, split, validation_data, validation_split, limit or None, loaded, columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # already part of the notes
            found = checking.check(
                loaded, tested, known, methods, masking, step, seed, target=target, recompute=recompute,
                units=units, references=references, variant=variant,  # type: ignore[arg-type]  # checked there
            )  # fmt: skip
        facts, show = found.to_dict(), partial(_print, found)
        if html is not None:
            run_page.write_check(html, found, checking.LEVEL)
    if as_json:
        _options.print_json(facts)
        return
    show()
    if html is not None:
        terminal.echo(f"written to {html}")


def _reasoning(
    model: str, data: str | None, limit: int | None, seed: int, options: dict[str, Any], as_json: bool
) -> None:
    from troth.commands import _sweeping
    from troth.data._choice_questions import made, read
    from troth.validity.reasoning import reasoning

    questions = made(40 if limit is None else limit) if data is None else read(data, limit or None)
    found = reasoning(model, questions, seeds=(seed, seed + 1, seed + 2), **options)
    if as_json:
        _options.print_json(found.to_dict())
        return
    console, sheet = Console(), found.sheet()
    heads = [column.name for column in sheet.columns]
    _sweeping.print_table(console, sheet.title, heads, [[cell.text for cell in row] for row in sheet.rows])
    console.print(found.verdict, markup=False)


def _print(found: Any) -> None:
    from troth.validity.checking import LEVEL

    console = Console()
    if not found.not_tested:
        about = f"{len(found.example_ids)} examples of {found.data} on {found.model}, erased by {found.masking}"
        console.print(f"In distribution? p-values (MaSF): {about}", style="bold", markup=False)
        shown = Table(box=None, padding=(0, 1), show_edge=False)
        shown.add_column("erased", justify="right", style="cyan")
        by_explainer = {name: found.by_ratio(name) for name in found.p_values}
        for name in by_explainer:
            shown.add_column(name, justify="right")
        for place, ratio in enumerate(found.ratios):
            values = [p[place] for p in by_explainer.values()]
            shown.add_row(
                numbers.percent(ratio), *(f"{p:.2g}{' [bold red]out[/]' if p < LEVEL else ''}" for p in values)
            )
        console.print(shown)
        console.print("MaSF compares the model's states on erased texts with those on reference texts.", style="dim")
        console.print()
        for line in found.answer():
            console.print(f"• {line}", markup=False)
    else:
        console.print(found.not_tested, markup=False)
    for note in found.notes:
        console.print(f"• {note}", style="dim", markup=False)


def _print_randomization(about: str, results: Any) -> None:
    console = Console()
    title = f"Do scores change with the weights, and with the class? Rank correlation before and after: {about}"
    console.print(title, style="bold", markup=False)
    shown = Table(box=None, padding=(0, 1), show_edge=False)
    shown.add_column("explainer", style="cyan")
    shown.add_column("changed")
    shown.add_column("correlation", justify="right")
    shown.add_column("95 % interval", justify="right")
    for result in results:
        interval = f"{result.low:.2f} to {result.high:.2f}"
        shown.add_row(result.explainer, _changed(result.block), f"{result.value:.2f}", interval)
    console.print(shown)
    console.print()
    console.print(f"• {_MEANING}", markup=False)


def _changed(block: str) -> str:
    """A description of what was changed."""
    return {"all": "all weights", "class": "the class explained"}.get(block, f"weights down to {block}")
