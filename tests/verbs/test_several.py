"""Several explainers or metrics at once: the same numbers to the last bit as each alone, and nothing read twice."""

import numpy as np
import pytest

import troth
from fakes import CORPUS, encoder
from sampled import every
from troth.core import catalog
from troth.explainers.lime import Lime

TEXTS = CORPUS[:5]
RUNNABLE = [name for name in catalog.names("explainers") if not catalog.required("explainers", name)]
# Two of a kind ask about the same erased inputs in batches of another make.
EXPLAINERS = [
    *RUNNABLE, "integrated_gradients(steps=10)", "integrated_gradients(steps=4, rule=gauss_legendre)",
    "beam_search(width=2)", "kernel_shap(samples=12)",
]  # fmt: skip


@pytest.fixture
def rows_read(monkeypatch):
    """How many rows each pass of the model has."""
    model, rows = encoder("bert"), []
    original = type(model).forward

    def forward(self, batch, **options):
        rows.append(len(batch))
        return original(self, batch, **options)

    monkeypatch.setattr(type(model), "forward", forward)
    return rows


@pytest.mark.parametrize("against", every(2, [None, "predicted"]))
def test_explainers_are_the_same_in_company(against):
    model = encoder("bert")
    together = troth.explain(model, TEXTS, EXPLAINERS, against=against)
    assert list(together) == EXPLAINERS
    for spec, attributions in together.items():
        for attribution, alone in zip(attributions, troth.explain(model, TEXTS, spec, against=against), strict=True):
            assert attribution.scores.tobytes() == alone.scores.tobytes(), spec
            assert attribution.to_dict() == alone.to_dict()


def test_what_is_read_of_whole_texts_is_read_once(rows_read):
    model, asked = encoder("bert"), ["random", "leave_one_out", "gradient", "input_x_gradient"]
    troth.explain(model, TEXTS, asked)  # a model is tried out when it is first used
    rows_read.clear()
    encoded = []
    original = type(model).encode
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(model), "encode", lambda self, *args: encoded.append(1) or original(self, *args))
        found = troth.explain(model, TEXTS, asked)
    units = sum(len(attribution.scores) for attribution in found["random"])
    # Whole texts once for the logits and once for the gradients, then each unit erased.
    assert sum(rows_read) == 2 * len(TEXTS) + units
    assert len(encoded) == 2  # the texts, and that there are no more


def test_an_object_goes_under_its_spec():
    found = troth.explain(encoder("bert"), TEXTS[0], [Lime(samples=8), "random"])
    assert list(found) == ["lime(samples=8)", "random"]
    assert [len(attributions) for attributions in found.values()] == [1, 1]
    assert troth.explain(encoder("bert"), TEXTS[0], []) == {}


def test_metrics_are_the_same_in_company():
    model = encoder("bert")
    attributions = troth.explain(model, TEXTS, "leave_one_out")
    metrics = ["comprehensiveness", "aopc_comprehensiveness", "deletion", "monotonicity", "recursive_erasure"]
    together = troth.measure(model, attributions, metrics)
    assert list(together) == metrics
    for spec, scores in together.items():
        alone = troth.measure(model, attributions, spec)
        np.testing.assert_array_equal([score.value for score in scores], [score.value for score in alone])
        assert [score.record for score in scores] == [score.record for score in alone]
