"""Trains a classifier: plainly, with masked inputs, or guided by salience."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from troth.commands import _options
from troth.core.errors import TrothError
from troth.core.terminal import Console


def train(
    recipe: Annotated[str, "Recipe: plain, masked or salience, or several: 'masked + salience'."],
    data: _options.Data,
    base: Annotated[
        str | None, "Model to start from: a folder, a hub name, bilstm_attention or scratch(layers=2, hidden=128)."
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the model; by default one under runs/.")
    ] = None,
    like: _options.Like = None,
    salience: Annotated[
        str | None,
        "Scores for the recipe salience: text_rank, tf_idf, chi_squared, uniform, a file of scores (.jsonl), or a run "
        "that explained the training data (RUN:EXPLAINER).",
    ] = None,
    weight: Annotated[str | None, "Weight λ of the salience loss; or search, for the best of three."] = None,
    epochs: Annotated[int | None, "Number of epochs."] = None,
    batch_size: Annotated[int | None, "Examples per mini-batch, over all devices."] = None,
    rows_per_pass: Annotated[int | None, "Examples per forward pass, if memory is short."] = None,
    learning_rate: Annotated[float | None, "Peak learning rate."] = None,
    head_learning_rate: Annotated[float | None, "Peak learning rate of the classification head."] = None,
    warmup: Annotated[float | None, "Fraction of the steps over which the learning rate warms up."] = None,
    schedule: Annotated[str | None, "Learning-rate schedule: linear or constant."] = None,
    weight_decay: Annotated[float | None, "Weight decay; biases and layer norms have none."] = None,
    clip: Annotated[float | None, "Maximum norm of the gradient."] = None,
    class_weights: Annotated[str | None, "Class weights of the loss: balanced, or one number per class: 1,2.5."] = None,
    metric: Annotated[str | None, "Validation metric: accuracy, macro_f1, micro_f1, matthews or auroc."] = None,
    best_by: Annotated[
        str | None, "Keep the epoch with the best validation metric or loss, or the last one: metric, loss or last."
    ] = None,
    precision: Annotated[str | None, "Mixed precision: auto, no, fp16 or bf16."] = None,
    seed: _options.Seed = 0,
    validation: Annotated[str | None, "Other data for validation."] = None,
    test: Annotated[list[str] | None, "Splits to evaluate at the end."] = None,
    hold_out: Annotated[float | None, "Fraction of the training split held out for validation."] = None,
    limit: Annotated[int | None, "At most this many examples of each split."] = None,
    max_length: Annotated[int | None, "Maximum number of tokens; longer texts are truncated."] = None,
    text: _options.TextColumn = None,
    text_pair: _options.PairColumn = None,
    label: _options.LabelColumn = None,
    cpu: Annotated[bool, "Do not use the GPU."] = False,
    restart: Annotated[bool, "Start over, even if the folder holds an unfinished training."] = False,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Trains a classifier: plainly, with masked inputs, or guided by the salience of words.

    The recipe masked keeps erased inputs in distribution, so that faithfulness can be measured by erasing. The recipe
    salience makes attention follow salient words; in our experiments this did not make it more
    faithful.

    An interrupted training resumes when the same command is run again. Several GPUs: accelerate launch -m troth train …

    Example: troth train masked --data babi

    Example: troth train salience --data sst --base bert-base-uncased --like saloss --lambda search
    """
    from troth.training import presets
    from troth.training import train as fit
    from troth.verbs import tune as tuning

    _options.quieten()
    recipe, searched = _with_salience(recipe, salience, weight)
    folder = out or Path("runs") / _name(recipe, data, base or "", seed)
    settings: dict[str, Any] = {}
    if base is None:
        start = presets.starter(data)
        if start is None:
            raise TrothError(
                "name a model to start from: --base FOLDER_OR_HUB_NAME, --base bilstm_attention or --base scratch"
            )
        data, base, validation = start.pop("data"), start.pop("base"), validation or start.pop("validation")
        settings = start
    options: dict[str, Any] = {
        "epochs": epochs, "batch_size": batch_size, "rows_per_pass": rows_per_pass, "learning_rate": learning_rate,
        "head_learning_rate": head_learning_rate, "warmup": warmup, "schedule": schedule, "weight_decay": weight_decay,
        "clip": clip, "class_weights": _weights(class_weights), "metric": metric, "best_by": best_by,
        "precision": precision,
    }  # fmt: skip
    columns = {"text": text, "text_pair": text_pair, "label": label}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # printed below, as in train.json
        trained = (tuning.search if searched else fit.train)(
            recipe, data, base, folder, like=like, validation=validation, tests=test or (), hold_out=hold_out,
            limit=limit, columns={name: column for name, column in columns.items() if column is not None},
            max_length=max_length, resume=not restart, progress=not as_json, cpu=cpu, seed=seed,
            **settings | {name: value for name, value in options.items() if value is not None},
        )  # fmt: skip
    if as_json:
        _options.print_json({"folder": str(folder), **trained.report})
    else:
        _show(trained)


def _with_salience(recipe: str, source: str | None, weight: str | None) -> tuple[str, bool]:
    """The recipe with the requested salience and λ, and whether to search for λ."""
    from troth.store.runs import exported, is_run
    from troth.training import recipes
    from troth.verbs import tune as tuning

    changes: dict[str, Any] = {}
    if source is not None:
        changes["source"] = exported(source) if is_run(source) else source
    if weight not in (None, "search"):
        try:
            changes["weight"] = float(str(weight))
        except ValueError:
            raise TrothError(f"--lambda must be a number or search, not {weight!r}") from None
    if source is None and weight is None:
        return recipe, False
    return recipes.spec(tuning.with_salience(recipe, **changes)), weight == "search"


def _weights(text: str | None) -> Any:
    if text is None or text == "balanced":
        return text
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise TrothError(f"--class-weights must be balanced or one number per class, as 1,2.5, not {text!r}") from None


def _name(*parts: object) -> str:
    """A folder name made of the given parts."""
    return re.sub(r"[^\w.=-]+", "-", "-".join(str(part) for part in parts if part != "")).strip("-")


def _show(trained: Any) -> None:
    report = trained.report
    metric = report["metric"]
    title = f"best epoch: {report['best_epoch']}, {metric} in %"
    table = Table(box=None, padding=(0, 2), title=title, title_justify="left")
    table.add_column()
    for split in report["scores"]:
        table.add_column(split, justify="right")
    for inputs in report["scores"]["validation"]:
        values = [scores[inputs][metric] for scores in report["scores"].values()]
        table.add_row(inputs.replace("_", " "), *[_percent(value) for value in values])
    table.add_row("[dim]majority class[/]", *[f"[dim]{_percent(value)}[/]" for value in report["majority"].values()])
    console = Console()
    for note in report["notes"]:
        console.print(f"[yellow]note:[/] {escape(note)}")
    console.print(table)
    if "lambda_search" in report:
        search = report["lambda_search"]
        flips = ", ".join(f"{weight}: {flip:.3f}" for weight, flip in search["flip_fraction"].items())
        console.print(f"λ = {search['chosen']:g}: {search['by']} ({flips})")
    console.print(
        f"{trained.folder}  (load it with troth.load_model or transformers; train.json records how it was trained)"
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"
