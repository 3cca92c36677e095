"""`absolute=true`: how much a unit matters either way, at every step of whatever explains again."""

import numpy as np
import pytest
import torch

import troth
from fakes import Lookup, encoder
from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.explainers import SignedExplainer
from troth.explainers.leave_one_out import LeaveOneOut
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.store.tables import attributions_to_table, table_to_attributions
from troth.sweep.bench import plan_of
from troth.sweep.context import Context
from troth.validity.checking import erased_views

SIGNED = [name for name in catalog.names("explainers") if catalog.find("explainers", name).signed]
CHEAP = {"lime": "samples=40", "kernel_shap": "samples=40", "gradient_shap": "samples=6"}
CHEAP |= {"integrated_gradients": "steps=4", "sequential_integrated_gradients": "steps=3"}


@pytest.mark.parametrize("name", SIGNED)
def test_every_signed_explainer_takes_it(name):
    model, text = encoder("bert"), "a good film with a bad end"
    options = f"{CHEAP[name]}, " if name in CHEAP else ""
    (plain,) = troth.explain(model, text, f"{name}({options.rstrip(', ')})", target=1)
    (absolute,) = troth.explain(model, text, f"{name}({options}absolute=true)", target=1)
    assert plain.signed
    assert (plain.scores < 0).any()
    assert not absolute.signed
    assert absolute.scores == pytest.approx(np.abs(plain.scores), rel=1e-5, abs=1e-7)
    assert "absolute=True" in absolute.explainer
    assert absolute.rest == pytest.approx(plain.rest, abs=1e-6)


def test_unsigned_ones_do_not():
    with pytest.raises(TrothError, match="gradient: no option is called 'absolute'"):
        catalog.build("explainers", "gradient(absolute=true)")
    with pytest.raises(TrothError, match="leave_one_out: absolute must be bool"):
        catalog.build("explainers", "leave_one_out(absolute=perhaps)")


def test_a_method_of_ones_own_gets_it_once_however_often_ask_is_overridden():
    class Twice(LeaveOneOut):
        def ask(self, questions):
            return (yield from super().ask(questions))

    (attribution,) = troth.explain(encoder("bert"), "a good film", Twice(absolute=True), target=1)
    (plain,) = troth.explain(encoder("bert"), "a good film", Twice(), target=1)
    assert attribution.scores == pytest.approx(np.abs(plain.scores))
    assert issubclass(Twice, SignedExplainer)


# Class 1 is gold. At first only "a" matters. Without "a", "b" speaks for the class a little and "c" against it a lot:
# the signed order goes on with b, the absolute one with c. Logits of class 1 by which units are left.
WORTH = {"bcd": -1, "cd": -1.5, "bd": 3, "bc": -1, "acd": 4, "abd": 4, "abc": 4, "abcd": 4, "d": -1, "c": -3, "": -4}


def table():
    def text(left):
        return " ".join(unit if unit in left else "[M]" for unit in "abcd")

    def logit(left):
        return WORTH.get(left, 2 + len(left))

    sets = ["".join(unit for place, unit in enumerate("abcd") if number >> place & 1) for number in range(16)]
    return {text(left): [0.0, float(logit(left))] for left in sets}


MODEL = Lookup(table())
GIVEN = [Example("x", "a b c d", label=1)]
STEPS = "recursive_erasure(step=0.25)"


def slow(absolute):
    """The curve written out: explain what is left, erase the highest."""
    left = "abcd"

    def worth(left):
        # A black box's logits are logarithms of its probabilities.
        return -np.log1p(np.exp(-table()[" ".join(unit if unit in left else "[M]" for unit in "abcd")][1]))

    curve = [worth(left)]
    while left:
        drops = {unit: worth(left) - worth(left.replace(unit, "")) for unit in left}
        score = {unit: abs(drop) if absolute else drop for unit, drop in drops.items()}
        left = left.replace(max(left, key=lambda unit: score[unit]), "")
        curve.append(worth(left))
    return np.exp(curve).tolist()


@pytest.mark.parametrize("absolute", [False, True])
def test_recursive_erasure_explains_with_the_same_sign_at_every_step(absolute):
    spec = f"leave_one_out(absolute={absolute})"
    attributions = troth.explain(MODEL, GIVEN, spec)
    (found,) = troth.measure(MODEL, attributions, STEPS)
    assert slow(True) != pytest.approx(slow(False), abs=1e-3)  # or this would prove nothing
    assert found.record["p_explained"] == pytest.approx(slow(absolute), abs=1e-6)


def test_a_magnitude_is_explained_again_as_a_magnitude():
    signed = troth.explain(MODEL, GIVEN, "leave_one_out")
    (found,) = troth.measure(MODEL, [one.magnitude() for one in signed], STEPS)
    assert found.record["p_explained"] == pytest.approx(slow(True), abs=1e-6)
    # Stored and read back, as studies do.
    stored = attributions_to_table([one.magnitude() for one in signed])
    read = MODEL.encode(GIVEN)
    again = table_to_attributions(MODEL, read, stored, explainer=catalog.spec(LeaveOneOut(), full=True))
    (found,) = troth.measure(MODEL, again, STEPS)
    assert found.record["p_explained"] == pytest.approx(slow(True), abs=1e-6)


def test_performance_of_signed_and_absolute_measures_differs():
    def curve(spec):
        attributions = troth.explain(MODEL, [Example(str(place), "a b c d", label=1) for place in range(12)], spec)
        return RecursiveErasure(step=0.25).summarize(troth.measure(MODEL, attributions, STEPS)).extra["explained"]

    assert curve("leave_one_out") == [float(p > 0.5) for p in slow(False)]
    assert curve("leave_one_out(absolute=true)") == [float(p > 0.5) for p in slow(True)]
    assert curve("leave_one_out") != curve("leave_one_out(absolute=true)")


def test_a_check_erases_in_the_absolute_order(monkeypatch):
    """What MaSF is shown at one half is the input without the three of seven units that matter most either way."""
    model = encoder("bert")
    text = "a good film with a bad end"
    (encoding,) = model.encode([Example("0", text)])
    shown = []
    original = type(model).forward

    def forward(self, rows, **options):
        if options.get("hidden"):
            shown.extend(rows.ids.tolist())
        return original(self, rows, **options)

    monkeypatch.setattr(type(model), "forward", forward)
    prober, method = troth.engine.prober.Prober(model), LeaveOneOut(absolute=True)
    list(erased_views(prober, method, [encoding], [0, 5000], target=1))
    (plain,) = troth.explain(model, text, "leave_one_out", target=1)
    order, signed_order = (np.argsort(-scores, kind="stable")[:3] for scores in (np.abs(plain.scores), plain.scores))
    assert set(order) != set(signed_order)
    left = [unit not in order for unit in range(encoding.n_units)]
    expected = torch.where(encoding.per_token(torch.tensor([left]).float())[0] > 0, encoding.ids, model.mask_id)
    assert expected.tolist() in shown


def test_it_is_a_row_of_its_own_in_a_bench():
    plan = plan_of(
        Context(), "embedded", "reviews", ["leave_one_out", "leave_one_out(absolute=true)"], ["sufficiency"], limit=2
    )
    rows = [cell.specs["explainer"] for cell in plan.of("explanation")]
    assert rows == ["random", "leave_one_out", "leave_one_out(absolute=True)"]
    assert len({cell.name for cell in plan.of("metric")}) == 3
