"""Many texts asked about at once: every number as when they are asked one by one, and no row more."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import troth
from fakes import Lookup, encoder
from troth.core import catalog
from troth.core.types import Attribution, Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Logits, Probe
from troth.engine.routines import per_text
from troth.explainers.leave_one_out import LeaveOneOut
from troth.maskings.delete import Delete
from troth.models._row_edits import chosen
from troth.verbs import explain
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


def counted(work, model, masking="mask_token"):
    prober = Prober(model, masking)
    return list(work(prober)), prober.cost


@pytest.mark.parametrize("masking", ["mask_token", "delete"])
@pytest.mark.parametrize("spec", EXPLAINERS)
def test_explanations(spec, masking):
    model = encoder()
    texts = [Example(str(number), text) for number, text in enumerate(TEXTS)]
    together, cost = counted(lambda prober: explain_each(prober, texts, spec), model, masking)
    apart = [counted(lambda prober, text=text: explain_each(prober, text, spec), model, masking) for text in texts]
    assert [each.example for each in together] == texts
    assert cost.forward <= sum(cost.forward for _, cost in apart)
    assert cost.backward <= sum(cost.backward for _, cost in apart)
    for one, ((other,), _) in zip(together, apart, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=1e-5)
        np.testing.assert_allclose([one.rest, one.gap or 0], [other.rest, other.gap or 0], rtol=1e-4, atol=1e-5)
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
def test_a_gpu_gets_batches_that_keep_it_busy_while_the_next_one_is_prepared(spec, expected, monkeypatch):
    monkeypatch.setattr(explain, "ROWS", 8)
    prober, explainer = Prober(encoder(), window=8), catalog.build("explainers", spec)
    encodings = encoder().encode([Example(str(number), "the film was good") for number in range(5)])

    def sizes():
        batches = explain.batches_by_cost(encodings, lambda encoding: encoding.n_units, explainer, prober)
        return [len(some) for some in batches]

    assert sizes() == [5]
    prober.pipeline_depth = 2
    assert sizes() == expected


@pytest.mark.parametrize("erased_by", ["mask_token", "delete", "zero"])
@pytest.mark.parametrize("spec", EXPLAINERS)
def test_explanations_of_what_is_left(spec, erased_by):
    """What was erased before, in the way of the probes or in another, stays erased in every row."""
    model, method, masking = encoder(), catalog.build("explainers", spec), catalog.build("maskings", erased_by)
    generator = torch.Generator().manual_seed(1)
    questions = [
        Question(encoding, 1).erased(torch.randint(0, 2, (encoding.n_units,), generator=generator).float(), masking)
        for encoding in model.encode([Example(str(number), text) for number, text in enumerate(TEXTS)])
    ]
    questions[0] = replace(questions[0], base=None, erased_by=None)
    together = Prober(model).ask(method.ask(questions))
    apart = [Prober(model).ask(method.ask([question]))[0] for question in questions]
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


@pytest.mark.parametrize("explainer", ["leave_one_out", "gradient", "attention", "lime(samples=20)"])
@pytest.mark.parametrize("spec", METRICS)
def test_scores(spec, explainer):
    model = encoder()
    texts = [Example(str(number), text, label=number % 3) for number, text in enumerate(TEXTS)]
    given = troth.explain(model, texts, explainer, target="gold", progress=False)
    together, cost = counted(lambda prober: measure_each(prober, given, spec), model)
    apart = [counted(lambda prober, one=one: measure_each(prober, [one], spec), model) for one in given]
    assert cost.forward <= sum(cost.forward for _, cost in apart)
    for one, ((other,), _) in zip(together, apart, strict=True):
        assert one.why == other.why
        assert one.record.keys() == other.record.keys()
        np.testing.assert_allclose(one.value, other.value, atol=1e-5, rtol=0)
        for name, value in one.record.items():
            if isinstance(value, str):
                assert value == other.record[name]
            else:
                np.testing.assert_allclose(value, other.record[name], atol=1e-5, rtol=0)


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
        yield Probe(question, keep, Delete(), Spy())

    Prober(model).ask(ask())
    assert seen
    assert all(seen)


def test_a_method_for_one_text_is_lifted_with_a_decorator_or_without():
    class Decorated(LeaveOneOut):
        @per_text
        def ask(self, question):
            answers = yield Probe(question, torch.ones(1, question.n_units))
            return Attribution(question, np.full(question.n_units, float(answers.value()[0])), signed=True)

    class Plain(LeaveOneOut):
        def ask(self, question):
            answers = yield Probe(question, torch.ones(1, question.n_units))
            return Attribution(question, np.full(question.n_units, float(answers.value()[0])), signed=True)

    assert LeaveOneOut().batch_size is None
    assert Decorated().batch_size == Plain().batch_size == 1
    found = [explain_each(Prober(encoder()), TEXTS, method()) for method in (Decorated, Plain)]
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one.scores, other.scores)


def test_the_example_whose_answer_is_undefined_is_named():
    answers = {"good": [0, 1], "[M]": [0, 0], "film": [0, float("nan")]}
    with pytest.raises(troth.TrothError, match="example 1"):
        troth.explain(Lookup(answers), ["good", "film"], "leave_one_out")
