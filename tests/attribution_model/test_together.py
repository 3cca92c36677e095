"""Trainings side by side take the steps that each would take alone."""

import pytest
import torch

from fakes import CORPUS, attribution_model, encoder
from troth.attribution_model import together
from troth.attribution_model.fitting import Settings, choose, is_better, train
from troth.attribution_model.losses import DualMask
from troth.attribution_model.together import Copy, most_together, train_together
from troth.core.types import Example
from troth.verbs import _fit_job
from troth.verbs.fit import fit, judge

LOSSES = [DualMask(0.9, 0.1, 0.5), DualMask(0.0, 0.7, 1.0), DualMask(1.0, 0.3, 0.0)]
EXAMPLES = [Example(f"{turn}-{n}", text, label=n % 2) for turn in range(4) for n, text in enumerate(CORPUS)]


def without_dropout(variant="paper"):
    own = attribution_model(classes=2)
    own.variant = variant
    for module in own.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return own


@pytest.mark.parametrize(("variant", "rows"), [("paper", None), ("released", 3)])
def test_side_by_side_is_one_by_one(variant, rows):
    model = encoder("bert", classes=2)
    settings = Settings(examples=16, validation=6, batch_size=8, rows_per_pass=rows, learning_rate=1e-3)
    training, validation = choose(model, EXAMPLES, settings)
    metric = "comprehensiveness"

    def watch(own):
        return judge(model, own, validation, [metric])

    own = without_dropout(variant)
    copies = [Copy(loss, watch, is_better(metric)) for loss in LOSSES]
    train_together(model, own, training, copies, settings, epochs=3)
    for loss, copy in zip(LOSSES, copies, strict=True):
        alone = without_dropout(variant)
        course = train(model, alone, training, loss, settings, epochs=3, watch=watch, better=is_better(metric))
        assert [row["step"] for row in copy.course.history] == [row["step"] for row in course.history]
        assert copy.course.best_step == course.best_step
        for expected, found in zip(course.history, copy.course.history, strict=True):
            assert found[metric] == pytest.approx(expected[metric], abs=1e-4)
        for name, weight in alone.trained_weights().items():
            # Adam divides by small gradients, so that rounding grows.
            torch.testing.assert_close(copy.weights[name], weight.detach(), rtol=1e-3, atol=5e-4)
    assert not torch.allclose(copies[0].weights["score.weight"], copies[1].weights["score.weight"], atol=1e-4)


def test_every_copy_has_its_own_dropout():
    model, own = encoder("bert", classes=2), attribution_model(classes=2)
    settings = Settings(examples=8, validation=2, batch_size=8, learning_rate=1e-2)
    training, _ = choose(model, EXAMPLES, settings)
    for module in own.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    copies = [Copy(DualMask()), Copy(DualMask())]
    train_together(model, own, training, copies, settings, epochs=2)
    assert not torch.equal(copies[0].weights["hidden.weight"], copies[1].weights["hidden.weight"])


def test_a_fit_side_by_side_is_resumed_alike(tmp_path, monkeypatch):
    """As on a GPU: all trials at once, and all metrics, of which one is lost after the first run."""
    for place in (together, _fit_job):
        monkeypatch.setattr(place, "most_together", lambda *_: 3)
    model = encoder("bert", classes=2)
    settings = Settings(
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
    training, _ = choose(model, EXAMPLES, Settings(examples=8, validation=2))
    assert most_together(model, attribution_model(classes=2), training, Settings()) == 1
