import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from sklearn.metrics import average_precision_score

from fakes import encoder
from troth import studies
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.data import Data
from troth.engine.prober import Prober
from troth.statistics import crossed_mean
from troth.store.cells import Plan
from troth.studies._results import Results
from troth.studies.truth import Truth
from troth.studies.truth._agreement import agreement, won
from troth.studies.truth._explanations import MIXED, NOTHING, TRUTH, Planted, deciding, placement
from troth.studies.truth._sections import SECTIONS, KeptRows, believe
from troth.studies.truth._shortcuts import SHORTCUTS, Planter, insert, plant, words_for

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "studies"))
import truth_tables

WORDS = ("amber", "cedar", "harbor", "velvet")


def texts(count, words=12, seed=0):
    draw = random.Random(seed)
    return [Example(f"t{n}", " ".join(f"w{draw.randrange(30)}" for _ in range(words)), label=0) for n in range(count)]


def says(name, text):
    """What the shortcut says of a text, from its words alone; None where one is missing that is needed."""
    found = [word for word in text.split() if word in WORDS]
    first = [WORDS.index(word) for word in found if word in WORDS[:2]]
    second = [WORDS.index(word) - 2 for word in found if word in WORDS[2:]]
    if name == "pair":
        return first[0] ^ second[0] if first and second else None
    if name == "order":
        return first[0] if len(first) == 2 else None
    if name == "half":
        place = text.split().index(found[0])
        return first[0] if place <= len(text.split()) / 2 else None
    return first[0] if first else None


# Planting


@pytest.mark.parametrize("name", SHORTCUTS)
def test_the_planted_words_decide_and_the_rationale_marks_them(name):
    found = {}
    for change, example in Planter(name, WORDS).changed(texts(60)):
        found.setdefault(change, []).append(example)
        marked = [example.text[start:end] for start, end in example.rationale]
        assert set(marked) <= set(WORDS)
        if change == "without":
            assert says(name, example.text) is None
        else:
            assert says(name, example.text) == example.label
            assert len(marked) == {"pair": 2, "order": 2}.get(name, 1)
    for planted, swapped in zip(found["planted"], found["swapped"], strict=True):
        assert planted.label != swapped.label
        assert len(planted.text.split()) == len(swapped.text.split()) == 12 + (1 if name == "token" else 2)
    others = name in ("half", "decoy")
    assert ("redrawn" in found) is others
    for planted, redrawn in zip(found["planted"], found.get("redrawn", ()), strict=False):
        assert planted.label == redrawn.label
        assert planted.text != redrawn.text
    assert 15 < sum(example.label for example in found["planted"]) < 45


def test_neither_word_of_a_pair_says_anything_alone_and_a_decoy_nearly_always_agrees():
    planted = [each for change, each in Planter("pair", WORDS).changed(texts(400)) if change == "planted"]
    for word in WORDS:
        labels = [each.label for each in planted if word in each.text.split()]
        assert abs(np.mean(labels) - 0.5) < 0.12
    planted = [each for change, each in Planter("decoy", WORDS).changed(texts(400)) if change == "planted"]
    agree = [("velvet" in each.text) == bool(each.label) for each in planted]
    assert abs(np.mean(agree) - 0.8) < 0.07


def test_planting_depends_on_the_text_and_the_seed_alone_and_uses_few_texts_several_times():
    planter = Planter("order", WORDS)
    some = texts(10)
    assert planter.plant(some[:3], 3) == planter.plant(some, 10)[:3]
    assert replace(planter, seed=1).plant(some, 10) != planter.plant(some, 10)
    many = planter.plant(some, 25, incomplete=0.4)
    assert len({each.id for each in many}) == 25
    assert many[0].text != many[10].text
    labels = [each.label for each in many if says("order", each.text) is None]
    assert 4 < len(labels) < 18
    assert 0 < sum(labels) < len(labels)


def test_words_that_the_texts_have_are_not_planted_and_short_texts_are_left_out():
    assert words_for(["an Amber light", "harbors"]) == ("cedar", "harbor", "velvet", "marble")
    data = Data("d", [*texts(5), Example("short", "too short", label=0)], ("a", "b"))
    planted = plant("d token", {"train": data, "test": data}, Planter("token", WORDS), {"train": 12, "test": 9}, 0.5)
    assert len(planted["train"]) == 12
    assert len(planted["test"]) == 5
    with pytest.raises(TrothError, match="no test text has 8 words"):
        plant("d", {"test": data[5:]}, Planter("token", WORDS), {"test": 3}, 0.5)
    with pytest.raises(TrothError, match="no shortcut is called 'xor'"):
        Truth(shortcuts=("xor",))


def test_a_long_text_is_cut_before_words_are_put_into_it():
    text, spans = insert("one two three four", [(2, "x"), (0, "y"), (2, "z")], 2)
    assert text == "y one two x z"
    assert [text[start:end] for start, end in spans] == ["x", "y", "z"]


# Explanations of known quality


def test_placement_is_average_precision_rank_and_share():
    draw = np.random.default_rng(0)
    for _ in range(20):
        scores, marked = draw.normal(size=9).astype(np.float32), draw.random(9) < 0.4
        if marked.any():
            found = placement(scores, marked)
            assert found.average_precision == pytest.approx(average_precision_score(marked, scores))
            order = np.argsort(-scores).tolist()
            assert found.rank == pytest.approx(np.mean([order.index(place) + 1 for place in np.flatnonzero(marked)]))
            assert found.mass == pytest.approx(np.abs(scores[marked]).sum() / np.abs(scores).sum())
    assert np.isnan(placement(np.ones(3), np.zeros(3, bool)).rank)


def test_the_truth_marks_what_decides_and_noise_hides_it():
    model = encoder("bert")
    (_, example), *_ = Planter("order", WORDS).changed(texts(1))
    (encoding,) = model.encode([example])
    marked = deciding(encoding)
    assert [encoding.unit_texts[place] for place in np.flatnonzero(marked)] in (["amber", "cedar"], ["cedar", "amber"])
    prober = Prober(model)
    means = {}
    for name, explainer in {**MIXED, **NOTHING}.items():
        asked = [Question(encoding, 0, seed=seed) for seed in range(200)]
        found = prober.ask(explainer.ask(asked))
        means[name] = np.mean([placement(each.scores, marked).average_precision for each in found])
    assert means[TRUTH] == 1
    assert sorted(means, key=lambda name: -means[name])[: len(MIXED) - 1] == list(MIXED)[:-1]
    assert max(means[name] for name in NOTHING) - min(means[name] for name in NOTHING) < 0.1
    (again,) = prober.ask(Planted(0.5).ask([Question(encoding, 0, seed=3)]))
    (other,) = prober.ask(Planted(0.5, 1).ask([Question(encoding, 0, seed=3)]))
    assert prober.cost.forward == 0
    assert not np.array_equal(again.scores, other.scores)


# Agreement


def test_agreement_is_kendalls_tau_and_the_share_of_ordered_pairs():
    draw = np.random.default_rng(0)
    values, quality = draw.integers(0, 4, (30, 6)).astype(float), draw.integers(0, 4, (30, 6)).astype(float)
    found = agreement(values, quality)
    for row in range(30):
        expected = scipy.stats.kendalltau(values[row], quality[row]).statistic
        assert found.tau[row] == pytest.approx(expected)
        pairs = [(a, b) for a in range(6) for b in range(6) if quality[row, a] > quality[row, b]]
        right = [(values[row, a] > values[row, b]) + (values[row, a] == values[row, b]) / 2 for a, b in pairs]
        assert found.ordered[row] == pytest.approx(np.mean(right))


def test_what_orders_nothing_agrees_with_nothing():
    quality = np.array([[1.0, 0.5, 0.2]])
    assert agreement(np.ones((1, 3)), quality) == (0.0, 0.5)
    assert agreement(np.full((1, 3), np.nan), quality) == (0.0, 0.5)
    assert agreement(np.array([[1, 1 + 1e-7, 1 - 1e-7]]), quality) == (0.0, 0.5)  # rounding errors
    assert np.isnan(agreement(quality, np.ones((1, 3)))).all()
    assert agreement(quality, quality) == (1.0, 1.0)
    assert agreement(-quality, quality) == (-1.0, 0.0)
    assert won(np.array([2.0, 1.0, 0.0, np.nan]), np.ones(4)).tolist()[:3] == [1.0, 0.5, 0.0]


def test_random_values_agree_with_the_truth_by_chance():
    draw = np.random.default_rng(0)
    tau = [agreement(draw.normal(size=(200, 5)), draw.normal(size=(200, 5))).tau for _ in range(5)]
    found = crossed_mean(tau)
    assert found.low < 0 < found.high
    assert abs(found.mean) < 0.05


@pytest.mark.full
def test_the_page_shows_what_its_rows_give():
    kept = truth_tables.PAGE.read_text(encoding="utf-8")
    assert truth_tables.page() == kept, "run python scripts/studies/truth_tables.py"
    for guide in truth_tables.GUIDES:
        assert truth_tables.believe() in guide.read_text(encoding="utf-8")


# The study


def rows_of(kept=(1, 1, 0), tau=0.5):
    about = {"data": "d", "base": "b", "shortcut": "token", "recipe": "plain"}
    for seed, used in enumerate(kept):
        yield {**about, "seed": seed, "about": "", "quantity": "kept", "example_id": "", "value": used}
        for text in range(3 * used):
            own = {**about, "seed": seed, "example_id": str(text)}
            yield {**own, "about": "good", "quantity": "tau_mixed", "value": tau + seed / 10}
            yield {**own, "about": "bad", "quantity": "tau_mixed", "value": (-1.0) ** (text + seed) / 10}


def test_tables_count_the_models_that_were_refused_and_average_the_others():
    rows = KeptRows(rows_of())
    (models,) = SECTIONS["models"](rows)
    assert models.rows[0][4] == "2 of 3"
    assert models.words.startswith("2 of 3 models provably use")
    first, _ = SECTIONS["metrics"](rows)
    assert [row[0] for row in first.rows] == ["good", "bad"]
    assert first.facts["plain"]["good"]["all"]["mean"] == pytest.approx(0.55)
    assert "The best metric is good: τ 0.55" in first.words


def test_the_sentence_names_who_is_ahead_where():
    sure, unsure = crossed_mean([[0.5, 0.6], [0.6, 0.5]]), crossed_mean([[0.1, 0.2], [0.2, 0.1]])
    found = {"a": {"token": sure, "pair": unsure, "all": sure}, "b": {"token": unsure, "pair": sure, "all": unsure}}
    said = believe(found)
    assert said.startswith("The best metric is a: τ 0.55 [")
    assert said.endswith("; b ranks highest for pair.")


@pytest.fixture(scope="module")
def study():
    return Truth(
        shortcuts=("token",), recipes=("plain",), explainers=("random", "leave_one_out"),
        metrics=("comprehensiveness(masking=mask_token)", "recursive_erasure(recompute=False)", "monotonicity"),
        training=1000, validation=60, examples=12, epochs=8, least=0.8,
    )  # fmt: skip


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    folder = tmp_path_factory.mktemp("truth")
    lines = ["text,label", *(f"{each.text},{place % 2}" for place, each in enumerate(texts(80)))]
    (folder / "mine.csv").write_text("\n".join(lines))
    base = "bilstm_attention(embedding=32, hidden=24)"
    return studies.Setting(folder / "out", (str(folder / "mine.csv"),), base)


def test_a_users_csv_gives_the_tables(study, setting):
    sections = {section.title: section for section in studies.carry_out(study, setting)}
    models = sections["Which models use the shortcut"]
    assert models.rows[0][4] == "1 of 1"
    assert models.rows[0][5] > 0.8
    facts = sections["Metrics and shortcuts, plain models"].facts["plain"]
    assert facts["comprehensiveness(masking=mask_token)"]["token"]["mean"] > 0.4
    explained = sections["Explainers on plain models"].facts["plain"]
    assert explained["leave_one_out"]["average_precision"]["mean"] > 0.8
    assert explained["random"]["average_precision"]["mean"] < 0.6
    more = sections["Metrics on plain models, all shortcuts"].facts["plain, more"]
    assert more["comprehensiveness(masking=mask_token)"]["truth_first"]["mean"] == 1
    (stamped,) = (section for section in sections.values() if section.part == "in_distribution")
    assert {row[0] for row in stamped.rows} == set(study.metrics)


def test_a_model_that_does_not_follow_the_shortcut_is_not_explained(study, setting):
    strict, plan = replace(study, least=1.0, epochs=1), Plan()
    (experiment,) = strict.experiments(setting, plan)
    strict.add_cells("metrics", experiment)
    results, planned = Results(setting.carry_out(plan)[0]), len(plan)
    assert not experiment.is_kept(results, "plain", 0)
    strict.add_later("metrics", experiment, results)
    assert len(plan) == planned
    assert {row["quantity"] for row in experiment.rows(results)} == {"planted", "swapped", "without", "kept"}
    for part in SECTIONS.values():
        for section in part(KeptRows(experiment.rows(results))):
            assert section.part == "models" or not section.rows
            assert section.draw is None
