"""A bench of a multi-label model and of a regression: one target per example, measured by its own probability."""

import json

import numpy as np
import pytest

import troth
from labels import planted_labels, regression
from troth.core import catalog
from troth.core.errors import TrothError
from troth.store.query import query
from troth.store.store import Store

ROWS = [
    {"text": "the service was awful , but the film a joy", "label": ["rude", "warm"]},
    {"text": "the film was a joy to use", "label": ["warm"]},
    {"text": "an awful plot , slow and dull", "label": ["rude"]},
    {"text": "why would anyone pay for this ?", "label": []},
]


@pytest.fixture
def mails(tmp_path):
    path = tmp_path / "mails.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)) + "\n")
    return str(path)


def test_the_most_probable_label_is_explained(tmp_path, mails):
    metrics = ["comprehensiveness", "decision_flip(masking=mask_token)", "recursive_erasure(step=0.25)", "deletion"]
    result = troth.bench(planted_labels(), mails, ["leave_one_out"], metrics, tmp_path / "run", progress=False)
    assert not result.outcome.failed
    rows = query(
        Store(result.folder), "select example_id, target, label from explanations where explainer = 'leave_one_out'"
    )
    targets = {row["example_id"]: (row["target"], row["label"]) for row in rows.to_pylist()}
    assert {name: targets[name] for name in "012"} == {"0": (0, 0), "1": (1, 1), "2": (0, 0)}
    assert targets["3"][1] is None  # no gold label
    again = troth.bench(planted_labels(), mails, ["leave_one_out"], metrics, tmp_path / "run", progress=False)
    assert again.outcome.computed == 0
    board = result.leaderboard
    value = {name: board.summaries[name, "comprehensiveness"].value for name in board.explainers}
    assert value["leave_one_out"] > value["random"] + 0.2


def test_gold_is_the_most_probable_of_the_examples_labels(tmp_path, mails):
    labeled = troth.load_data(mails)[:3]
    result = troth.bench(
        planted_labels(), labeled, ["leave_one_out", "gradient"], ["comprehensiveness"], tmp_path / "run",
        target="gold", progress=False,
    )  # fmt: skip
    rows = query(
        Store(result.folder), "select explainer, example_id, target from explanations order by 1, 2"
    ).to_pylist()
    for explainer in ("gradient", "leave_one_out"):
        assert [row["target"] for row in rows if row["explainer"] == explainer] == [0, 1, 0]


@pytest.mark.parametrize("target", [["rude", "warm"], "above_threshold"])
def test_several_targets_are_refused(tmp_path, mails, target):
    with pytest.raises(TrothError, match=r"(metrics need one target per example|must be one class or label), not "):
        troth.bench(planted_labels(), mails, ["random"], ["comprehensiveness"], target=target, progress=False)


def test_every_metric_takes_a_label_and_a_value():
    text = "the service was awful , but the film a joy"
    for model, undecided in ((planted_labels(), set()), (regression(), {"decision_flip"})):
        attributions = troth.explain(model, text, "integrated_gradients(steps=4)", progress=False)
        for name in catalog.names("metrics"):
            if name == "rationale_agreement" or name in undecided:
                continue
            (score,) = troth.measure(model, attributions, name, progress=False)
            assert np.isfinite(score.value) or score.why, name
