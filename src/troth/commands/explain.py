"""Colors the units that made the model decide."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from troth.commands import _options


def explain(
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts to explain; none reads lines from standard input.")
    ] = None,
    model: _options.Model = "embedded",
    explainer: Annotated[
        list[str] | None,
        _options.several(
            "--explainer", "-e", help="Methods: random,integrated_gradients(steps=50).", kind="explainers"
        ),
    ] = None,
    pair: Annotated[str | None, typer.Option(help="The second text, for models that read two.")] = None,
    segments: Annotated[str, typer.Option(help="Which text is explained: first or both.")] = "first",
    units: _options.Units = "word",
    target: _options.Target = "predicted",
    against: Annotated[str | None, typer.Option(help="Explain why the target rather than this class.")] = None,
    masking: _options.Masking = "mask_token",
    seed: _options.Seed = 0,
    device: _options.Device = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained HTML page here.")] = None,
    prompt: _options.Prompt = None,
    class_words: _options.ClassWords = None,
    shots: _options.Shots = None,
    shot_count: _options.ShotCount = None,
    chat: _options.Chat = None,
    mask_text: _options.MaskText = None,
    as_json: _options.Json = False,
) -> None:
    """Colors the units that made the model decide.

    Example: troth explain "Not a bad film, but far too long." -e leave_one_out,integrated_gradients

    A language model: troth explain "A dull film." -m my-llm --prompt "Review: {text} It is" --class-words good,bad
    """
    import troth
    from troth.core import catalog
    from troth.core.errors import TrothError
    from troth.core.types import Example
    from troth.models import load_model
    from troth.report import explanation as display
    from troth.report import page

    _options.quieten()
    if segments not in ("first", "both"):
        raise TrothError(f"--segments must be first or both, not {segments!r}")
    methods: dict[str, Any] = catalog.by_spec("explainers", explainer or ["integrated_gradients"])
    given = texts or _lines()
    if not any(text.strip() for text in given):
        raise TrothError("the text is empty: there is nothing to explain")
    if pair is not None and len(given) != 1:
        raise TrothError(f"--pair goes with one text, not {len(given)}")
    _options.spare_threads(model)
    examples = [Example(str(position), text, pair) for position, text in enumerate(given)]
    if html is not None:
        page.require_place(html)
    asked = _options.prompting(prompt, class_words, shots, shot_count, chat, mask_text)
    options: dict[str, Any] = {"target": target, "masking": masking, "seed": seed, "against": against}
    by_method = troth.explain(
        load_model(model, device=device, **asked), examples, methods.values(), units, segments=segments, **options
    )
    by_text = [attribution for row in zip(*by_method.values(), strict=True) for attribution in row]
    if html is not None:
        page.write(html, "Explanations", [display.html(attribution) for attribution in by_text])
    if as_json:
        _options.print_json([attribution.to_dict() for attribution in by_text])
        return
    _print(by_text, html)


def _lines() -> list[str]:
    from troth.core.errors import TrothError

    try:
        lines = (
            [] if sys.stdin is None or sys.stdin.isatty() else [line.rstrip("\n") for line in sys.stdin if line.strip()]
        )
    except UnicodeDecodeError:
        raise TrothError("standard input is not UTF-8; convert it: iconv -f latin1 -t utf-8") from None
    except (OSError, ValueError):  # standard input is closed
        lines = []
    if not lines:
        raise TrothError('no text given; pass one: troth explain "A fine film." or pipe lines in')
    return lines


def _print(attributions: list[Any], html: Path | None) -> None:
    from rich.padding import Padding

    from troth.core.terminal import Console
    from troth.report import explanation as display

    console = Console()
    shown = None
    for attribution in attributions:
        if attribution.example.id != shown:
            shown = attribution.example.id
            console.print(f"\n{display.heading(attribution)}", style="bold", markup=False)
        console.print(attribution.explainer.split("(")[0], style="dim", markup=False)
        console.print(Padding(display.text(attribution), (0, 2)))
        for line in _remarks(attribution):
            console.print(f"  {line}", style="dim", markup=False)
    console.print("\nblue pushes toward the class, orange away from it", style="dim")
    if html is not None:
        console.print(f"written to {html}", style="dim", markup=False, soft_wrap=True)


def _remarks(attribution: Any) -> list[str]:
    remarks = []
    if attribution.question.n_units == 0:
        remarks.append("the text is empty: nothing to explain")
    if attribution.question.encoding.truncated:
        cut = attribution.question.encoding.truncated
        remarks.append(f"{cut} units at the end were cut off: the text is longer than the model reads")
    if attribution.note:
        remarks.append(attribution.note)
    return remarks
