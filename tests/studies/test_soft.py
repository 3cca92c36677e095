import csv
import gzip
import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from troth import studies
from troth.core.errors import TrothError
from troth.explainers.deep_lift import DeepLift
from troth.models import load_model
from troth.store.cells import Plan
from troth.store.store import Store
from troth.studies import published
from troth.studies._results import Results
from troth.studies.soft import Soft
from troth.studies.soft._diagnosticity import METHODS, METRICS, PRINTED, Pairs, at_ratios
from troth.verbs.explain import explain
from troth.verbs.measure import measure

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "studies"))
import keep_rows

BASE = "scratch(layers=1, hidden=16, heads=2, dropout=0.0)"
STUDY = Soft(epochs=6, batch_size=16, learning_rate=5e-3, examples=12)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    """Short texts with one word that gives the class away, in three files."""
    folder, draw = tmp_path_factory.mktemp("films"), random.Random(0)
    for split, count in (("train", 80), ("validation", 12), ("test", 12)):
        rows = []
        for number in range(count):
            words = [f"w{draw.randrange(30)}" for _ in range(8)]
            words[draw.randrange(8)] = ("awful", "great")[number % 2]
            rows.append({"id": f"{split}-{number}", "text": " ".join(words), "label": number % 2})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return studies.Setting(tmp_path_factory.mktemp("study") / "out", (str(folder),), BASE, (0, 1))


def test_seeds_of_an_example_count_once_and_ties_are_not_won():
    nan = np.nan
    compared = Pairs(
        np.array([[3.0, 1.0, nan, 2.0], [1.0, 1.0, nan, 2.0]]), np.array([[2.0, 1, 1, 1], [2.0, 0, 1, nan]])
    )
    np.testing.assert_equal(compared.won, [0.5, 0.5, nan, 1.0])
    np.testing.assert_equal(compared.won_or_tied, [0.5, 1.0, nan, 1.0])
    assert compared.diagnosticity == pytest.approx(2 / 3)
    assert (compared.undefined, compared.undefined_share) == (3, 3 / 8)
    assert compared.tied == pytest.approx(1 / 6)
    doubled = Pairs(np.tile(compared.explained, (5, 1)), np.tile(compared.random, (5, 1)))
    assert doubled.interval == compared.interval


def test_the_table_is_what_explain_and_measure_say(setting):
    (section,) = STUDY.sections("diagnosticity", setting)
    plan = Plan()
    (experiment,) = STUDY.experiments(setting, plan)
    examples = experiment.data.splits["test"].examples
    for method, metric in (("IG", "NC"), ("Attention", "Soft-NS")):
        wins = []
        for seed in (0, 1):
            model = load_model(str(setting.out / "files" / experiment.train("plain", seed).name))
            values = []
            for explainer in (METHODS[method], "random"):
                attributions = explain(model, examples, explainer, units="token", seed=seed)
                values.append([score.value for score in measure(model, attributions, STUDY.spec(metric), seed=seed)])
            ours, chance = map(np.array, values)
            wins.append(np.where(np.isnan(ours) | np.isnan(chance), np.nan, ours > chance))
        expected = np.nanmean([np.nanmean(column) for column in np.transpose(wins) if not np.isnan(column).all()])
        assert section.facts[f"{experiment.name} {method} {metric}"]["diagnosticity"] == pytest.approx(expected)


def test_kept_rows_tell_ties_and_undefined_pairs(setting):
    (section,) = STUDY.sections("diagnosticity", setting)
    (experiment,) = STUDY.experiments(setting, Plan())
    rows = list(keep_rows.soft(setting.out))
    for method, metric in (("Deeplift", "NC"), ("Attention", "Soft-NS")):
        kept = [row for row in rows if (row["attribution"], row["metric"]) == (METHODS[method], STUDY.spec(metric))]
        facts = section.facts[f"{experiment.name} {method} {metric}"]
        assert len(kept) == 2 * 12
        assert sum(row["value"] is None for row in kept) == facts["undefined"]
        assert [row["tied"] is None for row in kept] == [row["value"] is None for row in kept]
        pairs = experiment.pairs(Results(Store(setting.out)), method, STUDY.spec(metric))
        scores = [(np.nan if row[name] is None else row[name]) for name in ("score", "random") for row in kept]
        expected = np.concatenate([pairs.explained.ravel(), pairs.random.ravel()])
        np.testing.assert_allclose(np.sort(scores), np.sort(expected), rtol=6e-3)


@pytest.mark.parametrize(
    ("score", "random", "outcome"),
    [
        (1.0, 1.0, {"value": 0, "tied": 1, "score": 1.0, "random": 1.0}),
        (0.50001, 0.5, {"value": 1, "tied": 0, "score": 0.5, "random": 0.5}),  # not a tie, though rounded it looks so
        (float("nan"), 0.5, {"value": None, "tied": None, "score": None, "random": 0.5}),
    ],
)
def test_ties_are_told_before_scores_are_rounded(score, random, outcome):
    assert keep_rows._outcome(score, random, with_scores=True) == outcome
    without = keep_rows._outcome(score, random, with_scores=False)
    assert without == {**outcome, "score": None, "random": None}


def test_kept_shares_are_those_of_the_kept_runs():
    folder = Path(keep_rows.__file__).parents[2] / "docs" / "papers" / "soft" / "results"
    runs = list(folder.glob("*.json.gz"))
    with gzip.open(folder / "shares.csv.gz", "rt", encoding="utf-8") as file:
        kept = list(csv.DictReader(file))
    made = [{name: str(value) for name, value in row.items()} for run in runs for row in keep_rows.soft_shares(run)]
    assert made
    assert sorted(map(str, kept)) == sorted(map(str, made))


def test_the_released_rules_drop_elements_after_the_embedding_layer(setting):
    (section,) = STUDY.sections("released", replace(setting, seeds=(0,)))
    assert [row[1] for row in section.rows] == list(METRICS)
    assert all(np.isfinite(row[3]) for row in section.rows)
    specs = STUDY._specs("released")
    assert "at='embedding_output'" in specs["Soft-NS"][1]
    assert specs["NC"][1] == "normalized_comprehensiveness(variant='released')"


def test_rationale_lengths_are_read_off_the_stored_scores(setting):
    faithfulness, diagnosticity = STUDY.sections("lengths", setting)
    plan = Plan()
    (experiment,) = STUDY.experiments(setting, plan)
    results = Results(Store(setting.out))
    for score in results.scores(experiment.scores("IG", STUDY.spec("NS"), 0)):
        assert np.mean(at_ratios("NS", score)) == pytest.approx(score.value, nan_ok=True)
    curve = faithfulness.facts["faithfulness"][f"{experiment.name} NS IG"]
    both = [results.values(experiment.scores("IG", STUDY.spec("NS"), seed)) for seed in (0, 1)]
    assert np.mean(curve) == pytest.approx(np.nanmean(both))
    shares = diagnosticity.facts["diagnosticity"][f"{experiment.name} NC"]
    assert len(shares) == 5
    assert all(0 <= share <= 1 for share in shares)


@pytest.mark.full
def test_alternatives_use_the_variance_that_validation_chose(setting):
    setting = replace(setting, seeds=(0,))
    (section,) = STUDY.sections("alternatives", setting)
    (experiment,) = STUDY.experiments(setting, Plan())
    shares = {}
    for variance in (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0):
        noise = STUDY.spec("Soft-NC", masking=f"gaussian(variance={variance}, form='product')")
        shares[variance] = experiment.diagnosticity(Results(Store(setting.out)), noise, "validation")
    shown = {row[2] for row in section.rows if row[1] == "Soft-NC"}
    assert f"Gaussian, eq. 7, σ² {max(shares, key=shares.get)}" in shown
    assert len(section.rows) == 8


def test_equal_retention_and_maps_are_told_apart(setting):
    setting = replace(setting, seeds=(0,))
    (maps,) = STUDY.sections("maps", setting)
    assert {row[2] for row in maps.rows if row[1] == "Soft-NS"} == {
        STUDY.spec("Soft-NS", scores=rule) for rule in ("sigmoid", "min_max", "softmax", "rank")
    }
    (retention,) = STUDY.sections("retention", setting)
    assert len(retention.rows) == 2 * 4


def test_what_failed_is_undefined_and_named(setting, tmp_path, monkeypatch):
    whole = DeepLift.ask

    def failing(self, questions):
        if questions[0].seed == 1:
            raise TrothError("no lift today")
        return whole(self, questions)

    monkeypatch.setattr(DeepLift, "ask", failing)
    again = replace(setting, out=tmp_path / "out")
    (section,) = STUDY.sections("diagnosticity", again)
    name = Path(setting.data[0]).name
    assert "explanation failed (deep_lift): " in section.words
    assert "no lift today" in section.words
    facts = section.facts[f"{name} Deeplift NC"]
    assert np.isfinite(facts["diagnosticity"])  # of the other seed
    assert facts["undefined"] >= 12
    monkeypatch.setattr(DeepLift, "ask", lambda self, question: failing(self, replace(question, seed=1)))
    alone = replace(setting, out=tmp_path / "alone", seeds=(0,))
    sections = [one for part in ("diagnosticity", "averages", "lengths") for one in STUDY.sections(part, alone)]
    facts = sections[0].facts
    assert np.isnan(facts[f"{name} Deeplift NC"]["diagnosticity"])
    assert np.isfinite(facts[f"{name} IG NC"]["diagnosticity"])


def test_published_numbers_stand_next_to_ours():
    about = {"method": "IG", "metric": "NC"}
    assert published.number("soft_diagnosticity", dataset=PRINTED["sst"], **about) == 0.535
    assert published.number("soft_diagnosticity", dataset="", **about) is None
    assert set(METRICS) == {"NS", "NC", "Soft-NS", "Soft-NC"}
