import pytest
import torch

from fakes import FAMILIES, encoder, hf_model, tokenizer_for
from troth.core.errors import TrothError
from troth.models.encoder import Encoder
from troth.training import bases, quality
from troth.training.corpus import Corpus
from troth.training.fit import fit, fit_stacked
from troth.training.loop import TrainingCopy
from troth.training.settings import settings
from troth.training.stacks import why_not

BILSTM = "bilstm_attention(embedding=8, hidden=6)"
RELEASED = "bilstm_attention(embedding=8, hidden=6, variant=released)"
SCRATCH = "scratch(layers=1, hidden=8, heads=2, positions=32, dropout=0.0)"
OPTIONS = {
    "epochs": 2,
    "batch_size": 8,
    "learning_rate": 5e-3,
    "clip": 0.7,
    "warmup": 0.1,
    "metric": "accuracy",
    "precision": "no",
}


def corpus(model, examples, keeps=None):
    encodings = model.encode(examples, units="token", segments="both")
    found = Corpus(encodings, [one.label for one in examples])
    return found if keeps is None else found.erased(keeps)


def close(one, other, within=1e-5):
    for (name, a), b in zip(one.model.named_parameters(), other.model.parameters(), strict=True):
        assert (a - b).abs().max() < within, name


@pytest.mark.parametrize(
    ("base", "pair", "options"),
    [
        (BILSTM, False, {"optimizer": "adam", "amsgrad": True, "no_decay": ("attention",)}),
        (BILSTM, True, {}),
        (RELEASED, True, {"class_weights": "balanced"}),
        (SCRATCH, False, {"head_learning_rate": 1e-2}),
    ],
)
def test_seeds_side_by_side_are_the_seeds_one_by_one(films, base, pair, options):
    examples, held = films(45, pair=pair), films(12, start=60, pair=pair)
    start = bases.build(base)
    seeds = (0, 1, 5)
    apart, together = ([start.build(examples, ("bad", "good"), seed, None) for seed in seeds] for _ in range(2))
    alone = [
        fit(model, "masked", corpus(model, examples), corpus(model, held), settings(**OPTIONS, **options, seed=seed))
        for model, seed in zip(apart, seeds, strict=True)
    ]
    training, validation = corpus(together[0], examples), corpus(together[0], held)
    copies = [TrainingCopy(model, training, validation, seed) for model, seed in zip(together, seeds, strict=True)]
    stacked = fit_stacked(copies, "masked", settings(**OPTIONS, **options), device="cpu")
    for one, other, a, b in zip(apart, together, alone, stacked, strict=True):
        close(one, other)
        assert a.best_epoch == b.best_epoch
        assert a.scores["validation"]["masked"]["accuracy"] == b.scores["validation"]["masked"]["accuracy"]
        assert a.history[1]["loss"] == pytest.approx(b.history[1]["loss"], abs=1e-5)
    # They did not all learn the same.
    assert (
        together[0].model.get_input_embeddings().weight - together[1].model.get_input_embeddings().weight
    ).abs().max() > 1e-2


def test_epochs_that_can_decide_nothing_are_left_out(films, monkeypatch):
    """After a perfect epoch of each copy the rest would change no chosen weight, as a training to the end shows."""
    examples, held = films(45), films(12, start=60)
    start = bases.build(BILSTM)
    alone, shorter, *together = (start.build(examples, ("bad", "good"), seed, None) for seed in (0, 0, 0, 1))
    chosen = settings(**{**OPTIONS, "epochs": 12, "learning_rate": 3e-2})
    with monkeypatch.context() as patch:
        patch.setattr(quality, "is_settled", lambda *_: False)
        whole = fit(alone, "plain", corpus(alone, examples), corpus(alone, held), chosen)
    stopped = fit(shorter, "plain", corpus(shorter, examples), corpus(shorter, held), chosen)
    assert stopped.best_epoch == len(stopped.history) == whole.best_epoch
    assert stopped.scores == whole.scores
    close(alone, shorter, 1e-12)
    training, validation = corpus(together[0], examples), corpus(together[0], held)
    copies = [TrainingCopy(model, training, validation, seed) for seed, model in enumerate(together)]
    stacked = fit_stacked(copies, "plain", chosen, device="cpu")
    assert max(one.best_epoch for one in stacked) == len(stacked[0].history) < 12 == len(whole.history)
    assert whole.best_epoch == stacked[0].best_epoch
    close(alone, together[0], 1e-3)
    to_the_end = settings(**{**OPTIONS, "epochs": 12, "learning_rate": 3e-2, "best_by": "last"})
    again = start.build(examples, ("bad", "good"), 0, None)
    assert len(fit_stacked([TrainingCopy(again, training, validation, 0)], "plain", to_the_end)[0].history) == 12


def test_erased_copies_of_the_data_side_by_side(films):
    examples, held = films(40), films(10, start=60)
    start = bases.build(BILSTM)
    words = {}
    for share in (0, 1):
        model, twin = (start.build(examples, ("bad", "good"), 0, None) for _ in range(2))
        # In double precision: Adam makes much of the rounding of gradients that are nearly 0.
        model.model.double(), twin.model.double()
        units = [one.n_units for one in corpus(model, examples).encodings]
        keeps = [torch.ones(n) for n in units] if not share else [torch.zeros(n) for n in units]
        gone = [torch.full((one.n_units,), float(not share)) for one in corpus(model, held).encodings]
        words[share] = (model, twin, keeps, gone)
    chosen = settings(**OPTIONS | {"epochs": 4, "learning_rate": 2e-2})
    copies = [
        TrainingCopy(model, corpus(model, examples, keeps), corpus(model, held, gone), seed=0)
        for model, _, keeps, gone in words.values()
    ]
    whole, erased = fit_stacked(copies, "plain", chosen, device="cpu")
    assert whole.scores["validation"]["unmasked"]["accuracy"] == 1.0
    assert erased.scores["validation"]["unmasked"]["accuracy"] <= 0.6  # nothing is left to tell the classes by
    for model, twin, keeps, gone in words.values():
        fit(twin, "plain", corpus(twin, examples, keeps), corpus(twin, held, gone), chosen)
        close(twin, model, within=1e-8)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra"])
def test_the_families_that_can_be_stacked_answer_as_they_do_alone(films, family):
    from troth.training.stacks import build

    models = [Encoder(hf_model(family, seed=seed), tokenizer_for(family), name=family) for seed in range(2)]
    assert why_not(models[0]) is None
    data = corpus(models[0], films(6))
    rows = data.rows(torch.tensor([0, 4, 2, 3]), torch.zeros(4, dtype=torch.int64), models[0])
    stack = build(models)
    logits = stack.logits(rows, training=False)
    assert len(set(rows.lengths.tolist())) > 1  # some are padded
    for number, model in enumerate(models):
        part = data.rows(torch.tensor([[0, 4], [2, 3]][number]), torch.zeros(2, dtype=torch.int64), model)
        with torch.no_grad():
            torch.testing.assert_close(
                logits[2 * number : 2 * number + 2].detach(), model.forward(part).logits, atol=1e-5, rtol=0
            )


def test_what_cannot_be_stacked_says_so(films):
    for family in set(FAMILIES) - {"bert", "roberta", "distilbert", "electra"}:
        assert "cannot be stacked, only bilstm_attention, bert" in why_not(encoder(family))
    model = encoder("albert")
    data = corpus(model, films(6))
    with pytest.raises(TrothError, match=r"tiny albert \(albert\) cannot be stacked"):
        fit_stacked([TrainingCopy(model, data, data, 0)], "plain", settings(), device="cpu")
    start = bases.build(BILSTM)
    one = start.build(films(10), ("bad", "good"), 0, None)
    with pytest.raises(TrothError, match=r"the same number of training examples, not \[6, 7\]"):
        fit_stacked(
            [TrainingCopy(one, corpus(one, films(n)), corpus(one, films(4)), 0) for n in (6, 7)],
            "plain",
            settings(),
            device="cpu",
        )
    data = corpus(one, films(10))
    with pytest.raises(TrothError, match="can only replace or delete tokens"):
        fit_stacked([TrainingCopy(one, data, data, 0)], "masked(masking=zero)", settings(), device="cpu")
    other = start.build(films(12), ("bad", "good"), 0, None)
    with pytest.raises(TrothError, match="only models of one architecture and vocabulary"):
        fit_stacked([TrainingCopy(model, data, data, 0) for model in (one, other)], "plain", settings(), device="cpu")


def test_a_copy_whose_loss_is_undefined_is_named(films):
    start = bases.build(BILSTM)
    models = [start.build(films(10), ("bad", "good"), seed, None) for seed in (4, 9)]
    with torch.no_grad():
        models[1].model.decoder.output.bias[0] = float("nan")
    copies = [
        TrainingCopy(model, corpus(model, films(10)), corpus(model, films(4)), seed)
        for model, seed in zip(models, (4, 9), strict=True)
    ]
    with pytest.raises(TrothError, match=r"the loss of copy 1 \(seed 9\) became nan at step 1"):
        fit_stacked(copies, "plain", settings(), device="cpu")
