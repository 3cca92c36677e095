"""`verify`: whether records still hold. Each decision is explained and proved again with its model, and compared.

The whole record is rebuilt from the inputs of the decision (the text, the model, the methods, the settings), and every
field of the file is compared with it. Numbers may differ by what another machine's arithmetic changes; everything else
must be equal. Nothing that a record names is run as code: methods come from the catalog or from code that the user
allows (`--allow my_file.py:Name`), and models are loaded as data. What cannot be recomputed is accepted: the time, the
versions, and the example's gold label.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troth.core import catalog, hub, trust, user_code
from troth.core.errors import TrothError
from troth.core.plain_values import FieldDifference, at, differences
from troth.core.plain_values import Path as Place
from troth.core.types import Attribution, Example
from troth.core.user_code import shown
from troth.explainers import Explainer
from troth.models import TextClassifier, load_named
from troth.models._identity import is_older
from troth.verbs import records
from troth.verbs.comparison import sentence
from troth.verbs.explain import explain
from troth.verbs.methods import EXPLAINERS
from troth.verbs.proof import prove

CLOSE = 1e-3  # relative to the largest score; absolute for a probability
_SAME_CHOICES = 2  # random choices that may count differently on another machine
_MOST_CHOICES = 10_000
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Verified:
    """The outcome for one record, or for one part of a run."""

    path: Path
    text: str
    holds: bool
    why: str = ""  # the reason if it does not hold


def verify(
    record: str | Path, model: Any = None, *, device: str | None = None, key: bytes | None = None
) -> list[Verified]:
    """Verifies the record at a path, or all records in a folder; `model` replaces the model that the records name.

    With a `key`, only records that were signed with it hold.
    """
    found: dict[Path, Verified] = {}
    runs: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for path in records.files_of(Path(record)):
        try:
            facts = records.read(path)
        except TrothError as error:
            found[path] = Verified(path, "", False, str(error))
            continue
        if why := records.fault_of_signature(facts, key):
            found[path] = Verified(path, facts["text"], False, why)
            continue
        specs = [each["explainer"] for each in facts["explanations"]]
        together = json.dumps([facts["model"], facts["settings"], facts["run"], specs], sort_keys=True)
        runs.setdefault(together, []).append((path, facts))
    models: dict[str, TextClassifier] = {}
    for several in runs.values():
        about = several[0][1]["model"]
        name = json.dumps(about, sort_keys=True)
        if name not in models:
            models[name] = recorded_model(about, model, device, trust.Origin.file(several[0][0]))
        found |= {each.path: each for each in _again(several, models[name])}
    return [found[path] for path in sorted(found)]


def recorded_model(about: Mapping[str, Any], model: Any, device: str | None, origin: trust.Origin) -> TextClassifier:
    """The model that a file names by its source and options, or the one that the user passed.

    Neither may access anything outside of what the user named with the file.
    """
    options = about["options"]
    key = options.get("key_variable")
    if model is None:
        model = about["source"]
        origin.model(model, trust.KEY_VARIABLE if key is None else str(key))
        is_local = "://" in model or model == "embedded" or trust.is_there(model)
        if not is_local and user_code.read(model) is None and not hub.is_cached(f"models/{model}"):
            raise TrothError(f"the model {model} was not found; pass its location with --model")
    elif isinstance(model, str) and "://" in model and key:
        origin.endpoint(model.partition("#")[0], str(key))
    for name in ("tokenizer", "cache"):
        if isinstance(options.get(name), str):
            origin.path(options[name])
    try:
        return load_named(model, device=device, **options)
    except (TypeError, ValueError, AttributeError) as error:
        raise TrothError(f"the model's options {options} cannot be used: {error}") from None


def _again(several: Sequence[tuple[Path, dict[str, Any]]], model: TextClassifier) -> Iterator[Verified]:
    """Verifies records that were made together, with the same model, methods and settings."""
    before = several[0][1]["model"]["fingerprint"]
    if before != model.fingerprint:
        why = f"the model has changed: {model.name} was {before}, now it is {model.fingerprint}"
        if is_older(before):
            why = (
                f"it was recorded by an earlier troth, which identified a model by a sample of its weights ({before}); "
                "record the decision again"
            )
        yield from (Verified(path, facts["text"], False, why) for path, facts in several)
        return
    try:
        _require_within(several)
        rebuilt = _rebuilt([facts for _, facts in several], model)
    except (TrothError, TypeError, ValueError) as error:
        why = f"it cannot be explained again: {error}"
        yield from (Verified(path, facts["text"], False, why) for path, facts in several)
        return
    for (path, facts), now in zip(several, rebuilt, strict=True):
        why = next((_said(each, facts) for each in differences(facts, now, _tolerance(facts)) if _counts(each)), "")
        yield Verified(path, facts["text"], not why, why)


def _require_within(several: Sequence[tuple[Path, dict[str, Any]]]) -> None:
    """Rejects methods and maskings that access anything outside of the records' folder and what the user named."""
    for path, facts in several:
        origin, proof = trust.Origin.file(path), facts["settings"].get("proof")
        for each in facts["explanations"]:
            origin.spec("explainers", each["explainer"])
        for settings in (facts["settings"], proof if isinstance(proof, dict) else {}):
            if isinstance(settings.get("masking"), str):
                origin.spec("maskings", settings["masking"])


def _rebuilt(several: Sequence[Mapping[str, Any]], model: TextClassifier) -> list[dict[str, Any]]:
    """The records as they would be written now; what cannot be recomputed is copied."""
    facts = several[0]
    examples = [
        Example(each["id"], each["text"], each["text_pair"], each["explanations"][0]["label"]) for each in several
    ]
    by_text = zip(*_explained(facts, examples, model), strict=True)
    rebuilt = []
    for each, row in zip(several, by_text, strict=True):
        now = records.decision(
            row, model, source="", options={}, settings=each["settings"], run=each["run"], versions=each["versions"],
            comparison=sentence(row),
        )  # fmt: skip
        name = each["model"]["name"]
        if name != model.name and Path(name).name != Path(each["model"]["source"]).name:
            name = model.name  # matches neither the model's current name nor the place it was loaded from
        now |= {"format": each["format"], "time": each["time"], "signature": each["signature"]}
        rebuilt.append(json.loads(json.dumps({**now, "model": {**each["model"], "name": name}})))
    return rebuilt


def _explained(facts: Mapping[str, Any], examples: list[Example], model: TextClassifier) -> list[Sequence[Attribution]]:
    """[methods][texts] Explains the texts again as for the records."""
    specs = [each["explainer"] for each in facts["explanations"]]
    texts = facts["run"]["texts"]
    if texts < len(examples):
        raise TrothError(f"{len(examples)} records claim that {texts} texts were explained together")
    methods = [_method(spec) for spec in specs]
    for method in methods:
        if method.learns and texts != len(examples):
            raise TrothError(
                f"{catalog.name_of(method)} learned from {texts} texts together; records of {len(examples)} of them "
                "can be used"
            )
    settings = {name: value for name, value in facts["settings"].items() if name != "proof"}
    explained: list[Sequence[Attribution]] = [explain(model, examples, method, **settings) for method in methods]
    if any(len(some) != len(examples) for some in explained):
        raise TrothError(f"the target {settings.get('target')!r} does not name one class per text")
    asked = facts["settings"].get("proof")
    if asked is None:
        return explained
    if asked["choices"] > _MOST_CHOICES:
        raise TrothError(f"a proof with {asked['choices']:,} random choices; at most {_MOST_CHOICES:,} are repeated")
    names = [str(place) for place in range(len(specs))]  # unique keys, since a method may occur twice
    proved = prove(model, dict(zip(names, explained, strict=True)), **asked)
    return [proved[name] for name in names]


def _method(spec: str) -> Explainer:
    """The method that a record names, from the catalog or from code that the user has allowed."""
    name = spec.partition("(")[0]
    if name in catalog.names("explainers"):
        return EXPLAINERS.method(spec).instance
    for head in sorted(trust.allowed()):
        reference = user_code.read(head)
        if reference is not None and catalog.name_of(EXPLAINERS.from_reference(reference, Path.cwd()).instance) == name:
            own = user_code.read(head + spec.removeprefix(name))
            assert own is not None
            return EXPLAINERS.from_reference(own, Path.cwd()).instance
    if not name:
        raise TrothError("its scores were imported, so they cannot be computed again")
    raise TrothError(f"{name} is not one of troth's own methods; if it is your own code, pass --allow my_file.py:Name")


def _tolerance(facts: Mapping[str, Any]) -> Any:
    """How far the numbers of a record may differ, by field."""

    def allowed(place: Place) -> float:
        if place[0] != "explanations" or len(place) < 3:
            return 0.0
        explanation = facts["explanations"][place[1]]
        if place[2] in ("scores", "rest", "gap"):
            return CLOSE * max((abs(score) for score in explanation["scores"] if score is not None), default=0.0) + 1e-7
        if place[2] == "probabilities" or (place[2] == "proof" and isinstance(at(facts, place), float)):
            if place[-1] in ("ratio", "chance"):
                return 0.0 if place[-1] == "ratio" else _SAME_CHOICES / max(1, explanation["proof"]["choices"])
            # Values, unlike probabilities, may be large.
            return CLOSE * max(1.0, *map(abs, explanation["probabilities"])) if explanation["probabilities"] else CLOSE
        return 0.0

    return allowed


def _counts(difference: FieldDifference) -> bool:
    """Whether a difference is relevant: a slightly different p-value in the comparison sentence is not."""
    if difference.path != ("comparison",) or not (isinstance(difference.before, str) and difference.now):
        return True
    before, now = (_NUMBER.sub("#", text) for text in (difference.before, difference.now))
    numbers = [map(float, _NUMBER.findall(text)) for text in (difference.before, difference.now)]
    return before != now or any(abs(one - other) > 0.02 for one, other in zip(*numbers, strict=True))


def _in_common(first: str, second: str) -> int:
    """The number of characters with which both texts begin."""
    pairs = zip(first, second, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))


def _from_difference(value: Any, other: Any, before: int = 20, longest: int = 60) -> str:
    """A shortened value; a long text starts a few characters before the place where the other one differs.

    >>> _from_difference("a word, " * 9 + "then this", "a word, " * 9 + "then that", longest=30)
    "'…ord, a word, then this'"
    """
    if not isinstance(value, str) or not isinstance(other, str):
        return shown(value)
    start = max(0, _in_common(value, other) - before) if len(value) > longest else 0
    return shown(f"{'…' if start else ''}{value[start:]}", longest)


def _said(difference: FieldDifference, facts: Mapping[str, Any]) -> str:
    """Describes a difference."""
    path, before, now = difference.path, difference.before, difference.now
    changed = difference.what or f"was {_from_difference(before, now)}, now it is {_from_difference(now, before)}"
    if path[0] != "explanations" or len(path) < 3:
        return f"{difference.place} {changed}"
    explanation = facts["explanations"][path[1]]
    name, field = explanation["explainer"].partition("(")[0], str(path[-1]).replace("_", " ")
    if difference.what:
        return f"{name}: {difference.place.partition('.')[2]} {changed}"
    if path[2] == "scores" and None not in (before, now):
        return f"{name} gave {explanation['units'][path[3]]!r} {before:+.4g}, now {now:+.4g}"
    if path[2] == "probabilities":
        label = explanation["labels"][path[3]] if path[3] < len(explanation["labels"]) else path[3]
        return f"the probability of {label} differs by {abs(before - now):.2g}"
    if path[2] == "proof" and isinstance(before, float) and isinstance(now, float):
        return f"{name}: {field} was {before:.4f}, now it is {now:.4f}"
    return f"{name}: {difference.place.partition('.')[2]} {changed}"
