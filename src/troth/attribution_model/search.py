"""The search for the weights λ of AML's losses: one search for all metrics, each with its own best trial, or one per
metric.

It uses Optuna's TPE where Optuna is installed, else Sobol points, or the sampler that was asked for: TPE, Sobol or
random. The sampler is recorded. Trials that are stored are not repeated.
"""

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from troth.attribution_model.fitting import is_better
from troth.attribution_model.losses import DualMask
from troth.attribution_model.start import Sampler
from troth.core import catalog, draws, reading
from troth.core.errors import TrothError
from troth.core.files import write_json

LAMBDAS = ("prediction", "sparsity", "inverse")
Trial = dict[str, Any]  # {"lambdas": {name: weight}, "scores": {metric: mean}}
_NAMES = {"tpe": "optuna TPE", "sobol": "Sobol points", "random": "random points"}


def search(
    form: DualMask, without: Sequence[str], metrics: Sequence[str], trials: int, seed: int,
    attempt: Callable[[Sequence[DualMask]], Sequence[Mapping[str, float]]], file: Path, identity: Mapping[str, Any],
    say: Callable[[str], None] | None = None, sampler: Sampler = "auto", together: int = 1,
) -> dict[str, Any]:  # fmt: skip
    """The trials and the best loss for each metric; `without` names losses that are left out.

    `attempt` receives up to `together` losses at once, if the point of a trial does not depend on earlier trials.
    """
    free = [name for name in LAMBDAS if name not in without]
    kind = sampler_for(sampler, say)
    done = _resumed(file, identity, _NAMES[kind], say)
    while len(done) < trials:
        if kind == "tpe":
            points = [_tpe(free, metrics, done, seed)]
        else:
            numbers = range(len(done), min(trials, len(done) + together))
            points = [_point(kind, free, number, seed) for number in numbers]
        tried = [{name: point.get(name, 0.0) for name in LAMBDAS} for point in points]
        for lambdas, scores in zip(tried, attempt([weighted(form, lambdas) for lambdas in tried]), strict=True):
            done.append({"lambdas": lambdas, "scores": dict(scores)})
            if say is not None:
                shown = ", ".join(f"{name} {weight:.2f}" for name, weight in lambdas.items())
                say(f"trial {len(done)} of {trials}: {shown}; {metrics[0]} {scores[metrics[0]]:.3f}")
        write_json(file, {"identity": identity, "sampler": _NAMES[kind], "trials": done}, indent=1)
    best = {metric: asdict(weighted(form, _best(done, metric)["lambdas"])) for metric in metrics}
    return {"sampler": _NAMES[kind], "trials": done, "best": best}


def sampler_for(asked: Sampler, say: Callable[[str], None] | None = None) -> str:
    """tpe, sobol or random: as asked for, by default the paper's TPE if Optuna is installed."""
    there = importlib.util.find_spec("optuna") is not None
    if asked == "tpe" and not there:
        raise TrothError("the TPE search needs Optuna: pip install 'troth[hpo]', or use --search sobol")
    if asked == "auto" and not there and say is not None:
        say("Optuna is not installed: the weights of the losses are searched by Sobol points instead of its TPE")
    return asked if asked != "auto" else "tpe" if there else "sobol"


def lambdas_of(text: str) -> dict[str, float]:
    """The weights of the losses as people write them: λ_p, λ_a, λ_inv.

    >>> lambdas_of("1,0.5,0.2")
    {'prediction': 1.0, 'sparsity': 0.5, 'inverse': 0.2}
    """
    try:
        weights = [float(part) for part in text.split(",")]
        if not all(0 <= weight < math.inf for weight in weights):
            raise ValueError
        return dict(zip(LAMBDAS, weights, strict=True))
    except ValueError:
        raise TrothError(
            f"lambdas are three numbers from 0 on, of L_p, L_a, L_inv, as 1,0.5,0.2, not {text!r}"
        ) from None


def weighted(form: DualMask, lambdas: Mapping[str, float]) -> DualMask:
    """The loss with other weights."""
    return DualMask(**{**asdict(form), **lambdas})


def _best(trials: Sequence[Trial], metric: str) -> Trial:
    better, found = is_better(metric), trials[0]
    for trial in trials[1:]:
        if better(trial["scores"], found["scores"]):
            found = trial
    return found


def _tpe(free: Sequence[str], metrics: Sequence[str], done: Sequence[Trial], seed: int) -> dict[str, float]:
    """The next point, which depends only on the earlier trials and the seed."""
    import optuna

    spaces: dict[str, Any] = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in free}
    judges = [catalog.find("metrics", catalog.parse(metric)[0]) for metric in metrics]
    ways: list[Any] = ["minimize" if judge.higher_is_better is False else "maximize" for judge in judges]
    sampler = optuna.samplers.TPESampler(seed=draws.key(seed, "lambdas", len(done)) % 2**32)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(sampler=sampler, directions=ways)
    finally:
        optuna.logging.set_verbosity(verbosity)
    for trial in done:
        values = [trial["scores"][metric] for metric in metrics]
        if np.isfinite(values).all():
            params = {name: trial["lambdas"][name] for name in free}
            study.add_trial(optuna.trial.create_trial(params=params, distributions=spaces, values=values))
    asked = study.ask(spaces)
    return {name: float(asked.params[name]) for name in free}


def _point(kind: str, free: Sequence[str], number: int, seed: int) -> dict[str, float]:
    """The point of a trial, which does not depend on the scores of other trials."""
    if kind == "random":
        point = np.random.default_rng(draws.key(seed, "lambdas", number)).random(len(free))
    else:
        from scipy.stats import qmc

        points = qmc.Sobol(len(free), rng=np.random.default_rng(draws.key(seed, "lambdas")))
        point = points.random_base2(max(1, int(number).bit_length()))[number]
    return dict(zip(free, point.tolist(), strict=True))


def _resumed(
    file: Path, identity: Mapping[str, Any], sampler: str, say: Callable[[str], None] | None = None
) -> list[Trial]:
    """The stored trials of the same search; a damaged file is set aside."""
    if not file.is_file():
        return []
    try:
        known = reading.json_of(file)
        trials = [{"lambdas": dict(trial["lambdas"]), "scores": dict(trial["scores"])} for trial in known["trials"]]
        same = known["identity"] == identity and known["sampler"] == sampler
    except (ValueError, TypeError, KeyError):
        file.replace(file.with_name(f"{file.name}.damaged"))
        if say is not None:
            say(f"{file} is damaged: it is set aside as {file.name}.damaged, and its trials are done again")
        return []
    return trials if same else []
