import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

import fakes
import troth
from fakes import encoder, hf_model, masked_lm, tokenizer_for
from troth.core import draws, outputs
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.data import Data
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.maskings.infill import Infill, _drawn
from troth.maskings.mask_token import MaskToken
from troth.maskings.zero import Zero
from troth.models import _masked_lm
from troth.models.black_box import BlackBox
from troth.store.store import Store
from troth.sweep.context import Context
from troth.sweep.crossing import cross
from troth.sweep.run import run
from troth.validity.masf import HIDDEN_STATES

MODEL = encoder("bert")
SPECIAL = MODEL.tokenizer.all_special_ids
TEXT = "the soup was unkind"  # the last word is six tokens
PAIR = "is the film good ?"


def encoded(text=TEXT, pair=PAIR, example_id="0"):
    (encoding,) = MODEL.encode([Example(example_id, text, pair)])
    return encoding


def looking(question, keep, masking, **options):
    return (yield Probe(question, torch.as_tensor(keep, dtype=torch.float32), masking, **options))


def ask(keep, masking, seed=0, prober=None, **options):
    question = Question(encoded(**options), target=1, seed=seed)
    return (prober or Prober(MODEL)).ask(looking(question, keep, masking))


@pytest.fixture
def seen(monkeypatch):
    """What the classifier reads: [(units, ids) of each row]"""
    texts, original = [], type(MODEL).forward

    def forward(self, rows, **options):
        texts.extend((rows.units[row], rows.ids[row]) for row in range(len(rows)))
        return original(self, rows, **options)

    monkeypatch.setattr(type(MODEL), "forward", forward)
    return texts


def test_what_is_kept_and_special_tokens_stay_and_no_special_token_is_written(seen):
    encoding = encoded()
    for seed in range(10):
        ask([[1, 0, 1, 0]], Infill(masked_lm(), draws=4), seed)
    gone = (encoding.units == 1) | (encoding.units == 3)
    assert len(seen) == 40
    assert gone.sum() == 7
    written = torch.stack([ids[gone] for _, ids in seen])
    assert all(torch.equal(ids[~gone], encoding.ids[~gone]) for _, ids in seen)
    assert not np.isin(written.numpy(), SPECIAL).any()
    assert len(written.unique(dim=0)) == 40  # each draw and each seed writes another text


def test_by_hand_a_model_that_writes_one_word_only():
    masking = Infill(masked_lm(always="good"), draws=3)
    ids = encoded("the soup was cold", None).ids.clone()
    ids[[2, 4]] = MODEL.tokenizer.convert_tokens_to_ids("good")
    with torch.no_grad():
        expected = MODEL.model(ids[None]).logits
    found = ask([[1, 0, 1, 0]], masking, text="the soup was cold", pair=None).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)  # equal draws give their own logits


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_against_a_slow_twin(rounds):
    """One text, one draw, one token at a time, by plain calls of both models."""
    network, folder = AutoModelForMaskedLM.from_pretrained(masked_lm()).eval(), masked_lm()
    encoding, mask = encoded(), MODEL.tokenizer.mask_token_id
    inputs = {"token_type_ids": encoding.token_types[None]}
    keep = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 1, 1]])
    expected = []
    for row in keep:
        gone = [place for place, unit in enumerate(encoding.units.tolist()) if unit >= 0 and not row[unit]]
        told = []
        for draw in range(3):
            key = draws.row_keys(draws.key(5, "0", "infill"), torch.tensor([draw]))
            ids = encoding.ids.clone()
            ids[gone] = mask
            for turn in range(rounds):
                with torch.no_grad():
                    logits = network(ids[None], **inputs).logits[0]
                before = ids.clone()
                for place in gone[turn::rounds]:
                    uniform = draws.uniforms(draws.row_keys(key, torch.tensor([place])), logits.shape[1])[0].double()
                    scores = logits[place].double() - torch.log(-torch.log(uniform))
                    scores[SPECIAL] = -torch.inf
                    before[place] = scores.argmax()
                ids = before
            with torch.no_grad():
                told.append(MODEL.model(ids[None], **inputs).logits[0].softmax(-1))
        expected.append(torch.stack(told).mean(0))
    found = ask(keep, Infill(folder, draws=3, rounds=rounds), seed=5)
    torch.testing.assert_close(found.probabilities, torch.stack(expected), rtol=1e-4, atol=1e-5)


def test_tokens_are_drawn_with_their_probability():
    logits = torch.tensor([2.0, 0.5, -torch.inf, 0.0, -1.0])
    keys = draws.row_keys(3, torch.arange(40_000))
    counts = torch.bincount(_drawn(logits.expand(40_000, -1), keys), minlength=5) / 40_000
    assert counts[2] == 0
    torch.testing.assert_close(counts, logits.softmax(-1), atol=0.01, rtol=0)


def test_alone_and_in_company_and_at_any_batch_size_it_is_the_same():
    texts = ["a good film with a great cast", "dull", "the soup was cold , the service awful", TEXT]
    encodings = MODEL.encode([Example(str(index), text) for index, text in enumerate(texts)])
    masking = Infill(masked_lm(), draws=3, rounds=2)

    def look(encoding):
        keep = torch.stack([torch.arange(encoding.n_units) % 2, torch.zeros(encoding.n_units)])
        return looking(Question(encoding, 0), keep, masking)

    for encoding, answer in zip(encodings, Prober(MODEL).run(map(look, encodings)), strict=True):
        alone = Prober(MODEL, memory=1).ask(look(encoding))
        torch.testing.assert_close(alone.logits, answer.logits, atol=1e-5, rtol=1e-5)


def test_rows_that_keep_the_same_are_the_same_and_are_read_once():
    masking, prober = Infill(masked_lm(), draws=4), Prober(MODEL)
    encoding = encoded()

    def twice(seed):
        question = Question(encoding, 0, seed=seed)
        one, other = yield [
            Probe(question, torch.tensor([[1.0, 0, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]]), masking),
            Probe(question, torch.tensor([[0.0, 0, 1, 1], [1, 0, 1, 1]]), masking, purpose="another"),
        ]
        return one.logits, other.logits

    first, again = prober.ask(twice(0))
    assert torch.equal(first[0], first[1])
    assert torch.equal(first[0], again[1])
    # The whole text, and four draws of each of two rows that are not the same.
    assert prober.cost.forward == 1 + 4 * 2
    # One and two tokens are erased, in as many rounds.
    assert prober.cost.side_model_rows == 4 * 1 + 4 * 2
    seeded = prober.ask(twice(1))[0]
    assert not torch.allclose(first[0], seeded[0])
    assert torch.equal(first[2], seeded[2])


def test_more_draws_contain_the_first_and_their_mean_probability_is_what_is_told():
    keep, folder = [[1, 0, 1, 0]], masked_lm()
    one, two, four = (ask(keep, Infill(folder, draws=count)).probabilities.double() for count in (1, 2, 4))
    second = 2 * two - one
    assert (second > 0).all()
    assert not torch.allclose(one, second, atol=1e-4)
    assert not torch.allclose(two, four, atol=1e-5)
    spread = [ask(keep, Infill(folder, draws=count)).probability.item() for count in (200, 400)]
    assert spread[0] == pytest.approx(spread[1], abs=0.03)


def test_logits_of_averaged_draws():
    logits, counts = torch.tensor([[0.0, 2.0], [1.0, -1.0], [4.0, 3.0], [5.0, 5.0]]), torch.tensor([3, 1])
    mean = logits[:3].softmax(-1).mean(0)
    found = outputs.averaged(logits, counts, "classes")
    torch.testing.assert_close(found[0].softmax(-1), mean)
    assert found[0].logsumexp(-1).item() == pytest.approx(logits[:3].logsumexp(-1).mean().item())
    assert torch.equal(found[1], logits[3])
    labels = outputs.averaged(logits, counts, "labels")
    torch.testing.assert_close(labels[0].sigmoid(), logits[:3].sigmoid().mean(0))
    torch.testing.assert_close(outputs.averaged(logits, counts, "values")[0], logits[:3].mean(0))
    certain = torch.tensor([[-900.0, 900.0], [-900.0, 900.0]])
    assert torch.isfinite(outputs.averaged(certain, torch.tensor([2]), "classes")).all()
    assert outputs.averaged(certain * torch.nan, torch.tensor([2]), "classes").isnan().all()


def test_gradients_are_averaged_over_the_draws_too():
    (whole,) = troth.explain(MODEL, [TEXT], "gradient", masking=Infill(masked_lm()))
    (plain,) = troth.explain(MODEL, [TEXT], "gradient")
    np.testing.assert_allclose(whole.scores, plain.scores)  # nothing is erased
    question, method = Question(encoded(), 1), troth.core.catalog.build("explainers", "input_x_gradient")
    scores = {}
    for count in (1, 2):
        erased = question.erased(torch.tensor([1.0, 0, 1, 1]), Infill(masked_lm(), draws=count))
        (attribution,) = Prober(MODEL).ask(method.ask([erased]))
        scores[count] = attribution.scores
    assert np.isfinite(scores[2]).all()
    assert not np.allclose(scores[1], scores[2])


def test_hidden_states_are_those_of_one_text():
    prober, question = Prober(MODEL), Question(encoded(), 0)
    one = prober.ask(looking(question, [[1, 0, 0, 1]], Infill(masked_lm(), draws=4), readout=HIDDEN_STATES))
    assert prober.cost.forward == 1
    other = Prober(MODEL).ask(looking(question, [[1, 0, 0, 1]], Infill(masked_lm(), draws=1), readout=HIDDEN_STATES))
    assert all(torch.equal(one.rows[name], other.rows[name]) for name in one.rows)


def test_a_base_infilled_before_is_the_same_text_that_infill_itself_writes():
    masking, question = Infill(masked_lm(), draws=3), Question(encoded(), 0)
    erased = question.erased(torch.tensor([1.0, 0, 1, 1]), masking)
    before = Prober(MODEL).ask(looking(erased, [[1, 1, 1, 1]], MaskToken())).logits
    at_once = Prober(MODEL).ask(looking(question, [[1, 0, 1, 1]], masking)).logits
    torch.testing.assert_close(before, at_once, rtol=1e-4, atol=1e-5)


def test_the_language_model_does_not_read_what_was_erased_in_the_vectors(seen):
    written = []
    for text in ("the soup was cold", "the film was cold"):
        question = Question(encoded(text, None), 0).erased(torch.tensor([1.0, 0, 1, 1]), Zero())
        seen.clear()
        Prober(MODEL).ask(looking(question, [[1, 1, 0, 0]], Infill(masked_lm(), draws=4)))
        written.append(torch.stack([ids[3:5] for _, ids in seen]))
    assert torch.equal(*written)


def test_a_proof_and_metrics_can_use_it():
    spec = f"infill(model={masked_lm()!r}, draws=2)"
    found = troth.explain(MODEL, [TEXT, PAIR], "leave_one_out", masking=spec)
    scores = troth.measure(MODEL, found, f'aopc_comprehensiveness(masking="{spec}")')
    assert all(np.isfinite(score.value) for score in scores)
    assert all(each.proof is not None for each in troth.prove(MODEL, found, masking=spec))


def test_by_default_the_model_that_the_classifier_was_fine_tuned_from(tmp_path, monkeypatch):
    tuned = tmp_path / "tuned"
    hf_model().save_pretrained(tuned)
    tokenizer_for("bert").save_pretrained(tuned)
    (encoding,) = (model := troth.load_model(str(tuned))).encode([Example("0", TEXT)])
    look = looking(Question(encoding, 0), torch.zeros(1, 4), Infill())
    with pytest.raises(TrothError, match=r"no trained head .*use infill\(model=FOLDER\)"):
        Prober(model).ask(look)
    base = f"pretrained(path={masked_lm()!r})"
    (tuned / "train.json").write_text(json.dumps({"identity": {"base": base}}))
    monkeypatch.chdir(masked_lm())  # a folder that the user has named
    keep = torch.zeros(1, 4)
    usual = Prober(model).ask(looking(Question(encoding, 0), keep, Infill()))
    named = Prober(model).ask(looking(Question(encoding, 0), keep, Infill(masked_lm())))
    torch.testing.assert_close(usual.logits, named.logits)


def test_the_embedded_model_fills_in_words_that_fit():
    """Its file has the head of a masked language model, so infill works without naming one."""
    model = troth.load_model("embedded")
    lm = _masked_lm.masked_lm(None, model)
    texts = ("one of the best [MASK] of the year.", "it is a waste of [MASK].", "I have never [MASK] anything like it.")
    encoded = model.tokenizer(list(texts), return_tensors="pt", padding=True)
    ids, real = encoded["input_ids"], encoded["attention_mask"].bool()
    ((_, _, logits),) = lm.logits(ids, real, None, ids == model.tokenizer.mask_token_id)
    best = [model.tokenizer.convert_ids_to_tokens(row.topk(5).indices.tolist()) for row in logits]
    assert [word in words for word, words in zip(("films", "time", "seen"), best, strict=True)] == [True] * 3, best


def test_errors_a_user_can_fix(tmp_path):
    for option in ({"draws": 0}, {"rounds": -1}, {"draws": True}):
        with pytest.raises(TrothError, match="must be a whole number of 1 or more"):
            Infill(**option)
    with pytest.raises(TrothError, match="tiny bert, and none was found"):
        ask([[0, 0, 0, 0]], Infill())
    with pytest.raises(TrothError, match=r"another vocabulary than tiny bert; use a masked"):
        ask([[0, 0, 0, 0]], Infill(masked_lm("roberta")))
    with pytest.raises(TrothError, match=f"there is no model folder {tmp_path}/nowhere"):
        ask([[0, 0, 0, 0]], Infill(f"{tmp_path}/nowhere"))
    with pytest.raises(TrothError, match="erases whole units"):
        ask([[0.5, 0, 0, 0]], Infill(masked_lm()))
    box = BlackBox(fakes.planted(), name="rule")
    (encoding,) = box.encode([Example("a", "a good film")])
    with pytest.raises(TrothError, match="rule has no tokens"):
        Prober(box).ask(looking(Question(encoding, 0), torch.zeros(1, 3), Infill()))


def test_the_weights_of_the_language_model_are_part_of_a_cells_identity(tmp_path):
    """A bench with other weights in the same folder computes anew, and a plan of the old ones is refused."""
    folder = tmp_path / "language_model"
    shutil.copytree(masked_lm(), folder)
    metric = f"comprehensiveness(masking=\"infill(model='{folder}', draws=1)\")"
    texts = Data("texts", [Example("0", TEXT, label=0)], MODEL.labels)

    def planned():
        _masked_lm.load.cache_clear()  # as in a new process
        context = Context()
        plan = cross(context, [MODEL], [texts], ["random"], ["comprehensiveness", metric])
        return plan, context, {cell.specs["metric"]: cell for cell in plan.of("metric")}

    plan, _, before = planned()
    _, _, again = planned()
    other = masked_lm(seed=1)
    for file in folder.iterdir():
        shutil.copy(f"{other}/{file.name}", file)
    _, context, after = planned()
    spec = next(name for name in before if "infill" in name)
    assert before[spec].name == again[spec].name != after[spec].name
    assert before["comprehensiveness"].name == after["comprehensiveness"].name
    outcome = run(plan, Store(tmp_path / "run"), workers=1, context=context)
    assert [failure.error for failure in outcome.failed if "has changed since this was planned" in failure.error]
