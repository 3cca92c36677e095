"""Trainings side by side take the steps that each would take alone."""

import pytest
import torch

from fakes import CORPUS, attribution_model, encoder, prompted
from troth.attribution_model import fitting
from troth.attribution_model.fitting import Course, is_better, most_together, train, train_together
from troth.attribution_model.losses import DualMask
from troth.attribution_model.maps import whole_maps
from troth.attribution_model.start import FitSettings, choose
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.explainers.attributive_masking import AttributiveMasking
from troth.verbs import fit as attributive_masking
from troth.verbs.explain import explain
from troth.verbs.fit import fit, judge, judge_copies
from troth.verbs.measure import measure

LOSSES = [DualMask(0.9, 0.1, 0.5), DualMask(0.0, 0.7, 1.0), DualMask(1.0, 0.3, 0.0)]
EXAMPLES = [Example(f"{turn}-{n}", text, label=n % 2) for turn in range(4) for n, text in enumerate(CORPUS)]


def without_dropout(variant="paper", classes=2):
    own = attribution_model(classes=classes)
    own.variant = variant
    for module in own.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return own


@pytest.mark.parametrize(("variant", "rows"), [("paper", None), ("released", 3)])
def test_side_by_side_is_one_by_one(variant, rows):
    model = encoder("bert", classes=2)
    settings = FitSettings(examples=16, validation=6, batch_size=8, rows_per_pass=rows, learning_rate=1e-3)
    training, validation = choose(model, EXAMPLES, settings)
    metric = "comprehensiveness"

    def watch(own):
        return judge(model, own, validation, [metric])

    def watch_copies(weights):
        return judge_copies(model, own, weights, validation, [[metric]] * len(LOSSES))

    own = without_dropout(variant)
    copies = [Course(loss, is_better(metric)) for loss in LOSSES]
    train_together(model, own, training, copies, settings, epochs=3, watch=watch_copies)
    for loss, copy in zip(LOSSES, copies, strict=True):
        alone = without_dropout(variant)
        course = train(model, alone, training, loss, settings, epochs=3, watch=watch, better=is_better(metric))
        assert [row["step"] for row in copy.history] == [row["step"] for row in course.history]
        assert copy.best_step == course.best_step
        for expected, found in zip(course.history, copy.history, strict=True):
            assert found[metric] == pytest.approx(expected[metric], abs=1e-4)
        for name, weight in alone.trained_weights().items():
            # Adam divides by small gradients, so that rounding grows.
            torch.testing.assert_close(copy.weights[name], weight.detach(), rtol=1e-3, atol=5e-4)
    assert not torch.allclose(copies[0].weights["score.weight"], copies[1].weights["score.weight"], atol=1e-4)


def test_side_by_side_explains_a_prompted_model():
    """Whose rows share a prompt, however often they are repeated."""
    model = prompted("llama")
    settings = FitSettings(examples=8, validation=4, batch_size=4, learning_rate=1e-3)
    training, _ = choose(model, EXAMPLES, settings)
    own = without_dropout(classes=len(model.labels))
    own.labels = tuple(model.labels)
    copies = [Course(loss) for loss in LOSSES[:2]]
    train_together(model, own, training, copies, settings, epochs=1)
    for loss, copy in zip(LOSSES, copies, strict=False):
        alone = without_dropout(classes=len(model.labels))
        train(model, alone, training, loss, settings, epochs=1)
        for name, weight in alone.trained_weights().items():
            torch.testing.assert_close(copy.weights[name], weight.detach(), rtol=1e-3, atol=5e-4)
        assert not torch.equal(copy.weights["score.weight"], without_dropout().score.weight)


def test_copies_are_judged_as_each_alone():
    """Each by its own metrics: the maps are those that the explainer gives, whose own pass of F is not needed."""
    model, own = encoder("bert", classes=2), attribution_model(classes=2)
    _, validation = choose(model, EXAMPLES, FitSettings(examples=12, validation=6))
    with torch.no_grad():
        others = {
            name: torch.stack([weight, 1.5 * weight, torch.randn_like(weight)])
            for name, weight in own.trained_weights().items()
        }
    wanted = [["comprehensiveness", "log_odds"], ["log_odds"], ["aopc_sufficiency", "comprehensiveness"]]
    found = judge_copies(model, own, others, validation, wanted)
    assert [sorted(scores) for scores in found] == [sorted(metrics) for metrics in wanted]
    for copy, scores in enumerate(found):
        own.load_state_dict({name: weight[copy] for name, weight in others.items()}, strict=False)
        assert judge(model, own, validation, wanted[copy]) == pytest.approx(scores, abs=1e-6)
        texts = [encoding.example for encoding in validation.encodings]
        maps = explain(model, texts, AttributiveMasking("", fitted=own), units="token", progress=False)
        for metric, mean in scores.items():
            values = [score.value for score in measure(model, maps, metric, progress=False)]
            assert mean == pytest.approx(sum(values) / len(values), abs=1e-6)
    assert len({round(scores.get("log_odds", 9), 6) for scores in found}) == 3


def test_a_fit_side_by_side_is_a_fit_one_by_one(tmp_path, monkeypatch):
    """The same trials, the same choice, the same history, where nothing is dropped out."""
    model = encoder("bert", classes=2)
    for module in model.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # the attribution model is a copy
    settings = FitSettings(
        examples=12, validation=6, epochs=2, trials=4, trial_examples=8, trial_epochs=1, batch_size=4, search="sobol",
        learning_rate=1e-3,
    )  # fmt: skip
    metrics = ("comprehensiveness", "sufficiency", "log_odds")
    given = {"backbone": "explained", "metrics": metrics, "settings": settings, "progress": False}
    alone = fit(model, EXAMPLES, tmp_path / "alone", **given)
    monkeypatch.setattr(attributive_masking, "most_together", lambda *_: 3)
    side_by_side = fit(model, EXAMPLES, tmp_path / "together", **given)
    for metric in metrics:
        one, many = alone.reports[metric], side_by_side.reports[metric]
        assert one["loss"] == many["loss"]
        assert one["best_step"] == many["best_step"]
        assert many["scores"] == pytest.approx(one["scores"], abs=1e-4)
        for first, second in zip(one["history"], many["history"], strict=True):
            assert second == pytest.approx(first, abs=1e-4)
        for first, second in zip(one["search"]["trials"], many["search"]["trials"], strict=True):
            assert first["lambdas"] == second["lambdas"]
            assert second["scores"] == pytest.approx(first["scores"], abs=1e-4)


def test_a_step_that_does_not_fit_is_taken_in_parts(monkeypatch):
    """Memory runs out above three rows; the steps are those of rows that fit."""
    model = encoder("bert", classes=2)
    settings = FitSettings(examples=16, validation=6, batch_size=8, learning_rate=1e-3)
    training, _ = choose(model, EXAMPLES, settings)
    whole = without_dropout()
    train(model, whole, training, LOSSES[0], settings, epochs=2)
    sizes, terms = [], DualMask.terms

    def few(self, model, rows, *others):
        sizes.append(len(rows))
        if len(rows) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return terms(self, model, rows, *others)

    monkeypatch.setattr(DualMask, "terms", few)
    parted = without_dropout()
    train(model, parted, training, LOSSES[0], settings, epochs=2)
    assert sizes[:3] == [8, 4, 2]
    assert set(sizes[3:]) == {2}
    for name, weight in whole.trained_weights().items():
        torch.testing.assert_close(parted.trained_weights()[name], weight, rtol=1e-3, atol=5e-4)

    monkeypatch.setattr(DualMask, "terms", lambda *_: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(TrothError, match="not even for one text"):
        train(model, parted, training, LOSSES[0], settings, epochs=1)


def test_maps_that_do_not_fit_are_made_in_parts():
    model, own = encoder("bert", classes=2), attribution_model(classes=2)
    _, some = choose(model, EXAMPLES, FitSettings(examples=12, validation=6))
    own.eval()

    def few(page, said):
        if len(said) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return own.scores(page, said)[None]

    parted = whole_maps(own, some.encodings, some.probabilities, few, 5)
    at_once = whole_maps(own, some.encodings, some.probabilities, lambda *page: own.scores(*page)[None], 50)
    for one, other in zip(parted, at_once, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_every_copy_has_its_own_dropout():
    model, own = encoder("bert", classes=2), attribution_model(classes=2)
    settings = FitSettings(examples=8, validation=2, batch_size=8, learning_rate=1e-2)
    training, _ = choose(model, EXAMPLES, settings)
    for module in own.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    copies = [Course(DualMask()), Course(DualMask())]
    train_together(model, own, training, copies, settings, epochs=2)
    assert not torch.equal(copies[0].weights["hidden.weight"], copies[1].weights["hidden.weight"])


def test_a_fit_side_by_side_is_resumed_alike(tmp_path, monkeypatch):
    """As on a GPU: all trials at once, and all metrics, of which one is lost after the first run."""
    for place in (fitting, attributive_masking):
        monkeypatch.setattr(place, "most_together", lambda *_: 3)
    model = encoder("bert", classes=2)
    settings = FitSettings(
        examples=12, validation=4, epochs=2, trials=4, trial_examples=8, trial_epochs=1, search="sobol",
        learning_rate=1e-3,
    )  # fmt: skip
    metrics = ("comprehensiveness", "sufficiency")
    first = fit(model, EXAMPLES, tmp_path / "g", backbone="explained", metrics=metrics, settings=settings)
    assert len(first.reports["sufficiency"]["search"]["trials"]) == 4
    (tmp_path / "g" / "sufficiency" / "attributive.json").unlink()
    again = fit(model, EXAMPLES, tmp_path / "g", backbone="explained", metrics=metrics, settings=settings)
    for name in ("scores", "search", "history", "best_step"):
        assert again.reports["sufficiency"][name] == first.reports["sufficiency"][name]


def test_a_cpu_trains_one_by_one():
    model = encoder("bert", classes=2)
    training, _ = choose(model, EXAMPLES, FitSettings(examples=8, validation=2))
    assert most_together(model, attribution_model(classes=2), training, FitSettings()) == 1
