"""troth's own explainers as functions for the referee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Example
from troth.explainers import Explainer
from troth.models import load_model
from troth.refereeing.subject import Attribute
from troth.verbs.explain import explain

# The claims of each method; methods without claims are checked only for the properties that hold for every method.
_CLAIMS: dict[str, tuple[str, ...]] = {
    "exact_shapley": ("shapley",),
    "leave_one_out": ("leave_one_out",),
    "integrated_gradients": ("integrated_gradients",),
    "input_x_gradient": ("input_x_gradient",),
    "deep_lift": ("linear", "dummy"),
    "kernel_shap": ("shapley",),
    "partition_shap": ("completeness", "linear", "dummy"),
    "gradient_shap": ("dummy",),
    "sequential_integrated_gradients": ("linear", "dummy"),
    "attention": ("class_free",),
    "glob_enc": ("class_free",),
    "alti": ("class_free",),
    "tf_idf": ("corpus",),
}
# The allowed error of approximations, as a share of the largest score.
_TOLERANCES = {"integrated_gradients": 0.1}


def as_function(spec: str | Explainer) -> Attribute:
    """An explainer as a function `attribute(model, tokenizer, texts, target)` with its claims."""
    explainer: Explainer = catalog.build("explainers", spec)
    name = catalog.name_of(explainer)

    def attribute(model: Any, tokenizer: Any, texts: Sequence[Any], target: int) -> list[Attribution]:
        examples = [
            # Random draws are keyed by the id, so that a text gets the same ones in every batch.
            Example(text, text) if isinstance(text, str) else Example(" / ".join(text), *text)
            for text in texts
        ]
        masking = "mask_token" if tokenizer.mask_token else "delete"
        try:
            classifier = load_model(model, tokenizer=tokenizer)
            return list(explain(classifier, examples, explainer, target=target, masking=masking))
        except TrothError as error:  # its one-line message says what is not supported, and why
            raise NotImplementedError(str(error)) from error

    attribute.__name__ = name
    free = () if explainer.asks_model else ("model_free",)
    attribute.claims = (*_CLAIMS.get(name, ()), *free)  # type: ignore[attr-defined]
    attribute.of = getattr(explainer, "of", "logit")  # type: ignore[attr-defined]
    attribute.tolerance = _TOLERANCES.get(name, 0.0)  # type: ignore[attr-defined]
    return attribute
