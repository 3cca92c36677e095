"""Classifiers that read only rationales: faithful by construction, and a test of how rationales were selected."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from troth.commands import _options
from troth.core import numbers
from troth.core.sheet import without_nan
from troth.core.terminal import Console


def fresh(
    data: _options.Data,
    base: Annotated[
        str,
        typer.Option(
            "--base", "-b", help="Model to train: a folder, a hub name or scratch.", callback=_options.known_base
        ),
    ],
    support: Annotated[
        str | None,
        "A model whose explanations select the rationales; by default plain and salience models are trained.",
    ] = None,
    explainer: Annotated[str, "Explainer that selects the rationales."] = "attention",
    ratio: Annotated[float, "Fraction of the words that is kept."] = 0.2,
    thresholder: Annotated[str, "How words are selected: top_k, or contiguous, the best span."] = "top_k",
    weight: Annotated[float | None, "Weight λ of the salience loss of the guided support models."] = None,
    seeds: _options.SeedCount = 3,
    like: _options.Like = None,
    epochs: Annotated[int, "Number of epochs; 0 takes the preset of the base model."] = 0,
    batch_size: Annotated[int, "Examples per mini-batch; 0 takes the preset of the base model."] = 0,
    learning_rate: Annotated[float, "Learning rate; 0 takes the preset of the base model."] = 0.0,
    limit: _options.Limit = 0,
    out: Annotated[Path | None, "The folder; runs/fresh-DATA by default."] = None,
    workers: Annotated[int | None, "Number of processes."] = 1,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Extracts rationales and trains classifiers on them alone (FRESH).

    Their macro-F1 is shown next to that of whole texts, of a uniformly guided support model and of random rationales.
    An interrupted run resumes when the same command is run again.

    Example: troth fresh --data sst --base bert-base-uncased --ratio 0.2
    """
    from troth.commands import _sweeping
    from troth.studies import _fresh

    _options.quieten()
    _options.require_seeds(seeds)
    _options.require("--limit", limit, limit >= 0, "0 or more")
    name = "".join(letter if letter.isalnum() else "_" for letter in Path(data).stem)
    with _sweeping.run_bar(not as_json) as progress:
        done = _fresh.compare(
            data, base, out or Path("runs") / f"fresh-{name}", support=support, explainer=explainer, ratio=ratio,
            thresholder=thresholder, weight=weight, seeds=range(seeds), like=like, limit=limit or None,
            workers=workers, progress=progress, command=" ".join(sys.argv), epochs=epochs, batch_size=batch_size,
            learning_rate=learning_rate,
        )  # fmt: skip
    if as_json:
        facts = {"folder": str(done.folder), "data": done.data, "ratio": ratio, "thresholder": thresholder}
        _options.print_json({**facts, "macro_f1": done.macro_f1, "p": without_nan(done.p), "troubles": done.troubles})
        return
    console = Console()
    columns = ("read by the classifier", "mean", "deviation", "p")
    rows = [(name if name == "full text" else f"rationales: {name}", *values) for name, *values in done.rows()]
    title = f"macro-F1 on {done.data}: {explainer}, {thresholder} {numbers.percent(ratio)}"
    _sweeping.print_table(console, title, columns, rows)
    console.print("p: t-test over seeds against the first kind of rationale.")
    if done.troubles:
        console.print(done.troubles, markup=False, style="yellow")
    console.print(f"rationales: {done.folder / 'rationales'}", markup=False, soft_wrap=True)
