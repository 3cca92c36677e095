"""Fits trained explainers: an attribution model for attributive_masking."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from troth.commands import _options
from troth.commands._model_options import PROMPT, Asked, takes
from troth.core.errors import TrothError, unknown
from troth.core.terminal import Console


@takes(*PROMPT)
def fit(
    explainer: Annotated[str, "The explainer that is fitted: attributive_masking."],
    model: _options.Model = "embedded",
    data: _options.Data = "reviews",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A new folder, or that of an earlier fit; runs/… by default.")
    ] = None,
    backbone: Annotated[
        str | None,
        "Encoder to start from: a folder, a hub name, or explained (the model's own encoder, as in the released "
        "code); by default the pretrained encoder that the model was fine-tuned from, where its files name it.",
    ] = None,
    metric: Annotated[
        list[str] | None,
        "Metrics used for selection, one folder per metric, or all; aopc_comprehensiveness by default.",
    ] = None,
    lambdas: Annotated[
        str | None, "Weights of the losses for prediction (L_p), sparsity (L_a) and inverse (L_inv), such as 1,0.5,0.2."
    ] = None,
    without: Annotated[list[str] | None, "Losses to leave out: prediction, sparsity, inverse."] = None,
    inverse_form: Annotated[str, "Form of L_inv: log, probability or negative_entropy."] = "log",
    sparsity_form: Annotated[str, "Form of L_a: cross_entropy or l1."] = "cross_entropy",
    examples: Annotated[int | None, "Number of training examples; 1000 by default."] = None,
    validation: Annotated[int | None, "Number of validation examples; 200 by default."] = None,
    epochs: Annotated[float | None, "Number of epochs; 10 by default."] = None,
    batch_size: Annotated[int | None, "Examples per mini-batch; 20 by default."] = None,
    rows_per_pass: Annotated[int | None, "Examples per forward pass, if memory is short."] = None,
    learning_rate: Annotated[float | None, "Learning rate; 4e-5 by default."] = None,
    trials: Annotated[int | None, "Trials of the search for the loss weights; 30 by default."] = None,
    trial_examples: Annotated[int | None, "Number of training examples per trial; 450 by default."] = None,
    trial_epochs: Annotated[float | None, "Number of epochs per trial; 2 by default."] = None,
    trials_per_metric: Annotated[bool, "One search per metric, as in the paper, instead of one for all."] = False,
    search: Annotated[str, "Search: tpe (needs Optuna), sobol or random; auto: tpe if it is installed."] = "auto",
    units: _options.Units = "token",
    variant: Annotated[
        str, "paper, or released: as in the authors' code, with a divided label encoding and --backbone explained."
    ] = "paper",
    asked: Asked = dict,
    seed: _options.Seed = 0,
    device: _options.Device = None,
    restart: Annotated[bool, "Start over, even if the folder holds an earlier fit."] = False,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Fits an attribution model to a classifier (AML).

    To explain with it: troth explain -e "attributive_masking(checkpoint=FOLDER)". An interrupted fit resumes when the
    same command is run again.

    Example: troth fit attributive_masking --model embedded --data sst2 --metric aopc_comprehensiveness
    """
    from troth.attribution_model.losses import DualMask
    from troth.core.units import UNIT_NAMES
    from troth.verbs import fit as attributive_masking

    _options.quieten()
    if explainer != "attributive_masking":
        raise unknown("explainer that is fitted", explainer, ["attributive_masking"])
    _options.one_of("--inverse-form", inverse_form, "log", "probability", "negative_entropy")
    _options.one_of("--sparsity-form", sparsity_form, "cross_entropy", "l1")
    _options.one_of("--variant", variant, "paper", "released")
    _options.one_of("--units", units, *UNIT_NAMES)
    _options.one_of("--search", search, "auto", "tpe", "sobol", "random")
    if not data:
        raise TrothError("name the data: --data sst2")
    chosen = list(metric or [attributive_masking.CHOSEN])
    settings = attributive_masking.settings_of(
        examples=examples, validation=validation, epochs=epochs, batch_size=batch_size, rows_per_pass=rows_per_pass,
        learning_rate=learning_rate, trials=trials, trial_examples=trial_examples, trial_epochs=trial_epochs,
        trials_per_metric=trials_per_metric, search=search, units=units, variant=variant, seed=seed,
    )  # fmt: skip
    form: Any = {"inverse_form": inverse_form, "sparsity_form": sparsity_form}
    errors = Console(stderr=True)
    fitted = attributive_masking.fit(
        model,
        data,
        out or Path("runs") / f"attributive-{_plain(model)}-{_plain(data)}",
        backbone=backbone,
        metrics=list(attributive_masking.METRICS) if chosen == ["all"] else chosen,
        lambdas=None if lambdas is None else attributive_masking.lambdas_of(lambdas),
        without=without or (),
        form=DualMask(**form),
        settings=settings,
        model_options={"device": device, **asked()},
        restart=restart,
        progress=not as_json,
        say=None if as_json else lambda line: errors.print(line, style="dim", markup=False),
    )
    if as_json:
        folders = {name: str(folder) for name, folder in fitted.folders.items()}
        _options.print_json({"folders": folders, "reports": dict(fitted.reports)})
        return
    console = Console()
    for name, folder in fitted.folders.items():
        report = fitted.reports[name]
        scores = ", ".join(f"{metric} {value:.3f}" for metric, value in report["scores"].items())
        weights = ", ".join(f"{loss} {report['loss'][loss]:.2f}" for loss in ("prediction", "sparsity", "inverse"))
        console.print(f"{name}: {scores}", markup=False)
        console.print(f"  weights of the losses: {weights} ({report['search']['sampler']})", markup=False, style="dim")
        console.print(f"  attributive_masking(checkpoint='{folder}')", markup=False, soft_wrap=True)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._" else "_" for letter in Path(name).name)[:40]
