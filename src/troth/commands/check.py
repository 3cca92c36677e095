"""Are masked inputs in distribution for a model?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from troth.commands import _options


def check(
    model: _options.Model = "embedded",
    data: Annotated[
        str, typer.Option("--data", "-d", help="What is tested: a file, a folder, a hub name or a data set of ours.")
    ] = "reviews",
    split: Annotated[str | None, typer.Option(help="Which split is tested; by default test, if there is one.")] = None,
    validation_data: Annotated[
        str | None, typer.Option(help="The references; by default the validation split, else half of the data.")
    ] = None,
    validation_split: Annotated[str | None, typer.Option(help="Which split of the references.")] = None,
    limit: Annotated[int, typer.Option(help="Test at most so many examples; 0 takes all.")] = 200,
    explainers: Annotated[
        list[str] | None,
        typer.Option("--explainers", "-e", help="Whose order the words are erased in; repeat for several."),
    ] = None,
    masking: Annotated[str, typer.Option(help="How a unit is erased.")] = "mask_token",
    step: Annotated[float, typer.Option(help="How much more is erased each time.")] = 0.1,
    references: Annotated[
        str, typer.Option(help="masked or whole; by default as the model's own training record says.")
    ] = "as_trained",
    variant: Annotated[str, typer.Option(help="calibrated, or MaSF as in the paper.")] = "calibrated",
    units: _options.Units = "word",
    target: _options.Target = "predicted",
    seed: _options.Seed = 0,
    device: _options.Device = None,
    prompt: _options.Prompt = None,
    class_words: _options.ClassWords = None,
    shots: _options.Shots = None,
    shot_count: _options.ShotCount = 4,
    chat: _options.Chat = None,
    mask_text: _options.MaskText = None,
    as_json: _options.Json = False,
) -> None:
    """Tests whether masked inputs are in distribution for a model: p-values by erased share and explainer (MaSF).

    Example: troth check --model my-model --data sst2 -e random -e leave_one_out
    """
    import warnings

    from troth.models import load_model
    from troth.validity.checking import check as check_model
    from troth.validity.checking import splits_of

    _options.quieten()
    prompted = _options.prompting(prompt, class_words, shots, shot_count, chat, mask_text)
    asked, known = splits_of(data, split, validation_data, validation_split, limit or None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it is among the notes
        found = check_model(
            load_model(model, device=device, **prompted), asked, known, explainers or ["random"], masking, step, seed,
            units=units, target=target, references=references, variant=variant,  # type: ignore[arg-type]  # checked there
        )  # fmt: skip
    if as_json:
        _options.print_json(found.to_dict())
    else:
        _print(found)


def _print(found: Any) -> None:
    from rich.table import Table

    from troth.terminal import Console
    from troth.validity.checking import LEVEL

    console = Console(highlight=False)
    if not found.not_tested:
        about = f"{len(found.example_ids)} examples of {found.data} on {found.model}, erased by {found.masking}"
        console.print(f"In distribution? p-values: {about}", style="bold", markup=False)
        shown = Table(box=None, padding=(0, 1), show_edge=False)
        shown.add_column("erased", justify="right", style="cyan")
        by_explainer = {name: found.by_ratio(name) for name in found.p_values}
        for name in by_explainer:
            shown.add_column(name, justify="right")
        for place, ratio in enumerate(found.ratios):
            values = [p[place] for p in by_explainer.values()]
            shown.add_row(f"{ratio:.0%}", *(f"{p:.2g} {'in' if p >= LEVEL else '[bold red]out[/]'}" for p in values))
        console.print(shown)
        outside = [name for name, p in by_explainer.items() if (p < LEVEL).any()]
        console.print()
        if outside:
            console.print(
                f"• Out of distribution (α = {LEVEL}) when erased in the order of {', '.join(outside)}: erasure "
                "metrics may measure that instead of faithfulness. Fine-tune with masking: troth train masked",
                markup=False,
            )
        else:
            said = f"• Nothing is out of distribution (α = {LEVEL}); that it is in cannot be proven."
            console.print(said, markup=False)
    else:
        console.print(found.not_tested, markup=False)
    for note in found.notes:
        console.print(f"• {note}", style="dim", markup=False)
