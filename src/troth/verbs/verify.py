"""`verify`: whether records still hold. Each decision is explained and proved again with its model, and compared.

A record holds where its signature is that of its content, the model has the same fingerprint, and every score and
every probability comes out as it was written, up to what another machine's arithmetic moves.
Nothing that a record names is run as code: methods come from the catalog, models are loaded as data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from troth.core import catalog, hub, trust, user_code
from troth.core.errors import TrothError
from troth.core.types import Attribution, Example
from troth.models import TextClassifier
from troth.models._user_code import load_named
from troth.verbs import records
from troth.verbs.explain import explain
from troth.verbs.proof import prove

_SCORES, _PROBABILITIES = 1e-3, 1e-3  # of the largest score; of a probability
_SETTINGS = ("units", "target", "against", "segments", "masking", "seed")


@dataclass(frozen=True)
class Verified:
    """What became of one record."""

    path: Path
    text: str
    holds: bool
    why: str = ""  # it does not


def verify(record: str | Path, model: Any = None, *, device: str | None = None) -> list[Verified]:
    """Every record at a path, or in a folder; `model` is used in place of the one that the records name."""
    found: dict[Path, Verified] = {}
    runs: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for path in records.files_of(Path(record)):
        try:
            facts = records.read(path)
        except TrothError as error:
            found[path] = Verified(path, "", False, str(error))
            continue
        if not records.is_unchanged(facts):
            found[path] = _failed(path, facts, "the file was changed after it was written: its signature does not fit")
            continue
        specs = [str(each.get("explainer")) for each in facts["explanations"]]
        key = json.dumps([facts["model"], facts["settings"], facts["run"], specs], sort_keys=True)
        runs.setdefault(key, []).append((path, facts))
    models: dict[str, TextClassifier] = {}
    for several in runs.values():
        about = several[0][1]["model"]
        key = json.dumps(about, sort_keys=True)
        if key not in models:
            models[key] = _model(about, model, device, trust.Origin.file(several[0][0]))
        found |= {each.path: each for each in _again(several, models[key])}
    return [found[path] for path in sorted(found)]


def _model(about: Mapping[str, Any], model: Any, device: str | None, origin: trust.Origin) -> TextClassifier:
    """The model that a record names, or the one that the user names; the record's options may not reach out."""
    given = about.get("options")
    options = given if isinstance(given, dict) else {}
    key = options.get("key_variable")
    if model is None:
        model = str(about.get("source"))
        origin.model(model, trust.KEY_VARIABLE if key is None else str(key))
        is_local = "://" in model or model == "embedded" or trust.is_there(model)
        if not is_local and user_code.read(model) is None and not hub.is_cached(f"models/{model}"):
            raise TrothError(f"the model {model} is not there; name it with --model")
    elif isinstance(model, str) and "://" in model and key:
        origin.endpoint(model.partition("#")[0], str(key))
    for name in ("tokenizer", "cache"):
        if isinstance(options.get(name), str):
            origin.path(options[name])
    return load_named(model, device=device, **options)


def _again(several: Sequence[tuple[Path, dict[str, Any]]], model: TextClassifier) -> Iterator[Verified]:
    """Records that were made together: of one model, with the same methods and settings."""
    before = several[0][1]["model"].get("fingerprint")
    if before != model.fingerprint:
        why = f"the model has changed: {model.name} was {before}, now it is {model.fingerprint}"
        yield from (_failed(path, facts, why) for path, facts in several)
        return
    readable = []
    for path, facts in several:
        try:
            readable.append((path, facts, [Attribution.from_dict(each) for each in facts["explanations"]]))
        except TrothError as error:
            yield _failed(path, facts, str(error))
    if not readable:
        return
    try:
        _require_within(readable)
        again = _explained(readable[0][1], [written[0].example for _, _, written in readable], readable[0][2], model)
    except TrothError as error:
        yield from (_failed(path, facts, f"it cannot be explained again: {error}") for path, facts, _ in readable)
        return
    for (path, facts, written), now in zip(readable, zip(*again, strict=True), strict=True):
        why = next(filter(None, map(_difference, written, now)), "")
        yield Verified(path, str(facts.get("text")), not why, why)


def _require_within(several: Sequence[tuple[Path, dict[str, Any], Sequence[Attribution]]]) -> None:
    """Refuses methods and maskings that reach outside of the records' folder and what the user named."""
    for path, facts, written in several:
        origin, proof = trust.Origin.file(path), facts["settings"].get("proof")
        for attribution in written:
            origin.spec("explainers", attribution.explainer)
        for settings in (facts["settings"], proof if isinstance(proof, dict) else {}):
            if isinstance(settings.get("masking"), str):
                origin.spec("maskings", settings["masking"])


def _explained(
    facts: Mapping[str, Any], examples: list[Example], written: Sequence[Attribution], model: TextClassifier
) -> list[list[Attribution]]:
    """[methods][texts] explained as the records were made."""
    specs = [attribution.explainer for attribution in written]
    for spec in specs:
        name = spec.partition("(")[0]
        if name not in catalog.names("explainers"):
            raise TrothError(f"{name or 'scores from outside'} is not one of troth's own methods")
        if catalog.find("explainers", name).learns and facts["run"].get("texts") != len(examples):
            together = f"{name} learned from {facts['run'].get('texts')} texts together"
            raise TrothError(f"{together}; records of {len(examples)} of them can be used")
    settings = {name: facts["settings"][name] for name in _SETTINGS if name in facts["settings"]}
    explained = [explain(model, examples, spec, **settings) for spec in specs]
    asked = facts["settings"].get("proof")
    if not isinstance(asked, dict):
        return explained
    names = [str(place) for place in range(len(specs))]  # one method may be there twice
    options = {name: asked[name] for name in ("ratio", "choices", "masking") if name in asked}
    proved = prove(model, dict(zip(names, explained, strict=True)), **options)
    return [proved[name] for name in names]


def _difference(before: Attribution, now: Attribution) -> str:
    """The first thing that is no longer as it was written; empty where all is."""
    name = before.explainer.partition("(")[0]
    if before.target != now.target:
        return f"the model said {before.label(before.target)}, now it says {now.label(now.target)}"
    if before.units != now.units:
        return f"the text had {len(before.units)} units, now it has {len(now.units)} others"
    if len(before.probabilities) != len(now.probabilities):
        return f"the model had {len(before.probabilities)} classes, now it has {len(now.probabilities)}"
    apart = np.abs(np.subtract(before.probabilities, now.probabilities))
    if apart.max(initial=0) > _PROBABILITIES:
        return f"the probability of {before.label(int(apart.argmax()))} differs by {apart.max():.2g}"
    size = float(np.abs(np.nan_to_num(before.scores)).max(initial=0))
    if not np.allclose(before.scores, now.scores, rtol=0, atol=_SCORES * size + 1e-7, equal_nan=True):
        unit = int(np.nan_to_num(np.abs(before.scores - now.scores), nan=np.inf).argmax())
        return f"{name} gave {before.units[unit]!r} {before.scores[unit]:+.4g}, now {now.scores[unit]:+.4g}"
    if before.proof is None or now.proof is None:
        return "" if before.proof is now.proof else f"{name}: only one of record and model has a proof"
    for part in ("probability", "without_top", "without_random", "random_low", "random_high"):
        old, new = getattr(before.proof, part), getattr(now.proof, part)
        if not abs(old - new) <= _PROBABILITIES:
            return f"{name}: {part.replace('_', ' ')} was {old:.4f}, now it is {new:.4f}"
    return ""


def _failed(path: Path, facts: Mapping[str, Any], why: str) -> Verified:
    return Verified(path, str(facts.get("text", "")), False, why)
