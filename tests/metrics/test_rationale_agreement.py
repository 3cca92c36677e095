import numpy as np
import pytest
from sklearn.metrics import auc, f1_score, precision_recall_curve

from asking import score
from fakes import CORPUS, Lookup, encoder
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.metrics.rationale_agreement import RationaleAgreement, marked_spans
from troth.verbs.explain import explain
from troth.verbs.measure import measure

TEXT = "the film was truly awful and long"
MODEL = Lookup({TEXT: [0, 1], "": [0, 0]})
AWFUL = ((13, 24),)  # truly awful


def test_by_hand():
    found = score(MODEL, TEXT, [0, 3, 0, 2, 4, 0, 1], "rationale_agreement(top=3)", rationale=AWFUL)
    assert found.record["token_counts"] == (2, 1, 0)  # awful, film, truly of truly, awful
    assert found.value == pytest.approx(4 / 5)
    # Runs (1, 2) and (3, 5) against (3, 5): one of two matches
    assert found.record["span_counts"] == (1, 2, 1)
    assert found.record["auprc"] == pytest.approx(
        auc(*precision_recall_curve([0, 0, 0, 1, 1, 0, 0], [0, 3, 0, 2, 4, 0, 1])[1::-1])
    )


def test_a_span_through_a_word_marks_the_word():
    (encoding,) = MODEL.encode([Example(id="a", text=TEXT, rationale=((10, 15), (29, 30), (12, 13)))])
    assert marked_spans(encoding) == [(2, 4), (6, 7)]  # "was tr", "l"; a lone space marks nothing


def test_only_the_first_text_is_marked():
    model = encoder("bert")
    example = Example(id="a", text="good film", text_pair="bad film", rationale=((0, 4),))
    (encoding,) = model.encode([example], segments="both")
    assert marked_spans(encoding) == [(0, 1)]


def test_macro_and_micro_as_scikit_learn_has_them():
    model = encoder("bert")
    generator = np.random.default_rng(0)
    examples = []
    for place, text in enumerate(CORPUS):
        start = int(generator.integers(0, len(text) - 12))
        examples.append(Example(id=str(place), text=text, rationale=((start, start + 12),)))
    attributions = explain(model, examples, "gradient")
    metric = RationaleAgreement(top=4)
    scores = measure(model, attributions, metric)
    human, chosen = [], []
    for attribution in attributions:
        (start, end), spans = attribution.example.rationale[0], attribution.spans
        human.append([int(a < end and b > start) for a, b in spans])
        top = sorted(range(len(spans)), key=lambda unit, scores=attribution.scores: -scores[unit])[:4]
        chosen.append([int(unit in top) for unit in range(len(spans))])
    single = [f1_score(true, guess) for true, guess in zip(human, chosen, strict=True)]
    assert [one.value for one in scores] == pytest.approx(single)
    summary = metric.summarize(scores)
    assert summary.value == pytest.approx(np.mean(single))
    assert summary.extra["micro_f1"] == pytest.approx(f1_score(np.concatenate(human), np.concatenate(chosen)))
    assert set(summary.extra) == {"micro_f1", "iou_f1", "iou_micro_f1", "auprc"}


def test_by_default_as_many_units_count_as_the_human_marked():
    # Two units are marked, the second and the fifth score highest of all: with five more chosen the F1 would be lower.
    scores = [0, 3, 0, 2, 4, 0, 1]
    for rationale, top in ((AWFUL, 2), (((0, 3),), 1)):
        by_default = score(MODEL, TEXT, scores, "rationale_agreement", rationale=rationale)
        named = score(MODEL, TEXT, scores, f"rationale_agreement(top={top})", rationale=rationale)
        assert sum(by_default.record["token_counts"][::2]) == top
        assert (by_default.value, by_default.record) == (named.value, named.record)


def test_more_than_there_are_counts_as_all():
    assert score(MODEL, TEXT, list(range(7)), "rationale_agreement(top=25)", rationale=AWFUL).value == pytest.approx(
        2 * 2 / (7 + 2)
    )


def test_undefined_and_missing():
    assert (
        score(MODEL, TEXT, list(range(7)), "rationale_agreement", rationale=()).why
        == "the human rationale marks no unit"
    )
    assert score(MODEL, "", [], "rationale_agreement", rationale=()).why == "the text has no units"
    with pytest.raises(TrothError, match="compares with human rationales, but example one has none"):
        score(MODEL, TEXT, list(range(7)), "rationale_agreement")
    with pytest.raises(TrothError, match="top must be at least 1, not 0"):
        RationaleAgreement(top=0)
    empty = RationaleAgreement().summarize([score(MODEL, "", [], "rationale_agreement", rationale=())])
    assert np.isnan(empty.value)
    assert empty.undefined == {"the text has no units": 1}
