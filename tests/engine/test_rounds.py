"""Rows are built and answered a group at a time, in turns where a GPU works meanwhile: none of it changes a number."""

import itertools

import numpy as np
import pytest
import torch

import fakes
import troth
from troth.core import catalog, draws
from troth.core.types import Example, Question, Rows, replace, spread
from troth.engine.asked_rows import AskedRows, group_of
from troth.engine.prober import Prober
from troth.engine.probes import Probe, keep_all, keep_without_each
from troth.engine.row_layout import RowLayout
from troth.maskings.delete import Delete
from troth.maskings.mask_token import MaskToken
from troth.maskings.soft import Soft
from troth.maskings.zero import Zero
from troth.models import _changes, _reading
from troth.verbs.explain import explain_each

TEXTS = ["a good film", "the soup was cold", "awful", "my new phone is fast and a joy to use", "is the film good ?"]


def questions(model, texts=TEXTS):
    encodings = model.encode([Example(str(number), text) for number, text in enumerate(texts)])
    return [Question(encoding, target=1) for encoding in encodings]


def looking(question, keep, masking=None, **options):
    return (yield Probe(question, keep, masking, **options))


# --- turns


@pytest.mark.parametrize("explainer", ["leave_one_out", "beam_search(width=2)", "integrated_gradients(steps=3)"])
def test_taking_turns_changes_no_number_and_no_order(explainer):
    def explained(shifts, window):
        prober = Prober(fakes.encoder(), window=window)
        prober.pipeline_depth = shifts
        return list(explain_each(prober, TEXTS * 3, explainer)), prober.cost.forward

    expected, rows = explained(1, 512)
    for shifts, window in [(2, 4), (2, 7), (3, 512)]:
        found, asked = explained(shifts, window)
        assert asked == rows
        assert [one.example.id for one in found] == [one.example.id for one in expected]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(one.scores), torch.from_numpy(other.scores))


def test_the_model_begins_before_the_other_half_is_read(monkeypatch):
    events = []
    original = Prober._read
    monkeypatch.setattr(Prober, "_read", lambda self, table: events.append("model") or original(self, table))

    def stream():
        for question in questions(fakes.encoder(), TEXTS[:4]):
            events.append("text")
            yield looking(question, keep_all(question))

    prober = Prober(fakes.encoder(), window=4)
    prober.pipeline_depth = 2
    list(prober.run(stream()))
    assert events == ["text", "text", "model", "text", "text", "model"]


# --- what is remembered


def test_only_whole_inputs_are_known_after_forgetting():
    (question,) = questions(fakes.encoder(), ["a good film"])
    prober = Prober(fakes.encoder())
    both_ends = torch.cat([keep_all(question), torch.zeros(1, 3)])
    for _ in range(2):
        prober.ask(looking(question, both_ends))
        assert prober.cost.forward == 2
    prober.forget_erased()
    whole = prober.ask(looking(question, keep_all(question)))
    assert prober.cost.forward == 2
    keep = torch.cat([torch.zeros(1, 3), keep_without_each(question), keep_all(question)])
    erased = prober.ask(looking(question, keep))
    assert prober.cost.forward == 6
    assert torch.equal(erased.logits[-1], whole.logits[0])


def test_rows_of_two_rounds_and_of_this_one_come_back_in_their_places():
    asked = questions(fakes.encoder())
    alone = [
        torch.cat([Prober(fakes.encoder()).ask(looking(one, row[None])).logits for row in keep_without_each(one)])
        for one in asked
    ]
    prober = Prober(fakes.encoder())
    both_ends = [torch.stack([torch.zeros(one.n_units), torch.ones(one.n_units)]) for one in asked]
    ends = list(prober.run(looking(one, keep) for one, keep in zip(asked, both_ends, strict=True)))
    rows = [
        torch.cat([torch.ones(1, one.n_units), keep_without_each(one).repeat(2, 1), torch.zeros(1, one.n_units)])
        for one in asked
    ]
    found = prober.run(looking(one, keep) for one, keep in zip(asked, rows, strict=True))
    for answer, logits, (nothing, whole) in zip(found, alone, (end.logits for end in ends), strict=True):
        expected = torch.cat([whole[None], logits.repeat(2, 1), nothing[None]])
        torch.testing.assert_close(answer.logits, expected, rtol=1e-5, atol=1e-5)
    # Without its only unit a text keeps nothing, which was asked before.
    assert prober.cost.forward == sum(2 + (one.n_units if one.n_units > 1 else 0) for one in asked)


def test_units_that_no_token_joins_are_found_even_in_rows_said_to_differ():
    model = fakes.encoder()
    (encoding,) = model.encode([Example("0", "a good film")])
    lost = encoding.units.clone()
    lost[lost == 1] = 0  # "good" is left without a token
    question = Question(troth.core.types.replace(encoding, units=lost), target=1)
    prober = Prober(model)
    answer = prober.ask(looking(question, torch.cat([keep_without_each(question), keep_all(question)]), distinct=True))
    assert prober.cost.forward == 3
    assert torch.equal(answer.logits[1], answer.logits[3])


# --- rows


@pytest.mark.parametrize("base", [None, MaskToken(), Zero()])
@pytest.mark.parametrize("masking", [MaskToken(), Delete(), Zero(), Soft()])
def test_a_batch_is_what_each_row_would_be_alone(masking, base):
    """Against a slow twin: every row built from its own encoding, by the masking itself."""
    model = fakes.encoder()
    generator = torch.Generator().manual_seed(3)
    probes = []
    for question in questions(model):
        keep = torch.randint(0, 2, (4, question.n_units), generator=generator).float()
        if base is not None:
            question = question.erased(torch.randint(0, 2, (question.n_units,), generator=generator).float(), base)
        probes.append(Probe(question, keep, masking, purpose="test"))
    batches = [probe.batch() for probe in probes]
    asked = AskedRows(batches, group_of(batches[0], MaskToken()))
    layout = RowLayout(asked, np.arange(len(asked.owner)), model)
    rows = layout.rows(2, len(layout) - 3)
    assert rows.width == rows.ids.shape[1]
    for place, encoding in enumerate(rows.encodings):
        number, length = int(layout.questions[2 + place]), int(layout.lengths[2 + place])
        alone = _alone(probes[number], int(layout.order[2 + place]) % 4, asked.erased_by, model)
        assert encoding is probes[number].question.encoding
        assert int(rows.lengths[place]) == length == int(alone.lengths[0])
        assert torch.equal(rows.ids[place, :length], alone.ids[0, :length])
        assert torch.equal(rows.units[place, :length], alone.units[0, :length])
        assert not bool(rows.real[place, length:].any())
        assert torch.equal(rows.vectors(model)[place, :length], alone.vectors(model)[0, :length])


def _alone(probe, row, erased_by, model):
    question, encoding = probe.question, probe.question.encoding
    zero = torch.zeros(1, dtype=torch.int64)
    rows = Rows(
        encodings=[encoding], ids=encoding.ids[None], units=encoding.units[None],
        lengths=zero + len(encoding.ids), target=zero, against=zero - 1, keys=zero,
    )  # fmt: skip
    keep = probe.keep[row : row + 1]
    if erased_by is not None:
        rows = erased_by.erase(rows, spread(question.left[None], rows.units), model)
    else:
        keep = keep * question.left
    if probe.masking.stochastic:
        key = draws.key(question.seed, encoding.example.id, probe.purpose, catalog.spec(probe.masking, full=True))
        rows = replace(rows, keys=draws.row_keys(key, zero + row))
    return probe.masking.erase(rows, spread(keep, rows.units), model)


def test_padding_that_is_masked_here_reads_as_padding_that_transformers_masks(monkeypatch):
    model = fakes.encoder()
    plain = [answer.logits for answer in Prober(model).run(looking(one, keep_all(one)) for one in questions(model))]
    seen = []
    original = _reading._attention_mask
    monkeypatch.setattr(type(model), "masks_padding", True)
    monkeypatch.setattr(_reading, "_attention_mask", lambda *given: seen.append(original(*given)) or seen[-1])
    with model.at_rest(), _changes.swapped(model._fused, reads=lambda *_: None):
        own = [answer.logits for answer in Prober(model).run(looking(one, keep_all(one)) for one in questions(model))]
    assert any(mask is not None and mask.dim() == 4 for mask in seen)
    for one, other in itertools.zip_longest(plain, own):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
