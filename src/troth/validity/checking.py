"""Are inputs that were erased in the order of an explanation still in distribution for the model?

The check computes MaSF's p-value of every test example at every erased share, for each explainer (Madsen et al., 2024,
section 5.2). Inputs are erased exactly as `recursive_erasure` erases them: in the order for the gold class where there
are labels. The module `references` describes what they are compared with.

Deviation: MaSF as published combines hidden units by Simes and counts each reference among its own references. With a
few hundred references and 256 hidden units, the p-values of new inputs from the same distribution are too small, and
yet hardly any p-value can fall below 0.05, because too many references are extreme in some unit of every layer.
`variant="calibrated"` combines hidden units by Fisher and leaves each reference out of its own distributions, so that
p-values are uniform under the null hypothesis and can be as small as 1 / (references + 1). Where `paper` has no power,
the verdict is "not tested".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from troth.core import arguments, catalog
from troth.core.errors import TrothError, unknown
from troth.core.types import Encoding, Example
from troth.core.units import UnitName
from troth.data import Data
from troth.data._classes import match_labels
from troth.engine.prober import Prober
from troth.engine.routines import Routine
from troth.explainers import Explainer
from troth.maskings import Masking
from troth.metrics._erasing import basis_points, erasing, recursively_erased
from troth.models import check_choices, load_model
from troth.models.targets import require_class
from troth.statistics import simes
from troth.validity.masf import HIDDEN_STATES, MaSF, data_set_p_value, largest, require_hidden_states, why_not_tested
from troth.validity.references import References, form_of, parted
from troth.verbs.explain import batches_by_cost, explanations
from troth.verbs.methods import EXPLAINERS, GivenExplainer

LEVEL = 0.05
_EXAMPLES_AT_ONCE = 128
Variant = Literal["calibrated", "paper"]
Verdict = Literal["no evidence against", "out of distribution"]
VARIANTS: dict[str, dict[str, Any]] = {"calibrated": {"over_hidden": "fisher", "self_included": False}, "paper": {}}


def verdict(p: float) -> Verdict:
    """The meaning of a p-value; the null hypothesis, that inputs are in distribution, can never be proven."""
    return "no evidence against" if p >= LEVEL else "out of distribution"


@dataclass(frozen=True, eq=False)
class Check:
    """The p-values [examples, ratios] for each explainer; if there are none, `not_tested` gives the reason."""

    model: str
    data: str
    masking: str
    references: int
    masked_references: float  # the share of references that is masked
    ratios: tuple[float, ...]
    example_ids: tuple[str, ...]
    p_values: Mapping[str, NDArray[np.float64]]
    target: str = "predicted"  # the class explained
    smallest: float | None = None  # the smallest p-value that was possible
    notes: tuple[str, ...] = ()
    not_tested: str = ""

    def by_ratio(self, explainer: str) -> NDArray[np.float64]:
        """[ratios] Simes's p-value for the hypothesis that all examples are in distribution."""
        return np.array([data_set_p_value(column) for column in self.p_values[explainer].T])

    def answer(self) -> list[str]:
        """The result in words."""
        by_explainer = {name: self.by_ratio(name) for name in self.p_values}
        # P-values are combined over shares by Simes, as over examples.
        erased = {name: float(simes(p[1:])) for name, p in by_explainer.items()}
        outside = {name: p for name, p in erased.items() if verdict(p) == "out of distribution"}
        whole = min(p[0] for p in by_explainer.values())
        if verdict(whole) == "out of distribution":
            said = (
                f"Out of distribution (p = {whole:.2g}) before anything is erased: these texts are unlike the "
                "references, so what masking does to them cannot be tested. Test texts of the kind the model was "
                "trained on."
            )
        elif outside:
            orders = ", ".join(f"{name} (p = {p:.2g})" for name, p in outside.items())
            said = (
                f"Out of distribution when erased in the order of {orders}: erasure metrics may measure that instead "
                "of faithfulness. Fine-tune with masking: troth train masked"
            )
        else:
            said = (
                f"No evidence against (p = {min(erased.values()):.2g}): that inputs are in distribution cannot be "
                "proven."
            )
        return [said, f"The smallest p-value this check could have given is {self.smallest:.2g}."]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        explainers = {
            name: {
                "p": self.by_ratio(name).tolist(),
                "verdict": [verdict(p) for p in self.by_ratio(name)],
                "by_example": dict(zip(self.example_ids, p_values.tolist(), strict=True)),
            }
            for name, p_values in self.p_values.items()
        }
        return {
            "model": self.model,
            "data": self.data,
            "masking": self.masking,
            "target": self.target,
            "references": self.references,
            "masked_references": self.masked_references,
            "examples": len(self.example_ids),
            "level": LEVEL,
            "smallest_p": self.smallest,
            "ratios": list(self.ratios),
            "explainers": explainers,
            "notes": list(self.notes),
            "not_tested": self.not_tested,
        }


@arguments.typed()
def check(
    model: Any,
    data: str | Path | Data | Iterable[Example],
    validation: str | Path | Data | Iterable[Example] | None = None,
    explainers: Sequence[GivenExplainer] = ("random",),
    masking: str | Masking = "mask_token",
    step: float = 0.1,
    seed: int = 0,
    *,
    units: UnitName = "word",
    target: str | int | None = None,
    references: References = "as_trained",
    variant: Variant = "calibrated",
    recompute: bool | None = None,
) -> Check:
    """Erases the data step by step in the order of each explainer and tests at each step whether it is in distribution.

    The references are the validation data if given, else the part that was held out of the model's training, else half
    of the examples. `target` is the class explained; None, as for recursive_erasure, is the gold class of labeled
    examples, else the predicted one. `recompute` explains the remaining input again at every step; by default this is
    done unless the explainer is recursive itself (beam_search) or a function of yours: their order is computed once.
    """
    points = settle(explainers, masking, step, units, references, variant)
    classifier, how = load_model(model), catalog.build("maskings", masking)
    require_class(classifier, target)
    baseline, tested, notes = parted(data, validation, classifier)
    tested = match_labels(tested, classifier.labels, classifier.name, classifier.outputs)
    form = form_of(classifier, references, how)
    result = Check(
        model=classifier.name,
        data=tested.name,
        masking=catalog.spec(how),
        references=len(baseline),
        masked_references=form.share,
        ratios=tuple(point / 10_000 for point in points),
        example_ids=tuple(example.id for example in tested),
        p_values={},
        target=" or ".join(sorted({str(_target_of(example, target)) for example in tested})),
        notes=(*notes, form.note),
    )
    for used in (how, form.masking) if form.share else (how,):
        if not used.tested_by_masf:
            return replace(result, example_ids=(), not_tested=why_not_tested(used))
    require_hidden_states(classifier)
    # In training, every token of both texts may be masked, whatever is erased later.
    trained_on = classifier.encode(baseline, "token", "both")
    fitted = MaSF.from_model(
        Prober(classifier, form.masking), trained_on, form.share > 0, seed, share=form.share, **VARIANTS[variant]
    )
    result = replace(result, smallest=fitted.smallest)
    if fitted.smallest >= LEVEL:
        return replace(
            result,
            example_ids=(),
            not_tested=f"not tested: with {len(baseline)} references no p-value can be below {fitted.smallest:.2g}; "
            "give more validation examples, or use the calibrated variant",
        )
    encodings = classifier.encode(tested, units)
    p_values = {}
    for method in EXPLAINERS.by_name(explainers).values():
        views = erased_views(
            Prober(classifier, how), method, encodings, points, target=target, seed=seed, recompute=recompute
        )
        p_values[catalog.spec(method)] = np.concatenate([*_placed(fitted, views), np.empty((0, len(points)))])
    return replace(result, p_values=p_values)


def settle(
    explainers: Sequence[GivenExplainer],
    masking: str | Masking,
    step: float,
    units: str,
    references: str,
    variant: str,
) -> range:
    """The erased shares in basis points; raises an error for impossible options before a model is loaded."""
    for what, choice, choices in (("kind of references", references, References), ("variant", variant, Variant)):
        if choice not in get_args(choices):
            raise unknown(what, choice, get_args(choices))
    check_choices(units, "first")
    catalog.build("maskings", masking)
    arguments.methods("explainers", explainers)
    EXPLAINERS.by_name(explainers)
    points = range(0, 10_001, basis_points(step) or 10_001)
    if len(points) < 2 or points[-1] != 10_000:
        raise TrothError(f"step must divide 1 (0.1, 0.05, 0.25, …), not {step}")
    return points


def erased_views(
    prober: Prober,
    explainer: Explainer,
    encodings: Sequence[Encoding],
    points: Sequence[int],
    *,
    target: str | int | None = None,
    seed: int = 0,
    recompute: bool | None = None,
) -> Iterator[list[NDArray[Any]]]:
    """For each example, one array per layer, [points, hidden]: the model's hidden states as the example is erased, for
    MaSF.
    """
    prepared = explainer.prepare(prober, encodings)
    again = not explainer.recursive if recompute is None else recompute

    def views(encodings: Sequence[Encoding]) -> Routine[list[list[NDArray[Any]]]]:
        pairs = [(encoding, _target_of(encoding.example, target)) for encoding in encodings]
        attributions = yield from explanations(prober.model, prepared, pairs, seed=seed)
        questions = [attribution.question for attribution in attributions]
        explain = prepared.ask if again else None
        left = yield from recursively_erased(questions, attributions, explain, prober.masking, points)
        answers = yield replace(erasing(questions, left, prober.masking), readout=HIDDEN_STATES)
        layers = largest(answers)
        return [
            [layer[start : start + len(points)] for layer in layers]
            for start in range(0, len(left) * len(points), len(points))
        ]

    batches = batches_by_cost(encodings, lambda encoding: encoding.n_units, prepared, prober)
    yield from chain.from_iterable(prober.run(map(views, batches), prepared.batch_size or prober.texts_at_once))


def _target_of(example: Example, target: str | int | None) -> str | int:
    """The class that is explained, by default the same as in recursive_erasure."""
    if target is not None:
        return target
    return "predicted" if example.label is None or example.label == () else "gold"


def _placed(fitted: MaSF, views: Iterator[list[NDArray[Any]]]) -> Iterator[NDArray[np.float64]]:
    """[examples, points] p-values, computed for a few examples at a time because hidden states need much memory."""
    while some := list(islice(views, _EXAMPLES_AT_ONCE)):
        together = [np.concatenate(layer) for layer in zip(*some, strict=True)]
        yield fitted.p_values_of(together).reshape(len(some), -1)
