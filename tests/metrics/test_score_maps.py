"""How soft metrics turn scores into probabilities: one map for a table, named in its spec; and clipped on request."""

import numpy as np
import pytest

from asking import STRENGTHS, TEXT, Additive, score
from fakes import Lookup
from troth.core import catalog
from troth.core.types import Attribution, Example, Question, Score
from troth.metrics._soft import importance
from troth.metrics.soft_sufficiency import SoftSufficiency
from troth.sweep.bench import plan_of
from troth.sweep.context import Context

MODEL = Additive(STRENGTHS)


def settled(*explainers, metric="soft_sufficiency"):
    methods = [catalog.build("explainers", explainer) for explainer in explainers]
    return catalog.spec(catalog.build("metrics", metric).settled(methods, None))


def test_one_map_for_all_explainers_of_a_table():
    assert settled("leave_one_out", "lime") == "soft_sufficiency(scores='sigmoid')"
    assert settled("random", "gradient", "leave_one_out(absolute=true)") == "soft_sufficiency(scores='min_max')"
    assert settled("random", "leave_one_out") == "soft_sufficiency(scores='min_max')"
    assert settled("random", "lime", metric="soft_sufficiency(scores=rank)") == "soft_sufficiency(scores='rank')"


def test_a_bench_names_it():
    metrics = ["soft_sufficiency", "soft_comprehensiveness(scores=rank)", "sufficiency"]
    plan = plan_of(Context(), "embedded", "reviews", ["leave_one_out", "gradient"], metrics, limit=2)
    by_explainer = {}
    for cell in plan.of("metric"):
        by_explainer.setdefault(cell.specs["explainer"], []).append(cell.specs["metric"])
        if "soft" in cell.specs["metric"]:
            assert "scores='" in cell.specs["metric_full"]
    expected = ["soft_sufficiency(scores='min_max')", "soft_comprehensiveness(scores='rank')", "sufficiency"]
    assert by_explainer == dict.fromkeys(("random", "leave_one_out", "gradient"), expected)


def test_the_score_says_which():
    signed = score(MODEL, TEXT, [0, 0, 0, 1, 0], "soft_sufficiency")
    unsigned = score(MODEL, TEXT, [0, 0, 0, 1, 0], "soft_sufficiency", signed=False)
    assert [signed.record["scores"], unsigned.record["scores"]] == ["sigmoid", "min_max"]
    assert SoftSufficiency().summarize([signed, unsigned]).extra["scores"] == "min_max and sigmoid"


def test_a_sigmoid_depends_on_scale_and_the_others_do_not():
    (encoding,) = MODEL.encode([Example("0", TEXT)])
    scores = np.array([-1.0, 2.0, 0.5, 4.0, -3.0])

    def mapped(scale, name):
        return importance(Attribution(Question(encoding, 1), scale * scores, signed=True), name)

    assert mapped(1e-4, "sigmoid") == pytest.approx([0.5] * 5, abs=1e-3)
    for name in ("min_max", "rank"):
        assert mapped(1e-4, name) == pytest.approx(mapped(1, name), abs=1e-5)


@pytest.mark.parametrize(
    ("metric", "scores", "end"), [("comprehensiveness", [0, 1, 1, 1, 0], 1), ("sufficiency", [1, 0, 0, 0, 1], 0)]
)
def test_soft_scores_are_clipped_on_request_alone(metric, scores, end):
    """Without what speaks for the class, or with what speaks against it alone, less is left than of the empty text."""
    plain = score(MODEL, TEXT, scores, f"soft_{metric}(scores=min_max)").value
    assert plain > 1 if end else plain < 0
    assert score(MODEL, TEXT, scores, f"soft_{metric}(scores=min_max, clip=true)").value == end
    undefined = score(Additive({"dull": -1.0}), "a dull film", [0, 1, 0], f"soft_{metric}(clip=true)")
    assert np.isnan(undefined.value)  # no nudge: S₀ = 1 stays undefined


def test_each_ratio_of_a_normalized_score_is_clipped_on_request():
    high, even, low = [0, np.log(3)], [0, 0], [np.log(3), 0]
    model = Lookup({"a b c d e": high, "b c d e": low, "a": low, "": even, "c d e": high, "a b": high})
    both = "masking=delete, ratios=(0.2, 0.4)"
    assert score(model, "a b c d e", [5, 4, 3, 2, 1], f"normalized_comprehensiveness({both})").value == pytest.approx(1)
    clipped = score(model, "a b c d e", [5, 4, 3, 2, 1], f"normalized_comprehensiveness({both}, clip=true)")
    assert clipped.value == pytest.approx((1 + 0) / 2)  # 2 becomes 1
    assert score(model, "a b c d e", [5, 4, 3, 2, 1], f"normalized_sufficiency({both})").value == pytest.approx(0)
    clipped = score(model, "a b c d e", [5, 4, 3, 2, 1], f"normalized_sufficiency({both}, clip=true)")
    assert clipped.value == pytest.approx((0 + 1) / 2)  # −1 becomes 0


def test_several_seeds_name_their_map_once():
    scores = [Score(0.5, {"retained": 0.4, "standard_error": 0.1, "scores": "min_max"})]
    summary = SoftSufficiency().summarize(scores, scores)
    assert summary.extra == {"retained": pytest.approx(0.4), "standard_error": pytest.approx(0.1), "scores": "min_max"}
