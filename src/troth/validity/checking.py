"""Are inputs that were erased in the order of an explanation still of the kind the model was trained on?

MaSF's p-values of every test example at every erased share, by explainer (Madsen et al., 2024, section 5.2), erased
exactly as `recursive_erasure` erases them. References are validation examples in the form of the training: masked at
random for a model that was fine-tuned with masking, whole for any other. That form decides much: compared with masked
references, masked inputs pass on nearly any model.

Deviation: MaSF as published joins hidden units by Simes and counts each reference among its own. With a few hundred
references of 256 units, p-values of new inputs of the same kind come out too small, and yet none can fall below 0.05 or
so, whatever is tested: too many references are themselves extreme in some unit of every layer. `variant="calibrated"`
joins hidden units by Fisher and leaves each reference out of its own distributions, so that p-values are uniform under
the null and can be as small as 1 / (references + 1). Where `paper` has no power, the verdict is "not tested".
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from troth import catalog
from troth.data import Data, load_data
from troth.data._classes import match_labels
from troth.errors import TrothError, unknown
from troth.explainers import Explainer
from troth.explaining import explanation
from troth.looks import Ask, Look
from troth.maskings import Masking
from troth.metrics._erasing import basis_points, recursively_erased
from troth.models import TextClassifier, load_model
from troth.probing import Prober
from troth.types import Encoding
from troth.units import UnitKind
from troth.validity.hidden_states import HIDDEN_STATES, largest, require_hidden_states
from troth.validity.masf import FEWEST, MaSF, data_set_p_value, why_not_tested

LEVEL = 0.05
_EXAMPLES_AT_ONCE = 128
References = Literal["as_trained", "masked", "whole"]
Variant = Literal["calibrated", "paper"]
_VARIANTS: dict[str, dict[str, Any]] = {"calibrated": {"over_hidden": "fisher", "self_included": False}, "paper": {}}


@dataclass(frozen=True, eq=False)
class Check:
    """p-values [examples, ratios] of every explainer; none, and why in `not_tested`, where there cannot be any."""

    model: str
    data: str
    masking: str
    references: int
    masked_references: bool
    ratios: tuple[float, ...]
    example_ids: tuple[str, ...]
    p_values: Mapping[str, NDArray[np.float64]]
    notes: tuple[str, ...] = ()
    not_tested: str = ""

    def by_ratio(self, explainer: str) -> NDArray[np.float64]:
        """[ratios] Simes's p-value that all examples are in distribution."""
        return np.array([data_set_p_value(column) for column in self.p_values[explainer].T])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        explainers = {
            name: {
                "p": self.by_ratio(name).tolist(),
                "in_distribution": (self.by_ratio(name) >= LEVEL).tolist(),
                "by_example": dict(zip(self.example_ids, p_values.tolist(), strict=True)),
            }
            for name, p_values in self.p_values.items()
        }
        return {
            "model": self.model,
            "data": self.data,
            "masking": self.masking,
            "references": self.references,
            "masked_references": self.masked_references,
            "examples": len(self.example_ids),
            "level": LEVEL,
            "ratios": list(self.ratios),
            "explainers": explainers,
            "notes": list(self.notes),
            "not_tested": self.not_tested,
        }


def check(
    model: Any,
    data: str | Data,
    validation: str | Data | None = None,
    explainers: Sequence[str | Explainer] = ("random",),
    masking: str | Masking = "mask_token",
    step: float = 0.1,
    seed: int = 0,
    *,
    units: UnitKind = "word",
    target: str | int = "predicted",
    references: References = "as_trained",
    variant: Variant = "calibrated",
) -> Check:
    """Erases the data step by step in the order of each explainer and asks at each step: is that in distribution?

    Without validation data, half of the examples are the references.
    """
    for what, given, choices in (("kind of references", references, References), ("variant", variant, Variant)):
        if given not in get_args(choices):
            raise unknown(what, given, get_args(choices))
    points = range(0, 10_001, basis_points(step) or 10_001)
    if len(points) < 2 or points[-1] != 10_000:
        raise TrothError(f"step must divide 1 (0.1, 0.05, 0.25, …), not {step}")
    classifier, how = load_model(model), catalog.build("maskings", masking)
    known, asked, notes = parted(data, validation)
    asked = match_labels(asked, classifier.labels, classifier.name)
    masked = is_masked(classifier) if references == "as_trained" else references == "masked"
    if references == "as_trained":
        notes.append(_trained_how(classifier, masked))
    found = Check(
        classifier.name, asked.name, catalog.spec(how), len(known), masked, tuple(point / 10_000 for point in points),
        tuple(example.id for example in asked), {}, tuple(notes),
    )  # fmt: skip
    if not how.tested_by_masf:
        return replace(found, example_ids=(), not_tested=why_not_tested(how))
    require_hidden_states(classifier)
    # In training every token of both texts may be masked, whatever is erased later.
    trained_on = classifier.encode(known, "token", "both")
    fitted = MaSF.from_model(Prober(classifier), trained_on, masked, seed, **_VARIANTS[variant])
    if fitted.smallest >= LEVEL:
        return replace(
            found,
            example_ids=(),
            not_tested=f"not tested: with {len(known)} references no p-value can be below {fitted.smallest:.2g}; "
            "give more validation examples, or use the calibrated variant",
        )
    encodings = classifier.encode(asked, units)
    p_values = {}
    for explainer in explainers:
        method = catalog.build("explainers", explainer)
        views = erased_views(Prober(classifier, how), method, encodings, points, target=target, seed=seed)
        p_values[catalog.spec(method)] = np.concatenate([*_placed(fitted, views), np.empty((0, len(points)))])
    return replace(found, p_values=p_values)


def parted(data: str | Data, validation: str | Data | None) -> tuple[Data, Data, list[str]]:
    """References, test examples, and what must be said of them: where no references are given, half become them."""
    asked = data if isinstance(data, Data) else load_data(data)
    if validation is None:
        if len(asked) < 2 * FEWEST:
            raise TrothError(
                f"{asked.name} has {len(asked)} examples; half would be the references, and MaSF needs {FEWEST}: "
                f"give {2 * FEWEST}, or validation data beside them"
            )
        order = np.random.default_rng(0).permutation(len(asked))
        first, second = np.sort(order[: len(asked) // 2]), np.sort(order[len(asked) // 2 :])
        known = replace(asked, examples=[asked[int(place)] for place in first])
        asked = replace(asked, examples=[asked[int(place)] for place in second])
        return known, asked, [f"{len(known):,} examples drawn from the data are references, {len(asked):,} are tested"]
    known = validation if isinstance(validation, Data) else load_data(validation)
    texts = {(example.text, example.text_pair) for example in known}
    shared = sum((example.text, example.text_pair) in texts for example in asked)
    if not shared:
        return known, asked, []
    note = f"{shared:,} of {len(asked):,} examples to test are also references, which makes them look in distribution"
    warnings.warn(note, stacklevel=3)
    return known, asked, [note]


def splits_of(
    data: str, split: str | None, validation: str | None, validation_split: str | None, limit: int | None
) -> tuple[Data, Data | None]:
    """What to test and the references: as said, else the test and validation splits, else None for halves."""
    if validation is None and validation_split is None and split is None:
        try:
            return load_data(data, "test", limit), load_data(data, "validation")
        except TrothError as error:
            if "split" not in str(error):
                raise
            return load_data(data, limit=None if limit is None else 2 * limit), None
    asked = load_data(data, split, limit)
    if validation is None and validation_split is None:
        return asked, None
    return asked, load_data(validation or data, validation_split)


def is_masked(model: TextClassifier) -> bool:
    """Whether the model's folder says that it was fine-tuned with masking; of other origins nothing is known."""
    folder = Path(getattr(getattr(model, "model", None), "name_or_path", None) or "/nowhere")
    try:
        recipe = str(json.loads((folder / "train.json").read_text())["identity"]["recipe"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return recipe.startswith("masked(") and "train='no'" not in recipe


def _trained_how(model: TextClassifier, masked: bool) -> str:
    if masked:
        return f"{model.name} was fine-tuned with masking, so the references are masked as in its training"
    return (
        f"nothing says that {model.name} was fine-tuned with masking, so the references are whole texts; "
        "if it was: references masked"
    )


def erased_views(
    prober: Prober,
    explainer: Explainer,
    encodings: Sequence[Encoding],
    points: Sequence[int],
    *,
    target: str | int = "predicted",
    seed: int = 0,
) -> Iterator[list[NDArray[Any]]]:
    """A layer each, [points, hidden], of each example: what the model makes of it as it is erased, for MaSF."""
    prepared = explainer.prepare(prober, encodings)
    yield from prober.run(_view(prober, prepared, encoding, points, target, seed) for encoding in encodings)


def _view(
    prober: Prober, explainer: Explainer, encoding: Encoding, points: Sequence[int], target: str | int, seed: int
) -> Ask[list[NDArray[Any]]]:
    attribution = yield from explanation(prober.model, explainer, encoding, target=target, seed=seed)
    question = attribution.question
    left = yield from recursively_erased(question, attribution, explainer.ask, prober.masking, points)
    answer = yield Look(question, left, want=HIDDEN_STATES)
    return largest(answer)


def _placed(fitted: MaSF, views: Iterator[list[NDArray[Any]]]) -> Iterator[NDArray[np.float64]]:
    """[examples, points] p-values, some examples at a time: views are large, p-values are not."""
    while some := list(islice(views, _EXAMPLES_AT_ONCE)):
        together = [np.concatenate(layer) for layer in zip(*some, strict=True)]
        yield fitted.p_values_of(together).reshape(len(some), -1)
