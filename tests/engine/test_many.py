"""Many texts asked about at once: every number as when they are asked one by one, and no row more."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import troth
from fakes import Lookup, encoder
from troth.core import catalog
from troth.core.types import Example, Question
from troth.engine.looks import Logits, Look
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.explainers.leave_one_out import LeaveOneOut
from troth.maskings.delete import Delete
from troth.metrics import Erasing
from troth.models._row_edits import chosen
from troth.verbs import many
from troth.verbs.explain import explain_each
from troth.verbs.measure import measure_each

TEXTS = [
    "a good film",
    "the soup was cold and the film is good and my new phone is fast",
    "",
    "awful",
    "good good awful awful",
    "a café \N{ZERO WIDTH SPACE} , 3.5 !",
]
EXPLAINERS = [
    "gradient",
    "gradient(norm=l1)",
    "input_x_gradient",
    "leave_one_out",
    "leave_one_out(absolute=true, of=probability)",
    "beam_search(width=3)",
    "beam_search(width=3, of=probability, drop_duplicates=false)",
    "integrated_gradients(steps=5)",
    "integrated_gradients(steps=4, rule=gauss_legendre, normalize=true)",
    "integrated_gradients(steps=4, moves=all, baseline=mask)",
    "integrated_gradients(steps=3, moves=all, rule=gauss_legendre, variant=released, absolute=true)",
    "attention",
    "random",
]
METRICS = [
    "aopc_comprehensiveness",
    "aopc_sufficiency(variant=released)",
    "aopc_log_odds",
    "comprehensiveness(masking=mask_token)",
    "normalized_sufficiency",
    "normalized_comprehensiveness(clip=true)",
    "recursive_erasure",
    "recursive_erasure(step=0.25, recompute=false)",
]


@pytest.fixture
def one_by_one(monkeypatch):
    def close():
        monkeypatch.setattr(Explainer, "asks_many", property(lambda self: False))
        monkeypatch.setattr(Erasing, "erases_alike", property(lambda self: False))

    return close


def counted(work, model, masking="mask_token"):
    prober = Prober(model, masking)
    return list(work(prober)), prober.cost


@pytest.mark.parametrize("masking", ["mask_token", "delete"])
@pytest.mark.parametrize("spec", EXPLAINERS)
def test_explanations(one_by_one, spec, masking):
    model = encoder()
    together, cost = counted(lambda prober: explain_each(prober, TEXTS, spec), model, masking)
    one_by_one()
    apart, before = counted(lambda prober: explain_each(prober, TEXTS, spec), model, masking)
    assert [each.example.text for each in together] == TEXTS
    # One by one it is remembered what erasing a unit without a token repeats; a beam erases it again in every round.
    rounds = [3 * len(each.units) if "beam" in spec else 1 for each in together]
    repeated = [
        times * int(each.question.encoding.tokenless.sum()) for times, each in zip(rounds, together, strict=True)
    ]
    assert cost.forward <= before.forward + sum(repeated)
    assert cost.backward == before.backward
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)
        assert (one.rest, one.gap, one.probabilities) == (other.rest, other.gap, other.probabilities)
        for name in ("target", "units", "spans", "signed", "explainer", "model", "labels", "note", "outputs"):
            assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("leave_one_out", [2, 2, 1]),  # 5 rows each
        ("beam_search(width=2)", [2, 2, 1]),  # 17 rows in 4 rounds
        ("gradient", [4, 1]),  # 2 rows each, and no more texts than may be under way
    ],
)
def test_a_gpu_gets_portions_that_keep_it_busy_while_the_next_one_is_prepared(spec, expected, monkeypatch):
    monkeypatch.setattr(many, "ROWS", 8)
    prober, explainer = Prober(encoder(), window=8), catalog.build("explainers", spec)
    encodings = encoder().encode([Example(str(number), "the film was good") for number in range(5)])

    def sizes():
        return [len(some) for _, some in many.portions(encodings, explainer, prober)]

    assert sizes() == [5]
    prober.shifts = 2
    assert sizes() == expected


@pytest.mark.parametrize("erased_by", ["mask_token", "delete", "zero"])
@pytest.mark.parametrize("spec", EXPLAINERS)
def test_explanations_of_what_is_left(spec, erased_by):
    """What was erased before, in the way of the looks or in another, stays erased in every row."""
    model, method, masking = encoder(), catalog.build("explainers", spec), catalog.build("maskings", erased_by)
    generator = torch.Generator().manual_seed(1)
    questions = [
        Question(encoding, 1).erased(torch.randint(0, 2, (encoding.n_units,), generator=generator).float(), masking)
        for encoding in model.encode([Example(str(number), text) for number, text in enumerate(TEXTS)])
    ]
    questions[0] = replace(questions[0], base=None, erased_by=None)
    (together,) = Prober(model).run_many([method.ask_many(questions, None)])
    apart = list(Prober(model).run(method.ask(question) for question in questions[1:]))
    apart.insert(0, Prober(model).ask(method.ask(questions[0])))
    for question, one, other in zip(questions, together, apart, strict=True):
        assert one.question is question
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose([one.rest, one.gap or 0], [other.rest, other.gap or 0], rtol=1e-5, atol=1e-6)
        if spec.startswith("integrated"):
            assert not one.scores[question.left.numpy() == 0].any()


def test_a_unit_without_a_token_scores_exactly_nothing():
    (attribution,) = troth.explain(encoder(), TEXTS[-1], "leave_one_out", progress=False)
    tokenless = attribution.question.encoding.tokenless.numpy()
    assert tokenless.any()
    assert attribution.scores[tokenless].tolist() == [0.0] * int(tokenless.sum())


@pytest.mark.parametrize("spec", METRICS)
def test_scores(one_by_one, spec):
    model = encoder()
    texts = [Example(str(number), text, label=number % 3) for number, text in enumerate(filter(None, TEXTS))]
    given = troth.explain(model, texts, "leave_one_out", target="gold", progress=False)
    together, cost = counted(lambda prober: measure_each(prober, given, spec), model)
    one_by_one()
    apart, before = counted(lambda prober: measure_each(prober, given, spec), model)
    # Of very short texts the two orders of a recursive metric may pass the same inputs. Those are asked about twice, in
    # another batch, which moves the last bits.
    recursive = spec.startswith("recursive")
    assert cost.forward <= before.forward * (1.3 if recursive else 1)
    for one, other in zip(together, apart, strict=True):
        assert one.why == other.why
        assert one.record.keys() == other.record.keys()
        np.testing.assert_allclose(one.value, other.value, atol=1e-6 if recursive else 0, rtol=0)
        for name, value in one.record.items():
            if isinstance(value, str):
                assert value == other.record[name]
            else:
                np.testing.assert_allclose(value, other.record[name], atol=1e-6 if recursive else 0, rtol=0)


@pytest.mark.parametrize("explainer", ["gradient", "attention", "integrated_gradients(steps=3, moves=all)"])
def test_explaining_again_what_is_left(one_by_one, explainer, monkeypatch):
    model = encoder()
    texts = [Example(str(number), text, label=number % 3) for number, text in enumerate(filter(None, TEXTS))]
    given = troth.explain(model, texts, explainer, target="gold", progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(Prober, "run", None)
        together = list(measure_each(Prober(model), given, "recursive_erasure(step=0.25)"))
    one_by_one()
    apart = list(measure_each(Prober(model), given, "recursive_erasure(step=0.25)"))
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_allclose(one.value, other.value, atol=1e-6)
        assert one.record["erased_at"] == other.record["erased_at"]


def test_by_hand():
    answers = {"good film": [0, 2], "[M] film": [0, 1], "good [M]": [0, 3], "good": [1, 4], "[M]": [1, 1]}
    given = troth.explain(Lookup(answers), ["good film", "good"], "leave_one_out", progress=False)
    # A lookup's logits are log-probabilities: log σ(2) − log σ(1), log σ(2) − log σ(3); log σ(3) − log σ(0).
    log = [np.log(1 / (1 + np.exp(-margin))) for margin in range(4)]
    np.testing.assert_allclose(given[0].scores, [log[2] - log[1], log[2] - log[3]], rtol=1e-5)
    np.testing.assert_allclose(given[1].scores, [log[3] - log[0]], rtol=1e-5)


def test_lengths_known_before_are_those_of_the_rows():
    model = encoder()
    seen = []

    class Spy(Logits):
        def read(self, model, rows):
            twice = replace(rows, ids=torch.cat([rows.ids] * 2), lengths=torch.cat([rows.lengths] * 2))
            for some in (rows, twice, chosen(rows, slice(1, None)), chosen(rows, torch.tensor([2, 0, 1]))):
                seen.append(rows.lengths_after is not None and some.known_lengths == some.lengths.tolist())
            return super().read(model, rows)

    question = Question(model.encode([Example("0", "the soup was cold")])[0], 0)
    keep = torch.tensor([[1.0, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1]])

    def ask():
        yield Look(question, keep, Delete(), Spy())

    Prober(model).ask(ask())
    assert seen
    assert all(seen)


def test_a_method_that_replaces_ask_is_asked_one_by_one():
    class Own(LeaveOneOut):
        def ask(self, question):
            attribution = yield from super().ask(question)
            return attribution.magnitude()

    assert LeaveOneOut().asks_many
    assert not Own().asks_many


def test_the_example_whose_answer_is_undefined_is_named():
    answers = {"good": [0, 1], "[M]": [0, 0], "film": [0, float("nan")]}
    with pytest.raises(troth.TrothError, match="example 1"):
        troth.explain(Lookup(answers), ["good", "film"], "leave_one_out")
