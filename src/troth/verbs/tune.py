"""Searches the weight λ of the salience recipe as SaLoss does: of several trainings, it selects the one whose attention
flips the development predictions with the smallest share of tokens erased.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from troth.core import reading
from troth.core.errors import TrothError
from troth.core.files import write_json, writing_into
from troth.core.types import Example
from troth.engine.prober import Prober
from troth.models import TextClassifier, load_model
from troth.training import output, recipes, record
from troth.training import train as fit
from troth.training.examples import Source
from troth.training.recipes.salience import WEIGHTS, Salience
from troth.training.train import Trained
from troth.verbs.explain import explain_each
from troth.verbs.measure import measure_each

_TRIALS = "lambda"


def with_salience(recipe: recipes.RecipeLike, **changes: Any) -> recipes.Recipe:
    """A recipe with another source, weight (λ) or variant of its salience.

    >>> recipes.spec(with_salience("masked + salience", weight=0.01))
    'masked + salience(weight=0.01)'
    """
    parts = recipes.parts_of(recipes.build(recipe))
    if not any(isinstance(part, Salience) for part in parts):
        name = recipes.spec(recipes.build(recipe))
        raise TrothError(f"only the recipe salience has a salience and λ, not {name}; write '{name} + salience'")
    given = tuple(replace(part, **changes) if isinstance(part, Salience) else part for part in parts)
    return given[0] if len(given) == 1 else recipes.Composed(given)


def best_weight(flips: Mapping[float, float]) -> float:
    """The λ with the lowest flip fraction; on ties the smallest, which changes the training least.

    >>> best_weight({0.01: 0.5, 0.001: 0.4, 0.0001: 0.4})
    0.0001
    """
    return min(flips, key=lambda weight: (flips[weight], weight))


def search(
    recipe: recipes.RecipeLike,
    data: Source,
    base: Any,
    out: str | os.PathLike[str],
    *,
    weights: Sequence[float] = WEIGHTS,
    **options: Any,
) -> Trained:
    """As `train` with each λ; the training with the lowest development flip fraction of attention becomes `out`.

    train.json records all of them in `lambda_search`; the trials stay in `out`/lambda, so an interrupted search
    resumes.
    """
    folder = record.own(out)
    with output.held(folder, record.NAME):
        trials = {
            weight: fit.train(
                with_salience(recipe, weight=weight), data, base, folder / _TRIALS / f"{weight:g}", **options
            )
            for weight in weights
        }
        flips = {weight: _flips(trained, recipe, data, base, options) for weight, trained in trials.items()}
        chosen = best_weight(flips)
        report = {
            **trials[chosen].report,
            "lambda_search": {
                "chosen": chosen,
                "by": "lowest mean decision_flip of attention on the development set",
                "flip_fraction": {f"{weight:g}": flip for weight, flip in flips.items()},
            },
        }
        with writing_into(folder) as aside:
            for file in trials[chosen].folder.iterdir():
                if file.is_file() and file.name != "train.json":
                    shutil.copy2(file, aside / file.name)
        record.write(folder, report)
        return Trained(folder, report)


def _flips(trained: Trained, recipe: recipes.RecipeLike, data: Source, base: Any, options: Mapping[str, Any]) -> float:
    """The flip fraction of a trial on the development set, measured once."""
    file = trained.folder / "flip_fraction.json"
    known = _stored(file)
    if known is None:
        how = {key: value for key, value in options.items() if key not in ("resume", "progress", "cpu")}
        examples = fit.plan(recipe, data, base, **how).labeled.validation.examples
        device = "cpu" if options.get("cpu") else None
        known = flip_fraction(load_model(str(trained.folder), device=device), examples)
        write_json(file, {"flip_fraction": known})
    return known


def _stored(file: Path) -> float | None:
    try:
        return float(reading.json_of(file)["flip_fraction"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def flip_fraction(model: TextClassifier, examples: Sequence[Example], explainer: str = "attention") -> float:
    """The mean share of tokens to erase, most important first, before the predicted class changes."""
    prober = Prober(model)
    attributions = list(explain_each(prober, examples, explainer, units="token"))
    return float(np.nanmean([score.value for score in measure_each(prober, attributions, "decision_flip")]))
