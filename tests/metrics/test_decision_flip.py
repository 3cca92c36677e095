import numpy as np
import pytest
import torch

from asking import score
from fakes import CORPUS, Lookup, encoder
from troth import explain, measure
from troth.core.errors import TrothError
from troth.metrics.decision_flip import DecisionFlip

YES, NO = [0, 1], [1, 0]
MODEL = Lookup({"a b c d": YES, "b c d": YES, "c d": NO, "d": YES, "": NO, "a b c": NO, "a b": NO, "a": NO})


def test_by_hand():
    found = score(MODEL, "a b c d", [4, 3, 2, 1], "decision_flip")
    assert found.value == 0.5  # without a still yes, without a and b no
    assert found.record == {"ratios": [0, 0.25, 0.5, 0.75, 1], "predictions": [1, 1, 0, 1, 0], "flipped": True}
    assert score(MODEL, "a b c d", [1, 2, 3, 4], "decision_flip").value == 0.25
    assert score(MODEL, "a b c d", [4, 3, 2, 1], "decision_flip", target=0).value == 0.5  # the predicted class counts


def test_what_never_flips_scores_one():
    model = Lookup({"a b": YES, "b": YES, "": YES})
    never = score(model, "a b", [2, 1], "decision_flip")
    assert (never.value, never.record["flipped"], never.why) == (1.0, False, "")
    last = score(Lookup({"a b": YES, "b": YES, "": NO}), "a b", [2, 1], "decision_flip")
    assert (last.value, last.record["flipped"]) == (1.0, True)
    assert DecisionFlip().summarize([never, never, last, last]).extra == {"never_flips": 0.5}


def test_one_unit_and_none():
    assert score(Lookup({"a": YES, "": NO}), "a", [1], "decision_flip").value == 1.0
    assert np.isnan(score(Lookup({"": YES}), "", [], "decision_flip").value)


def test_long_texts_go_in_steps_of_five_percent():
    # 50 units: 50 · 500 // 10000 = 2 a step
    words = [f"w{place}" for place in range(50)]
    table = {" ".join(words[gone:]): YES if gone < 7 else NO for gone in range(0, 51, 2)}
    found = score(Lookup(table), " ".join(words), list(range(50, 0, -1)), "decision_flip")
    assert found.value == 8 / 50
    assert len(found.record["ratios"]) == 26


def test_it_is_what_erasing_step_by_step_gives():
    model = encoder("roberta", classes=4, seed=2)
    attributions = explain(model, CORPUS, "gradient", units="token")
    values = []
    for attribution, found in zip(attributions, measure(model, attributions, "decision_flip(step=0.2)"), strict=True):
        encoding, n_units = attribution.question.encoding, attribution.question.n_units
        order = sorted(range(n_units), key=lambda unit: -attribution.scores[unit])
        gone, expected = 0, 1.0
        while gone < n_units:
            gone = min(n_units, gone + max(1, n_units * 2000 // 10000))
            stays = torch.tensor([int(unit) not in order[:gone] for unit in encoding.units])
            if model.model(input_ids=encoding.ids[stays][None]).logits.argmax() != attribution.target:
                expected = gone / n_units
                break
        assert found.value == expected
        values.append(expected)
    assert len(set(values)) > 2


def test_a_step_of_nothing_is_refused():
    with pytest.raises(TrothError, match="decision_flip: step must be above 0, not 0"):
        DecisionFlip(step=0.0)
