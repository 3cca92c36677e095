"""Our own explainers before the referee."""

import pytest

from sampled import long
from troth.core import catalog
from troth.refereeing.ours import as_function
from troth.refereeing.verb import referee

# llm_ranking asks a language model, which the models here are not; attributive_masking is fitted to one model.
NAMES = [name for name in catalog.names("explainers") if name not in ("llm_ranking", "attributive_masking")]
SLOW = {
    "alti", "attention_x_gradient", "beam_search", "decomp_x", "deep_lift", "exact_shapley", "glob_enc",
    "gradient_shap", "input_x_gradient", "integrated_gradients", "kernel_shap", "lime", "partition_shap",
    "sequential_integrated_gradients",
}  # fmt: skip


@pytest.mark.parametrize("name", [long(name) if name in SLOW else name for name in NAMES])
def test_every_property_holds_that_applies(name):
    verdicts = referee(as_function(name))
    assert verdicts.holds, verdicts
    # Whoever refuses the models with known answers says so, and is judged on real layers.
    assert verdicts.judged >= 10


def test_what_a_method_claims_is_checked():
    for name, claimed in (("exact_shapley", "shapley_values"), ("leave_one_out", "leave_one_out")):
        assert referee(as_function(name), only=[claimed])[claimed].status == "holds"
    # The gradient does not: it has no sign.
    assert referee(as_function("gradient"), ["dummy"], only=["dummy"])["nothing_to_explain"].status == "fails"
