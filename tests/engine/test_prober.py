"""The engine: what is asked is computed once, in batches that fit, in order; and nothing of that changes a number."""

import itertools
import weakref

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2ForSequenceClassification

import fakes
import troth
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe, ProbeBatch, keep_all, keep_without_each
from troth.explainers._gradient_readout import GradientReadout
from troth.explainers.integrated_gradients import IntegratedGradients
from troth.maskings.delete import Delete
from troth.maskings.mask_token import MaskToken
from troth.maskings.mix import Mix
from troth.maskings.soft import Soft
from troth.maskings.zero import Zero
from troth.models import Output

LONGER = "my new phone is fast , bright and a joy to use"
TEXTS = ["a good film", "the soup was cold", "awful", LONGER, "is the film good ?"]


def questions(model=None, texts=TEXTS, **options):
    encodings = (model or fakes.encoder()).encode([Example(str(i), text) for i, text in enumerate(texts)])
    return [Question(encoding, target=1, **options) for encoding in encodings]


def looking(question, keep=None, masking=None, **options):
    keep = keep_all(question) if keep is None else torch.as_tensor(keep)
    return (yield Probe(question, keep, masking, **options))


@pytest.fixture
def batches(monkeypatch):
    """Every batch that reaches the model, apart from those by which it proves, once, that padding changes nothing."""
    assert fakes.encoder().pads
    seen = []
    original = type(fakes.encoder()).forward
    monkeypatch.setattr(
        type(fakes.encoder()), "forward", lambda self, rows, **more: seen.append(rows) or original(self, rows, **more)
    )
    return seen


# --- once


def test_a_row_asked_twice_in_a_look_is_computed_once():
    (question,) = questions(texts=["a good film"])
    keep = torch.tensor([[1.0, 0, 1], [1, 1, 0], [1, 0, 1], [1, 0, 1]])
    prober = Prober(fakes.encoder())
    answer = prober.ask(looking(question, keep))
    assert prober.cost.forward == 2
    assert torch.equal(answer.logits[[2, 3]], answer.logits[[0, 0]])
    single = [Prober(fakes.encoder()).ask(looking(question, keep[row : row + 1])).logits for row in (0, 1)]
    torch.testing.assert_close(answer.logits[:2], torch.cat(single), rtol=1e-5, atol=1e-5)


def test_a_row_asked_by_another_at_the_same_time_is_computed_once_and_a_whole_input_ever():
    (question,) = questions(texts=["a good film"])
    prober = Prober(fakes.encoder())
    whole = prober.ask(looking(question)).logits
    both = torch.cat([keep_all(question), keep_without_each(question).flip(0)])
    first, second = prober.run([looking(question, keep_without_each(question)), looking(question, both)])
    assert prober.cost.forward == 4
    assert torch.equal(second.logits[1:].flip(0), first.logits)
    assert torch.equal(second.logits[:1], whole)


def test_what_has_faded_stays_faded_whatever_else_is_erased():
    (question,) = questions(texts=["a good film"])
    faded = question.erased(torch.tensor([1.0, 0.5, 1]), Zero())
    keep = torch.tensor([[1.0, 1, 0], [0, 1, 1]])
    batch = ProbeBatch([faded], keep.numpy() == 1, np.array([2]), Zero())
    expected = Prober(fakes.encoder()).ask(looking(question, keep * torch.tensor([1.0, 0.5, 1]), Zero())).logits
    for probe in (batch, Probe(faded, keep, Zero())):
        torch.testing.assert_close(Prober(fakes.encoder()).ask(asked(probe)).logits, expected)


def asked(probe):
    return (yield probe)


def test_an_input_that_was_explained_again_is_known_when_its_curve_is_drawn():
    (question,) = questions(texts=["a good film"])
    prober, base = Prober(fakes.encoder()), torch.tensor([1.0, 0, 1])
    # The second row erases the unit that is gone already, so it is the same input as the last row.
    keep = torch.cat([keep_without_each(question), keep_all(question)])
    left = prober.ask(looking(question.erased(base, MaskToken()), keep)).logits
    assert prober.cost.forward == 3
    curve = prober.ask(looking(question, torch.stack([torch.ones(3), base]), MaskToken())).logits
    assert prober.cost.forward == 4
    assert torch.equal(curve[1:], left[-1:])


def test_what_is_read_about_a_class_is_not_taken_for_another():
    (question,) = questions(texts=["a good film"])
    others = [question, Question(question.encoding, 2), Question(question.encoding, 1, against=2)]
    prober = Prober(fakes.encoder())
    found = [answer.units["dot"][0] for answer in prober.run(looking(one, readout=GradientReadout()) for one in others)]
    assert prober.cost.backward == 3
    torch.testing.assert_close(found[2], found[0] - found[1], rtol=1e-4, atol=1e-5)
    prober.ask(looking(others[1], readout=GradientReadout()))
    assert prober.cost.backward == 3
    logits = [answer.logits for answer in prober.run(looking(one) for one in others)]
    assert prober.cost.forward == 4  # the logits do not depend on the class
    assert torch.equal(logits[0], logits[2])


# --- batches


@pytest.mark.parametrize("memory", [1, 20_000, 100_000, None])
def test_batches_fit_and_are_sorted_by_length(memory, batches):
    model = fakes.encoder()
    prober = Prober(model, memory=memory)
    list(prober.run(looking(question, keep_without_each(question)) for question in questions()))
    lengths = [rows.lengths.tolist() for rows in batches]
    assert sum(map(len, lengths)) == prober.cost.forward == sum(question.n_units for question in questions())
    assert [*itertools.chain(*lengths)] == sorted(itertools.chain(*lengths))
    if memory == 1:
        assert {len(rows) for rows in batches} == {1}
    elif memory is not None:
        for rows in batches:
            cost = len(rows) * model.bytes_per_row(rows.ids.shape[1], backward=False, attentions=False)
            assert len(rows) == 1 or cost <= memory
        assert len(batches) > 1


def test_what_is_wanted_differently_is_never_in_one_batch(batches):
    one, two, three, four = questions(texts=TEXTS[:4])
    base = torch.ones(four.n_units)
    base[0] = 0
    asks = [
        looking(one, readout=GradientReadout()),
        looking(two, [[0.0, 1, 1, 1]], Zero()),
        looking(three, [[0.0]], MaskToken()),
        looking(four.erased(base, Zero()), masking=MaskToken()),
    ]
    prober = Prober(fakes.encoder())
    list(prober.run(asks))
    assert sorted(rows.encodings[0].example.id for rows in batches) == ["0", "1", "2", "3"]
    assert prober.cost.batches == 4
    assert prober.cost.backward == 1


def test_padding_changes_nothing():
    together = [answer.logits for answer in Prober(fakes.encoder()).run(looking(one) for one in questions())]
    for question, logits in zip(questions(), together, strict=True):
        torch.testing.assert_close(Prober(fakes.encoder()).ask(looking(question)).logits, logits, rtol=1e-5, atol=1e-5)


def decoder(pad=None):
    tokenizer = fakes.tokenizer_for("roberta")
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2, "num_labels": 3}
    model = GPT2ForSequenceClassification(GPT2Config(**sizes, pad_token_id=pad, bos_token_id=0, eos_token_id=2)).eval()
    return troth.load_model(model, tokenizer=tokenizer)


def test_a_decoder_is_never_padded_even_where_two_maskings_shorten(monkeypatch):
    model = decoder(pad=1)
    assert not model.pads  # found out by passes of its own, on first use
    seen = []
    original = type(model).forward
    monkeypatch.setattr(
        type(model), "forward", lambda self, rows, **more: seen.append(rows) or original(self, rows, **more)
    )
    (question,) = questions(model, texts=["the book is good"])
    base = torch.tensor([1.0, 1, 1, 0])
    Prober(model).ask(looking(question.erased(base, MaskToken()), keep_without_each(question), Delete()))
    for rows in seen:
        assert (rows.lengths == rows.ids.shape[1]).all()
    assert sum(map(len, seen)) == 4


# --- windows


def test_an_endless_stream_of_asks_is_answered_as_it_comes():
    (question,) = questions(texts=["a good film"])
    started = itertools.count()
    most_ahead, taken = 0, 0

    def endless():
        while True:
            next(started)
            yield looking(question)

    def count():
        return int(repr(started)[6:-1])

    for _ in zip(range(50), Prober(fakes.encoder(), window=7).run(endless()), strict=False):
        taken += 1
        most_ahead = max(most_ahead, count() - taken)
    assert taken == 50
    assert most_ahead <= 7


def test_finished_examples_are_let_go():
    model = fakes.encoder()
    alive = weakref.WeakSet()
    most = 0

    def stream():
        for number in range(60):
            (question,) = questions(model, texts=[TEXTS[number % 3]])
            alive.add(question.encoding)
            yield looking(question)
            del question

    for _ in Prober(model, window=5).run(stream()):
        most = max(most, len(alive))
    assert most <= 12  # those under way, and a few that the answers still hold


def test_results_come_in_order_however_long_an_ask_takes():
    def slow(question, rounds):
        for _ in range(rounds):
            yield Probe(question, keep_all(question))
        return question.encoding.example.id

    asked = questions()
    rounds = [5, 0, 3, 1, 2]
    found = list(Prober(fakes.encoder(), window=3).run(slow(one, n) for one, n in zip(asked, rounds, strict=True)))
    assert found == ["0", "1", "2", "3", "4"]


# --- memory


@pytest.mark.parametrize("readout", [None, GradientReadout()])
def test_a_batch_that_does_not_fit_is_halved(readout, monkeypatch):
    options = {} if readout is None else {"readout": readout}
    asks = lambda: (looking(one, keep_without_each(one), **options) for one in questions())  # noqa: E731
    expected = list(Prober(fakes.encoder()).run(asks()))
    original, sizes, held = type(fakes.encoder()).forward, [], []

    def scarce(self, rows, **more):
        assert all(tensor() is None for tensor in held), "what did not fit is still held"
        sizes.append(len(rows))
        if len(rows) > 2:
            scratch = torch.zeros(8)
            held.append(weakref.ref(scratch))
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(self, rows, **more)

    monkeypatch.setattr(type(fakes.encoder()), "forward", scarce)
    prober = Prober(fakes.encoder(), memory=1 << 26)
    found = list(prober.run(asks()))
    assert max(sizes) > 2
    assert prober.memory < 1 << 26
    assert prober.cost.forward == sum(size for size in sizes if size <= 2)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.logits, other.logits, rtol=1e-4, atol=1e-5)
        if readout is not None:
            torch.testing.assert_close(one.units["dot"], other.units["dot"], rtol=1e-3, atol=1e-4)


def test_a_single_row_that_does_not_fit_is_said_in_one_line(monkeypatch):
    def full(self, rows, **more):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")

    monkeypatch.setattr(type(fakes.encoder()), "forward", full)
    with pytest.raises(
        TrothError, match=r"^example 0: a single row of 5 tokens does not fit into memory; .*$"
    ) as caught:
        Prober(fakes.encoder()).ask(looking(questions()[0], keep_without_each(questions()[0])))
    assert "\n" not in str(caught.value)


def test_other_runtime_errors_are_not_taken_for_it(monkeypatch):
    def broken(self, rows, **more):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(type(fakes.encoder()), "forward", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        Prober(fakes.encoder()).ask(looking(questions()[0]))


# --- errors


def test_an_error_inside_an_ask_comes_out_and_poisons_nothing():
    def failing(question):
        yield Probe(question, keep_without_each(question))
        raise LookupError("planted")

    asked = questions()
    prober = Prober(fakes.encoder())
    expected = [Prober(fakes.encoder()).ask(looking(one, keep_without_each(one))).logits for one in asked]
    with pytest.raises(LookupError, match="planted"):
        list(prober.run([looking(asked[0], keep_without_each(asked[0])), failing(asked[1]), looking(asked[2])]))
    for question, logits in zip(asked, expected, strict=True):
        found = prober.ask(looking(question, keep_without_each(question))).logits
        torch.testing.assert_close(found, logits, rtol=1e-5, atol=1e-5)


def test_an_error_in_the_middle_of_the_model_leaves_no_empty_rows_behind(monkeypatch):
    asked, original = questions(), type(fakes.encoder()).forward
    expected = [Prober(fakes.encoder()).ask(looking(one)).logits for one in asked]
    left = [1]

    def fails_once(self, rows, **more):
        left[0] -= 1
        if left[0] == -1:
            raise KeyboardInterrupt
        return original(self, rows, **more)

    monkeypatch.setattr(type(fakes.encoder()), "forward", fails_once)
    prober = Prober(fakes.encoder(), memory=1)
    with pytest.raises(KeyboardInterrupt):
        list(prober.run(looking(one) for one in asked))
    for question, logits in zip(asked, expected, strict=True):
        torch.testing.assert_close(prober.ask(looking(question)).logits, logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_undefined_logits_are_named(bad, monkeypatch):
    def undefined(self, rows, **more):
        logits = torch.zeros(len(rows), 3)
        logits[[encoding.example.id == "1" for encoding in rows.encodings], 2] = bad
        return Output(logits)

    monkeypatch.setattr(type(fakes.encoder()), "forward", undefined)
    with pytest.raises(TrothError) as caught:
        list(Prober(fakes.encoder()).run(looking(question) for question in questions()))
    assert str(caught.value) == (
        "tiny bert gave NaN or infinite logits for example 1; check its weights, or load it with dtype=float32"
    )


def test_a_keep_of_the_wrong_width_or_between_0_and_1_is_refused():
    (question,) = questions(texts=["a good film"])
    with pytest.raises(TrothError, match=r"keep must be \[rows, 3 units\], not \[1, 4\]"):
        Prober(fakes.encoder()).ask(looking(question, torch.ones(1, 4)))
    with pytest.raises(TrothError, match="delete erases whole units; to fade them use zero, mix"):
        Prober(fakes.encoder()).ask(looking(question, [[1.0, 0.5, 1]], Delete()))


# --- bases


def plain(model, ids, vectors=None):
    inputs = {"input_ids": ids[None]} if vectors is None else {"inputs_embeds": vectors[None]}
    with torch.no_grad():
        return model.model(**inputs, token_type_ids=torch.zeros(1, len(ids), dtype=torch.long)).logits


def test_a_base_of_the_same_masking_is_one_erasure():
    model = fakes.encoder()
    (question,) = questions(texts=["the soup was cold"])
    erased = question.erased(torch.tensor([0.0, 1, 1, 1]), MaskToken())
    prober = Prober(model)
    answer = prober.ask(looking(erased, [[1.0, 1, 1, 1], [1, 1, 0, 1], [0, 1, 0, 1]]))
    ids = question.encoding.ids.clone()
    ids[1] = model.mask_id
    torch.testing.assert_close(answer.logits[:1], plain(model, ids), rtol=1e-5, atol=1e-5)
    ids[3] = model.mask_id
    torch.testing.assert_close(answer.logits[1:2], plain(model, ids), rtol=1e-5, atol=1e-5)
    assert torch.equal(answer.logits[1], answer.logits[2])  # what is gone cannot go again
    assert prober.cost.forward == 2


def test_a_base_by_delete_then_zero():
    model = fakes.encoder()
    (question,) = questions(texts=["the soup was cold"])
    erased = question.erased(torch.tensor([1.0, 0, 1, 1]), Delete())
    answer = Prober(model).ask(looking(erased, [[1.0, 1, 0.25, 1], [1, 0, 1, 1]], Zero()))
    ids = question.encoding.ids[[0, 1, 3, 4, 5]]
    vectors = model.embed(ids).detach().clone()
    torch.testing.assert_close(answer.logits[1:], plain(model, ids), rtol=1e-5, atol=1e-5)
    vectors[2] *= 0.25
    torch.testing.assert_close(answer.logits[:1], plain(model, ids, vectors), rtol=1e-5, atol=1e-5)


def test_a_path_on_a_masked_base_starts_from_the_masked_text():
    """IG on an input whose second word was masked: the mask stays, and the scores sum to what the others change."""
    model = fakes.encoder()
    (question,) = questions(texts=["the soup was cold"])
    erased = question.erased(torch.tensor([1.0, 0, 1, 1]), MaskToken())
    steps = 200
    attribution = Prober(model).ask(IntegratedGradients(steps=steps).ask([erased]))[0]
    ids = question.encoding.ids.clone()
    ids[2] = model.mask_id
    masked = model.embed(ids).detach()
    nothing = masked.clone()
    nothing[[1, 3, 4]] = 0
    ends = [float(plain(model, ids, vectors)[0, 1]) for vectors in (nothing, masked)]
    assert attribution.gap == pytest.approx(float(attribution.scores.sum()) - (ends[1] - ends[0]), abs=1e-4)
    scores = torch.zeros(6)
    for step in range(1, steps + 1):
        vectors = (nothing + (masked - nothing) * step / steps).requires_grad_()
        types = torch.zeros(1, 6, dtype=torch.long)
        (gradient,) = torch.autograd.grad(
            model.model(inputs_embeds=vectors[None], token_type_ids=types).logits[0, 1], vectors
        )
        scores += (gradient * (masked - nothing)).sum(-1) / steps
    torch.testing.assert_close(torch.from_numpy(attribution.scores), scores[1:5], rtol=1e-3, atol=1e-4)


def test_a_base_erased_at_random_is_the_same_input_in_every_row():
    (question,) = questions(texts=["the soup was cold"])
    erased = question.erased(torch.tensor([0.5, 0.5, 1, 1]), Soft())
    keep = torch.ones(1, 4)
    whole = Prober(fakes.encoder()).ask(looking(erased, keep, MaskToken())).logits
    among = Prober(fakes.encoder()).ask(looking(erased, torch.cat([1 - torch.eye(4), keep]), MaskToken(), purpose="b"))
    torch.testing.assert_close(among.logits[-1:], whole, rtol=1e-5, atol=1e-5)
    prober = Prober(fakes.encoder())
    seeds = [Question(erased.encoding, 1, base=erased.base, erased_by=erased.erased_by, seed=seed) for seed in (0, 1)]
    first, second = (prober.ask(looking(one, keep, MaskToken())).logits for one in seeds)
    torch.testing.assert_close(first, whole)
    assert not torch.allclose(first, second)


# --- draws


@pytest.mark.parametrize("memory", [1, 30_000, None])
def test_draws_are_the_same_at_any_batch_size_and_in_any_company(memory):
    model = fakes.encoder()
    keep = lambda question: torch.full((6, question.n_units), 0.5)  # noqa: E731
    asks = [looking(one, keep(one), Soft(), purpose="test") for one in questions()]
    found = list(Prober(model, memory=memory).run(asks))
    alone = Prober(model).ask(looking(questions()[3], keep(questions()[3]), Soft(), purpose="test"))
    torch.testing.assert_close(found[3].logits, alone.logits, rtol=1e-4, atol=1e-5)
    assert len({round(float(value), 4) for value in alone.logits[:, 0]}) == 6  # a draw a row
    other = Prober(model).ask(looking(questions()[3], keep(questions()[3]), Soft(), purpose="other"))
    assert not torch.allclose(other.logits, alone.logits)


# --- contrasts


@pytest.mark.parametrize("of", ["logit", "probability", "log_probability"])
def test_a_contrast_is_the_difference_of_two_classes(of):
    (question,) = questions(texts=["a good film"])
    contrast = Question(question.encoding, target=2, against=0)
    prober = Prober(fakes.encoder())
    value = prober.ask(looking(contrast, keep_without_each(contrast))).value(of)
    logits = prober.ask(looking(question, keep_without_each(question))).logits
    values = {"logit": logits, "probability": logits.softmax(-1), "log_probability": logits.log_softmax(-1)}[of]
    torch.testing.assert_close(value, values[:, 2] - values[:, 0])


def test_a_path_between_other_vectors_moves_all_tokens_where_asked():
    model = fakes.encoder()
    (question,) = questions(texts=["a good film"])
    answer = Prober(model).ask(looking(question, [[1.0, 1, 1]], Mix("zero"), non_unit_keep=torch.tensor([0.25])))
    vectors = model.embed(question.encoding.ids).detach().clone()
    vectors[[0, -1]] *= 0.25
    torch.testing.assert_close(answer.logits, plain(model, question.encoding.ids, vectors), rtol=1e-5, atol=1e-5)


def test_looks_without_rows_and_texts_without_units():
    (question,) = questions(texts=["a good film"])
    assert len(Prober(fakes.encoder()).ask(looking(question, torch.zeros(0, 3))).logits) == 0
    empty, other = questions(texts=["", "a good film"])
    found = list(Prober(fakes.encoder(), "delete").run([looking(empty, torch.zeros(2, 0)), looking(other)]))
    torch.testing.assert_close(
        found[0].logits, plain(fakes.encoder(), empty.encoding.ids).expand(2, -1), rtol=1e-5, atol=1e-5
    )
    assert found[0].logits.shape == (2, 3)
