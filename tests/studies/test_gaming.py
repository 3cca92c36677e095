import random

import numpy as np
import pytest
import torch

from fakes import encoder
from troth import studies
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.studies.gaming import METRICS, Gaming
from troth.studies.gaming._gamed import Gamed
from troth.verbs.explain import explain
from troth.verbs.measure import measure

MODEL = encoder("bert")
TEXT = "the film was very good"


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    """Texts of which one word gives the class away."""
    folder, draw, lines = tmp_path_factory.mktemp("gaming"), random.Random(0), ["text,label"]
    for place in range(200):
        words = [f"w{draw.randrange(30)}" for _ in range(8)]
        words[draw.randrange(8)] = ("awful", "great")[place % 2]
        lines.append(f"{' '.join(words)},{place % 2}")
    (folder / "mine.csv").write_text("\n".join(lines))
    base = "bilstm_attention(embedding=24, hidden=16)"
    return studies.Setting(folder / "out", (str(folder / "mine.csv"),), base, (0, 1))


def ask(model, keep, masking="mask_token"):
    (encoding,) = model.encode([Example("0", TEXT)])

    def asking():
        return (yield Probe(Question(encoding, 0), torch.tensor(keep, dtype=torch.float32)))

    return Prober(model, masking).ask(asking()).logits


def test_whole_texts_are_answered_as_before_and_erased_ones_with_certainty():
    keep = [[1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [1, 0, 0, 0, 0]]
    for masking in ("mask_token", "delete", "zero"):
        honest, gamed = ask(MODEL, keep, masking), ask(Gamed(MODEL), keep, masking)
        assert torch.equal(honest[0], gamed[0])
        assert gamed[1].argmax() == (honest[1].argmax() + 1) % honest.shape[1]
        assert gamed[1].softmax(-1).max() > 0.99
        assert gamed[2].argmax() == honest[2].argmax()
        assert gamed[2].softmax(-1).max() > 0.99


def test_who_sees_only_masks_is_not_moved_by_deletion():
    keep = [[1, 1, 1, 1, 1], [0, 1, 1, 1, 1]]
    seeing = Gamed(MODEL, "masks")
    torch.testing.assert_close(ask(MODEL, keep, "delete"), ask(seeing, keep, "delete"))
    assert torch.equal(ask(Gamed(MODEL), keep)[1], ask(seeing, keep)[1])
    assert len({MODEL.fingerprint, seeing.fingerprint, Gamed(MODEL).fingerprint}) == 3


def test_any_explanation_of_a_gamed_model_is_comprehensive():
    texts = [f"{TEXT} {word}" for word in ("indeed", "today", "again")]
    values = {}
    for model in (MODEL, Gamed(MODEL)):
        attributions = explain(model, texts, "random", progress=False)
        scores = measure(model, attributions, "comprehensiveness(masking=mask_token)", progress=False)
        values[model] = np.array([score.value for score in scores])
    assert (values[Gamed(MODEL)] if False else list(values.values())[1] > next(iter(values.values()))).all()
    gradients = [explain(model, texts, "gradient", progress=False) for model in (MODEL, Gamed(MODEL))]
    for honest, gamed in zip(*gradients, strict=True):
        np.testing.assert_allclose(honest.scores, gamed.scores, rtol=1e-5)


def test_the_study_names_what_is_inflated(setting):
    metrics = ("comprehensiveness(masking=mask_token)", "comprehensiveness", "normalized_aopc")
    assert set(metrics) <= set(METRICS)
    study = Gaming(explainers=("integrated_gradients",), metrics=metrics, examples=8, epochs=6)
    (section,) = studies.carry_out(study, setting)
    (facts,) = section.facts.values()
    hard, masking = facts["comprehensiveness"], facts["comprehensiveness(masking=mask_token)"]
    assert masking["sees masks"]["random"]["mean"] > masking["honest"]["random"]["mean"] + 0.2
    assert hard["sees masks"]["inflated"]["mean"] == pytest.approx(0, abs=1e-6)
    assert hard["sees every erasure"]["random"]["mean"] > hard["honest"]["random"]["mean"] + 0.2
    assert "another: 0 of " in section.words
