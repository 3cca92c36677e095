import json
import os
import random
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from typer.testing import CliRunner

from troth import studies
from troth.cli import app
from troth.core import catalog
from troth.core.errors import TrothError
from troth.metrics import recursive_erasure
from troth.models import load_model
from troth.salience import text_rank
from troth.statistics import crossed_mean
from troth.store.cells import Plan
from troth.store.store import Store
from troth.studies import published, recipes
from troth.studies._results import Results
from troth.studies._trained_study import load
from troth.studies.saloss import Saloss, _words
from troth.studies.saloss._experiment import METHODS
from troth.sweep.runners import over_sum
from troth.validity.masf import data_set_p_value
from troth.verbs.explain import explain
from troth.verbs.measure import measure

BASE = "scratch(layers=1, hidden=16, heads=2, dropout=0.0)"
STUDY = Saloss(epochs=12, batch_size=16, learning_rate=5e-3, examples=16, tagger="test_saloss_study_tagger:tags")


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """Short texts with one word that gives the class away, in three files."""
    folder, draw = tmp_path_factory.mktemp("films"), random.Random(0)
    for split, count in (("train", 120), ("validation", 36), ("test", 24)):
        rows = []
        for number in range(count):
            words = [f"w{draw.randrange(30)}" for _ in range(10)]
            words[draw.randrange(10)] = ("awful", "great")[number % 2]
            rows.append({"id": f"{split}-{number}", "text": " ".join(words), "label": number % 2})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def setting(films, tmp_path_factory):
    return studies.Setting(tmp_path_factory.mktemp("study") / "out", (str(films),), BASE, (0, 1))


def sections(setting, part, study=STUDY):
    return list(study.sections(part, setting))


@pytest.mark.full
def test_the_flip_table_is_what_explain_and_measure_say(films, setting):
    section, released = sections(setting, "decision_flip")
    facts, padded = section.facts[films.name], released.facts[f"{films.name} (released)"]
    examples = load(str(films), examples=16).splits["test"].examples
    plan = Plan()
    (experiment,) = STUDY.experiments(setting, plan)
    values = {}
    for source in ("plain", "text_rank"):
        for method, (explainer, magnitude) in METHODS.items():
            found = []
            for seed in (0, 1):
                folder = setting.out / "files" / experiment.model(source, seed).name
                model = load_model(str(folder), device="cpu")
                attributions = explain(model, examples, explainer, units="token", seed=seed)
                attributions = [one.magnitude() if magnitude else one for one in attributions]
                found += [[score.value for score in measure(model, attributions, "decision_flip")]]
            values[source, method] = np.mean(found, axis=0)  # a sentence counts once, however many seeds
            assert facts[f"{source} {method}"]["flip_fraction"] == pytest.approx(np.mean(found))
    for method in METHODS:
        p = scipy.stats.ranksums(values["text_rank", method], values["plain", method]).pvalue
        assert facts[f"text_rank {method}"]["p_unpaired"] == pytest.approx(p)
    # The released code pads instead of deleting, and a negative sum turns the order of α∇α round.
    found = []
    for seed in (0, 1):
        model = load_model(str(setting.out / "files" / experiment.model("plain", seed).name), device="cpu")
        attributions = explain(model, examples, METHODS["attention_x_gradient"][0], units="token", seed=seed)
        turned = [replace(one, scores=one.scores / one.scores.sum()) for one in attributions]
        found += [score.value for score in measure(model, turned, "decision_flip(masking=pad)")]
    assert padded["plain attention_x_gradient"]["flip_fraction"] == pytest.approx(np.mean(found))
    assert "padded" in released.title
    one = attributions[0]
    for scores, order in (([3.0, -1.0, 1.0], [0, 2, 1]), ([-3.0, 1.0, -1.0], [0, 2, 1]), ([1.0, 0.0, -1.0], [0, 1, 2])):
        turned = over_sum(replace(one, scores=np.array(scores, np.float32)))
        assert np.argsort(-turned.scores, kind="stable").tolist() == order  # a sum of 0 changes nothing
    assert "of='probability'" in catalog.spec(catalog.build("explainers", METHODS["integrated_gradients"][0]))
    assert facts["plain attention"]["flip_fraction"] < 1


def test_what_is_stored_is_not_done_again(setting):
    sections(setting, "performance")
    before = {cell.name: cell.finished for cell in Store(setting.out).cells()}
    performance, _ = sections(setting, "performance")
    assert {cell.name: cell.finished for cell in Store(setting.out).cells()} == before
    (facts,) = performance.facts.values()
    assert facts["lambda"] == 1e-3
    assert len(facts["plain"]) == 2


def test_macro_f1_is_scikit_learns(films, setting):
    from sklearn.metrics import f1_score

    performance, _ = sections(setting, "performance")
    plan = Plan()
    (experiment,) = STUDY.experiments(setting, plan)
    labels, predicted = Results(Store(setting.out)).predicted(experiment.model("plain", 1))
    assert performance.facts[films.name]["plain"][1] == pytest.approx(f1_score(labels, predicted, average="macro"))


@pytest.mark.full
def test_fresh_tables_stand_beside_full_text_uniform_and_random(films, setting):
    top, span = sections(setting, "fresh")
    facts = top.facts["top_k"][films.name]
    assert set(facts["macro_f1"]) == {"full text", "plain", "text_rank", "uniform", "random"}
    assert all(len(values) == 2 for values in facts["macro_f1"].values())
    p = scipy.stats.ttest_ind(facts["macro_f1"]["text_rank"], facts["macro_f1"]["plain"]).pvalue
    assert facts["p"] == pytest.approx(p, nan_ok=True) or facts["p"] in (0.0, 1.0)
    assert "contiguous" in span.facts
    assert span.title.startswith("Table 7")


def test_examples_and_parts_of_speech(films, setting, monkeypatch, tmp_path):
    (tmp_path / "test_saloss_study_tagger.py").write_text(
        "def tags(words):\n    return ['ADJ' if word in ('awful', 'great') else 'X' for word in words]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (section,) = sections(setting, "part_of_speech")
    assert [row[:2] for row in section.rows] == [["ADJ", 16], ["X", 144]]
    plan = Plan()
    (experiment,) = STUDY.experiments(setting, plan)
    texts = {one.id: one.text for one in experiment.data.splits["test"]}
    scores = []
    for seed in (0, 1):
        for row in Results(Store(setting.out)).table(experiment.words("plain", seed)).to_pylist():
            words = [texts[row["example_id"]][a:b] for a, b in zip(row["starts"], row["ends"], strict=True)]
            powers = np.exp(np.array(row["scores"]) / np.abs(row["scores"]).sum())
            shares = powers / powers.sum()
            assert len(shares) == 10
            scores += [share for word, share in zip(words, shares, strict=True) if word in ("awful", "great")]
    assert section.rows[0][2] == pytest.approx(np.mean(scores))
    # Every text's shares sum to 1, so no figure of a text of ten words reads 0.000.
    assert sum(row[1] * row[2] for row in section.rows) == pytest.approx(16)
    assert min(row[2] for row in section.rows) > 0.01
    assert section.draw is not None
    own = Saloss(**{**STUDY.__dict__, "tagger": lambda words: ["W"] * len(words)})
    assert [row[:2] for row in sections(setting, "part_of_speech", own)[0].rows] == [["W", 160]]
    for row in sections(setting, "examples")[0].rows:
        assert row[2] in row[4]
        assert row[2] != row[3]


def test_a_tagger_that_is_not_there_is_said_not_failed(setting):
    (none,) = sections(setting, "part_of_speech", Saloss(**{**STUDY.__dict__, "tagger": ""}))
    assert "No tagger was named" in none.words
    (absent,) = sections(setting, "part_of_speech", Saloss(**{**STUDY.__dict__, "tagger": "spacy:no_such_pipeline"}))
    assert absent.words.startswith("Left out: the spaCy pipeline no_such_pipeline is not installed")
    for name, message in [
        ("pos", "a tagger is spacy:PIPELINE or"),
        ("json:nothing", "there is no tagger json:nothing"),
    ]:
        with pytest.raises(TrothError, match=message):
            _words.find_tagger(name)
    with pytest.raises(TrothError, match="gave 1 tags for 2 words"):
        _words.mean_by_tag(lambda words: ["X"], [(["a", "b"], np.zeros(2))])


def test_lambda_is_searched_on_the_development_set(films, tmp_path):
    study = Saloss(weight="search", epochs=1, batch_size=16, learning_rate=5e-3, examples=8)
    setting = studies.Setting(tmp_path / "out", (str(films),), BASE, (0,), limit=32)
    table, _ = sections(setting, "performance", study)
    plan = Plan()
    (experiment,) = study.experiments(setting, plan)
    results = Results(Store(setting.out))
    flips = {weight: np.nanmean(results.values(cell)) for weight, cell in experiment.search().items()}
    assert set(flips) == {1e-2, 1e-3, 1e-4}
    assert table.facts[films.name]["lambda"] == min(flips, key=lambda weight: (flips[weight], weight))


@pytest.mark.full
def test_a_sweep_of_lambda_says_what_it_does_to_attention_and_flips(films, setting):
    study = Saloss(**{**STUDY.__dict__, "weights": (1e-3, 10.0)})
    (section,) = sections(setting, "weights", study)
    facts = section.facts[films.name]
    assert list(facts) == ["0", "0.001", "10"]
    (flips, _) = sections(setting, "decision_flip")
    for weight, source in (("0", "plain"), ("0.001", "text_rank")):  # 0.001 is what Table 2 has
        for method in METHODS:
            flip = flips.facts[films.name][f"{source} {method}"]
            assert facts[weight][method]["flip_fraction"] == pytest.approx(flip["flip_fraction"])
            if weight != "0":
                assert facts[weight][method]["more_than_plain"] == pytest.approx(flip["more_than_plain"], nan_ok=True)
    # KL(α, σ) by hand, and a large λ draws attention to σ.
    plan = Plan()
    (experiment,) = study.experiments(setting, plan)
    folder = setting.out / "files" / experiment.model("plain", 0).name
    examples = load(str(films), examples=16).splits["test"].examples
    each = []
    for one in explain(load_model(str(folder), device="cpu"), examples, "attention", units="token"):
        alpha, sigma = one.scores / one.scores.sum(), text_rank(one.units)
        each.append((alpha * np.log(alpha / (sigma / sigma.sum()))).sum())
    assert facts["0"]["divergence"][0] == pytest.approx(np.mean(each), rel=1e-3)
    assert np.mean(facts["10"]["divergence"]) < 0.5 * np.mean(facts["0"]["divergence"])
    assert "over all weights and seeds" in section.words
    (none,) = sections(setting, "weights")
    assert "No weights were named" in none.words


def test_a_dry_run_trains_nothing(films, setting, tmp_path):
    fresh = studies.Setting(tmp_path / "dry", (str(films),), BASE, (0,))
    plan = STUDY.plan("fresh", fresh)
    assert sorted({cell.kind for cell in plan.cells.values()}) == ["data", "fresh", "training"]
    assert plan.probes == {"training": "", "fresh": ""}
    assert STUDY.plan("data", fresh) is None


def test_a_base_that_is_not_there_is_one_line(films, tmp_path):
    setting = studies.Setting(tmp_path / "out", (str(films),), "./no/such/base", (0,))
    with pytest.raises(TrothError, match=r"^there is no model folder"):
        sections(setting, "performance")


@pytest.mark.data
@pytest.mark.skipif("TROTH_DATA" not in os.environ, reason="needs the real data sets")
def test_sst_has_the_papers_splits(tmp_path):
    (section,) = Saloss().sections("data", studies.Setting(tmp_path / "out", ("sst",)))
    assert section.rows[0][1:4] == [6920, 872, 1821]
    assert [int(value) for value in section.rows[0][6:9]] == section.rows[0][1:4]


def test_the_papers_numbers():
    flip = {"table": "2", "dataset": "SST", "method": "attention"}
    assert published.number("saloss_decision_flip", "fraction", **flip, model="baseline") == 0.55
    assert published.number("saloss_decision_flip", "fraction", **flip, model="saloss") == 0.42
    other = {"table": "8", "dataset": "AG", "method": "IG", "salience": "chisquared"}
    assert published.number("saloss_decision_flip", "fraction", **other) == 0.56
    assert published.number("saloss_fresh", "f1", table="7", dataset="SemEval", salience="uniform") == 0.42
    assert published.number("saloss_performance", dataset="AG", quantity="lambda") == 1e-4
    assert published.number("saloss_fresh", "f1", table="7", dataset="", salience="uniform") is None


@pytest.mark.full
def test_the_recipes_report(films, tmp_path, monkeypatch):
    monkeypatch.setattr(recursive_erasure, "performance_of", lambda data: "macro_f1")  # as of data of the catalog
    study = catalog.build("studies", "recipes(epochs=4, batch_size=16, learning_rate=0.005, examples=12, "
                          "explainers=('attention',))")  # fmt: skip
    setting = studies.Setting(tmp_path / "out", (str(films),), BASE, (0,))
    (section,) = studies.carry_out(study, setting)
    (facts,) = section.facts.values()
    assert list(facts) == ["plain", "masked", "salience", "masked + salience"]
    for recipe in facts.values():
        for name, found in recipe.items():
            if name != "out_of_distribution" and not np.isnan(found["value"]):
                assert found["low"] - 1e-9 <= found["value"] <= found["high"] + 1e-9, name
    assert "From plain to masked + salience, on the same examples, seed by seed, attention: accuracy" in section.words
    assert "RACU is of the macro-f1." in section.words
    more = facts["masked"]["flip fraction"]["more_than_plain"]  # one seed: the mean difference over the same examples
    assert more["mean"] == pytest.approx(
        facts["masked"]["flip fraction"]["value"] - facts["plain"]["flip fraction"]["value"]
    )
    assert "more_than_plain" not in facts["plain"]["flip fraction"]
    metric, results = recursive_erasure.RecursiveErasure(performance="macro_f1"), Results(Store(setting.out))
    plan = study.plan("report", setting)
    racu = [cell for cell in plan.of("metric") if cell.specs["metric"].startswith("recursive_erasure")]
    values = [metric.summarize(results.scores(cell)).value for cell in racu]
    np.testing.assert_allclose(values, [found["RACU"]["value"] for found in facts.values()])
    # What RACU masked is tested against held-out texts as the recipe's training had them.
    for check, (recipe, found) in zip(plan.of("erased_check"), facts.items(), strict=True):
        references = "half masked" if "masked" in recipe else "whole"
        rows = [row for row in results.rows(check) if (row["references"], row["variant"]) == (references, "calibrated")]
        p = [data_set_p_value(column) for column in np.array([row["p"] for row in rows]).T[1:]]
        joined = min(value * 10 / rank for rank, value in enumerate(sorted(p), start=1))  # Simes
        assert found["out_of_distribution"] == {"cases": sum(np.less(p, 0.05)), "of": 10, "p": pytest.approx(joined)}
    page = (tmp_path / "out" / "study.md").read_text()
    assert "RACU (higher is better)" in page
    assert "masked inputs out of distribution" in page
    assert (tmp_path / "out" / "01-report.png").is_file()
    with pytest.raises(TrothError, match="name a model to start from: --base"):
        list(study.sections("report", studies.Setting(tmp_path / "none", (str(films),))))


def test_recipes_are_compared_on_the_same_examples_seed_by_seed():
    """By hand: every example moves by 0.1 in both seeds, far less than examples differ; RACU lacks a seed."""
    plain = {"flip fraction": [[0.1, 0.9, 0.5], [0.2, 0.8, 0.6]], "RACU": [[0.5], [], [0.25]]}
    masked = {"flip fraction": [[0.2, 1.0, 0.6], [0.3, 0.9, 0.7]], "RACU": [[0.75], [0.5], [1.0]]}
    more = recipes._more({"plain": plain, "masked": masked}, "masked", "plain")
    assert more["flip fraction"][:3] == pytest.approx((0.1, 0.1, 0.1))
    assert (more["flip fraction"].seeds, more["flip fraction"].texts) == (2, 3)
    assert (more["RACU"].mean, more["RACU"].seeds) == (0.5, 2)
    words = recipes._change("attention", {**more, "accuracy": crossed_mean([[float("nan")]])})
    assert words.startswith("From plain to masked + salience, on the same examples, seed by seed, attention: flip")
    assert "RACU +0.500 [-2.677, +3.677], p = 0.3" in words  # Student's t of one degree of freedom: 12.706 · 0.25
    assert "accuracy" not in words


@pytest.mark.full
def test_the_fresh_command(films, tmp_path):
    command = ["fresh", "--data", str(films), "--base", BASE, "--epochs", "3", "--batch-size", "16", "--lr", "0.005",
               "--limit", "48", "--out", str(tmp_path / "out"), "--json"]  # fmt: skip
    done = CliRunner().invoke(app, [*command, "--seeds", "1"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert list(said["macro_f1"]) == ["full text", "plain", "text_rank", "uniform", "random"]
    assert said["p"]["uniform"] is None  # one seed
    files = {path.name for path in (tmp_path / "out" / "rationales").iterdir()}
    assert {f"{name}-seed0-test.jsonl" for name in ("plain", "text_rank", "uniform", "random")} <= files
    # One's own model chooses the rationales.
    own = next(path for path in (tmp_path / "out" / "files").iterdir() if (path / "config.json").is_file())
    mine = CliRunner().invoke(app, [*command, "--seeds", "1", "--support", str(own), "-e", "gradient"])
    assert list(json.loads(mine.stdout)["macro_f1"]) == ["full text", "support", "random"]
    for options, message in [
        (["--ratio", "0"], "ratio must lie in (0, 1], not 0"),
        (["--ratio", "1.5"], "ratio must lie in (0, 1], not 1.5"),
        (["--thresholder", "span"], "a thresholder is top_k or contiguous, not 'span'"),
        (["--seeds", "0"], "--seeds must be 1 to 1,000"),
    ]:
        failed = CliRunner().invoke(app, [*command, *options])
        assert isinstance(failed.exception, TrothError)
        assert message in str(failed.exception)
