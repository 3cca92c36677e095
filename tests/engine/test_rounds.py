"""Rows are built and answered a group at a time, in turns where a GPU works meanwhile: none of it changes a number."""

import itertools

import pytest
import torch

import fakes
import troth
from troth.core.types import Example, Question, spread
from troth.engine.groups import Group
from troth.engine.jobs import Job
from troth.engine.looks import Look, keep_all, keep_without_each
from troth.engine.prober import Prober
from troth.engine.rows import Sheet
from troth.maskings.delete import Delete
from troth.maskings.mask_token import MaskToken
from troth.maskings.soft import Soft
from troth.maskings.zero import Zero
from troth.models import _reading
from troth.verbs.explain import explain_each

TEXTS = ["a good film", "the soup was cold", "awful", "my new phone is fast and a joy to use", "is the film good ?"]


def questions(model, texts=TEXTS):
    encodings = model.encode([Example(str(number), text) for number, text in enumerate(texts)])
    return [Question(encoding, target=1) for encoding in encodings]


def looking(question, keep, masking=None, **options):
    return (yield Look(question, keep, masking, **options))


# --- turns


@pytest.mark.parametrize("explainer", ["leave_one_out", "beam_search(width=2)", "integrated_gradients(steps=3)"])
def test_taking_turns_changes_no_number_and_no_order(explainer):
    def explained(shifts, window):
        prober = Prober(fakes.encoder(), window=window)
        prober.shifts = shifts
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
    original = Prober._compute
    monkeypatch.setattr(Prober, "_compute", lambda self, group: events.append("model") or original(self, group))

    def stream():
        for question in questions(fakes.encoder(), TEXTS[:4]):
            events.append("text")
            yield looking(question, keep_all(question))

    prober = Prober(fakes.encoder(), window=4)
    prober.shifts = 2
    list(prober.run(stream()))
    assert events == ["text", "text", "model", "text", "text", "model"]


# --- what is remembered


def test_only_whole_inputs_are_known_after_forgetting():
    (question,) = questions(fakes.encoder(), ["a good film"])
    prober = Prober(fakes.encoder())
    for _ in range(2):
        prober.ask(looking(question, keep_all(question)))
        prober.ask(looking(question, keep_without_each(question)))
        assert prober.cost.forward == 4
    prober.forget_erased()
    whole = prober.ask(looking(question, keep_all(question)))
    assert prober.cost.forward == 4
    erased = prober.ask(looking(question, torch.cat([keep_without_each(question), keep_all(question)])))
    assert prober.cost.forward == 7
    assert torch.equal(erased.logits[-1], whole.logits[0])


def test_rows_of_two_rounds_and_of_this_one_come_back_in_their_places():
    asked = questions(fakes.encoder())
    alone = [
        torch.cat([Prober(fakes.encoder()).ask(looking(one, row[None])).logits for row in keep_without_each(one)])
        for one in asked
    ]
    prober = Prober(fakes.encoder())
    list(prober.run(looking(one, keep_without_each(one)[:1]) for one in asked))
    list(prober.run(looking(one, keep_without_each(one)[1:2]) for one in asked))
    twice = [keep_without_each(one).repeat(2, 1) for one in asked]
    for _ in range(2):
        found = prober.run(looking(one, keep) for one, keep in zip(asked, twice, strict=True))
        for answer, logits in zip(found, alone, strict=True):
            torch.testing.assert_close(answer.logits, logits.repeat(2, 1), rtol=1e-5, atol=1e-5)
    assert prober.cost.forward == sum(one.n_units for one in asked)


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
    group = Group(0)
    for question in questions(model):
        keep = torch.randint(0, 2, (4, question.n_units), generator=generator).float()
        if base is not None:
            question = question.erased(torch.randint(0, 2, (question.n_units,), generator=generator).float(), base)
        group.add(Job(Look(question, keep, masking, purpose="test"), MaskToken()), None)
    table = group.table()
    order = table[:, 2].argsort(kind="stable")
    sheet = Sheet(group.jobs, table[order], model)
    rows = sheet.rows(2, len(table) - 3)
    assert rows.width == rows.ids.shape[1]
    for place, encoding in enumerate(rows.encodings):
        job, row, length = table[order][2 + place].tolist()
        alone = _alone(group.jobs[job], row, model)
        assert encoding is group.jobs[job].encoding
        assert int(rows.lengths[place]) == length == int(alone.lengths[0])
        assert torch.equal(rows.ids[place, :length], alone.ids[0, :length])
        assert torch.equal(rows.units[place, :length], alone.units[0, :length])
        assert not bool(rows.real[place, length:].any())
        assert torch.equal(rows.vectors(model)[place, :length], alone.vectors(model)[0, :length])


def _alone(job, row, model):
    from troth.core import draws
    from troth.core.types import Rows, replace

    encoding = job.encoding
    zero = torch.zeros(1, dtype=torch.int64)
    rows = Rows(
        encodings=[encoding], ids=encoding.ids[None], units=encoding.units[None],
        lengths=zero + len(encoding.ids), target=zero, against=zero - 1, keys=zero,
    )  # fmt: skip
    if job.erased_by is not None:
        rows = job.erased_by.erase(rows, spread(job.question.left[None], rows.units), model)
    if job.masking.stochastic:
        rows = replace(rows, keys=draws.row_keys(job.key, zero + row))
    keep = torch.from_numpy(job.keep[row : row + 1]).float()
    return job.masking.erase(rows, spread(keep, rows.units), model)


def test_padding_that_is_masked_here_reads_as_padding_that_transformers_masks(monkeypatch):
    model = fakes.encoder()
    plain = [answer.logits for answer in Prober(model).run(looking(one, keep_all(one)) for one in questions(model))]
    seen = []
    original = _reading._attention_mask
    monkeypatch.setattr(type(model), "masks_padding", True)
    monkeypatch.setattr(_reading, "_attention_mask", lambda *given: seen.append(original(*given)) or seen[-1])
    with model.at_rest(), model._fused.closed():
        own = [answer.logits for answer in Prober(model).run(looking(one, keep_all(one)) for one in questions(model))]
    assert any(mask is not None and mask.dim() == 4 for mask in seen)
    for one, other in itertools.zip_longest(plain, own):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
