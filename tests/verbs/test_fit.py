"""Fitting an attribution model: examples, search, choice by the metric, the command, and a planted word."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import troth
from asking import Additive
from fakes import attribution_model, encoder, hf_model, tokenizer_for
from troth.attribution_model import saving
from troth.attribution_model import search as _attributive_search
from troth.attribution_model.fitting import is_better, train
from troth.attribution_model.losses import DualMask
from troth.attribution_model.start import choose, stratified
from troth.cli import app
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models.encoder import Encoder
from troth.training.examples import load_training
from troth.verbs.fit import METRICS, Settings, fit, judge, lambdas_of

WORDS = ["film", "book", "plot", "cast", "service", "phone", "bill", "soup", "the", "was", "a", "with", "and"]


def planted(count, seed=0):
    """Texts of which every second one holds "awful" somewhere."""
    random = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        words = list(random.choice(WORDS, size=random.integers(4, 9)))
        if number % 2:
            words[random.integers(len(words))] = "awful"
        examples.append(Example(f"{seed}-{number}", " ".join(words), label=number % 2))
    return examples


SMALL = {"examples": 40, "validation": 8, "epochs": 1, "trials": 2, "trial_examples": 20, "trial_epochs": 1}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A classifier and a backbone on the disk."""
    folder = tmp_path_factory.mktemp("models")
    for name, classes in (("classifier", 2), ("other", 3)):
        hf_model(classes=classes).save_pretrained(folder / name)
        tokenizer_for("bert").save_pretrained(folder / name)
    rows = [{"id": one.id, "text": one.text, "label": one.label} for one in planted(60)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_the_planted_word_comes_first(folders, tmp_path):
    model = Additive({"awful": 6.0}, bias=-3.0)
    settings = Settings(examples=200, validation=40, epochs=12, learning_rate=1e-2, validate_every=1)
    weights, metric = {"prediction": 1.0, "sparsity": 0.3, "inverse": 1.0}, "comprehensiveness(ratio=0.25)"
    fitted = fit(
        model, planted(240), tmp_path, backbone=str(folders / "classifier"), metrics=[metric], lambdas=weights,
        settings=settings,
    )  # fmt: skip
    report = fitted.reports[metric]
    assert report["best_step"] == max(report["history"], key=lambda one: one[metric])["step"]
    assert report["scores"][metric] == max(one[metric] for one in report["history"])
    unseen = [one for one in planted(40, seed=1) if "awful" in one.text]
    for attribution in troth.explain(model, unseen, f"attributive_masking(checkpoint={str(tmp_path)!r})"):
        assert attribution.units[int(np.argmax(attribution.scores))] == "awful"


def test_examples_are_stratified_and_apart():
    labels = ["a"] * 90 + ["b"] * 30
    order = stratified(labels, 3)
    assert sorted(order) == list(range(120))
    for count in (4, 40, 80):
        assert sum(labels[place] == "b" for place in order[:count]) == count // 4
    assert stratified(labels, 4) != order
    model = encoder("bert", classes=2)
    training, validation = choose(model, planted(60), Settings(examples=20, validation=6))
    assert (len(training.encodings), len(validation.encodings)) == (20, 6)
    ids = [encoding.example.id for part in (training, validation) for encoding in part.encodings]
    assert len(set(ids)) == 26
    assert sum(encoding.example.label for encoding in training.encodings) == 10
    said = model.model(training.encodings[0].ids[None]).logits.softmax(-1)[0]
    torch.testing.assert_close(training.probabilities[0], said, rtol=1e-4, atol=1e-5)
    unlabelled = [Example(one.id, one.text) for one in planted(60)]
    assert len(choose(model, unlabelled, Settings())[1].encodings) == 10  # a sixth of what there is


def test_training_is_repeatable_and_decays_to_nothing():
    model = encoder("bert", classes=2)
    training, _ = choose(model, planted(40), Settings(examples=30))
    results = []
    for _ in range(2):
        own = attribution_model(classes=2)
        frozen = own.backbone.get_input_embeddings().weight.clone()
        torch.manual_seed(len(results))  # the user's own random state has no part in it
        train(model, own, training, DualMask(), Settings(learning_rate=1e-3), epochs=2)
        torch.testing.assert_close(own.backbone.get_input_embeddings().weight, frozen)
        results.append(own.state_dict())
    for name, weight in results[0].items():
        torch.testing.assert_close(weight, results[1][name])
    before = attribution_model(classes=2).state_dict()
    assert any(not torch.equal(weight, before[name]) for name, weight in results[0].items())


def test_an_accumulated_step_is_one_step():
    model = encoder("bert", classes=2)
    training, _ = choose(model, planted(30), Settings(examples=12))
    results = []
    for rows in (None, 5):
        own = attribution_model(classes=2)
        for module in own.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        own.backbone.config.attention_probs_dropout_prob = 0.0
        settings = Settings(batch_size=12, rows_per_pass=rows, learning_rate=1e-3)
        for layer in own.backbone.encoder.layer:
            layer.attention.self.dropout.p = 0.0
        train(model, own, training, DualMask(), settings, epochs=1)
        results.append(own.state_dict())
    for name, weight in results[0].items():
        torch.testing.assert_close(weight, results[1][name], rtol=1e-3, atol=1e-4)


def test_the_search_keeps_the_best_for_each_metric(tmp_path, monkeypatch):
    asked = []

    def attempt(losses):
        asked.extend(losses)
        return [{"comprehensiveness": loss.inverse, "sufficiency": loss.prediction} for loss in losses]

    def look(trials, file, *, search="auto", seed=0, say=None):
        return _attributive_search.search(
            DualMask(inverse_form="probability"), ("sparsity",), ["comprehensiveness", "sufficiency"], trials, seed,
            attempt, file, {"of": "this"}, say, search,
        )  # fmt: skip

    found = look(8, tmp_path / "search.json")
    assert found["sampler"] == "optuna TPE"
    trials = [trial["lambdas"] for trial in found["trials"]]
    assert found["best"]["comprehensiveness"]["inverse"] == max(trial["inverse"] for trial in trials)
    assert found["best"]["sufficiency"]["prediction"] == min(trial["prediction"] for trial in trials)
    assert all(trial["sparsity"] == 0 and 0 <= trial["inverse"] <= 1 for trial in trials)
    assert asked[0].inverse_form == found["best"]["sufficiency"]["inverse_form"] == "probability"
    # Killed after five of eight trials, it goes on with the sixth and comes to the same.
    killed = json.loads((tmp_path / "search.json").read_text())
    killed["trials"] = killed["trials"][:5]
    (tmp_path / "again.json").write_text(json.dumps(killed))
    asked.clear()
    assert look(8, tmp_path / "again.json") == found
    assert len(asked) == 3
    # Random points, by name: other ones with another seed, the same ones with the same.
    drawn = [look(3, tmp_path / f"random-{seed}.json", search="random", seed=seed) for seed in (0, 1)]
    assert drawn[0]["sampler"] == "random points"
    first, second = ([trial["lambdas"] for trial in one["trials"]] for one in drawn)
    assert not any(one["inverse"] == other["inverse"] for one in first for other in second)
    again = look(3, tmp_path / "random-again.json", search="random", seed=1)
    assert [trial["lambdas"] for trial in again["trials"]] == second
    # Without Optuna: Sobol points, which is said.
    monkeypatch.setattr(_attributive_search.importlib.util, "find_spec", lambda name: None)
    lines = []
    points = look(8, tmp_path / "sobol.json", say=lines.append)
    assert points["sampler"] == "Sobol points"
    assert "Optuna is not installed" in lines[0]
    with pytest.raises(TrothError, match=r"needs Optuna: pip install 'troth\[hpo\]', or use --search sobol"):
        look(1, tmp_path / "tpe.json", search="tpe")
    inverse = sorted(trial["lambdas"]["inverse"] for trial in points["trials"])
    assert [int(8 * weight) for weight in inverse] == list(range(8))  # one in every eighth, as Sobol points are


def test_a_search_for_each_metric(folders, tmp_path):
    """As in the paper: so many trials for every metric, each aiming at that metric alone."""
    settings = Settings(**SMALL, trials_per_metric=True, search="random")
    metrics = ["comprehensiveness", "sufficiency"]
    fitted = fit(
        str(folders / "classifier"), str(folders / "data.jsonl"), tmp_path / "g", metrics=metrics, settings=settings
    )
    for metric in metrics:
        trials = fitted.reports[metric]["search"]["trials"]
        assert len(trials) == 2
        assert all(set(trial["scores"]) == {metric} for trial in trials)
        assert (tmp_path / "g" / f"search-{metric}.json").is_file()
    assert not (tmp_path / "g" / "search.json").exists()


def test_a_seed_changes_all_that_is_drawn(folders, tmp_path):
    """The sample, the order, the weights of the losses, and what is new in G."""
    reports = []
    for seed in (0, 1, 0):
        settings = Settings(**SMALL, seed=seed)
        out = tmp_path / str(len(reports))
        reports.append(fit(str(folders / "classifier"), str(folders / "data.jsonl"), out, settings=settings).reports)
    first, second, again = (next(iter(one.values())) for one in reports)
    assert first["identity"]["start"] != second["identity"]["start"]
    trials = [[trial["lambdas"] for trial in one["search"]["trials"]] for one in (first, second)]
    assert not any(one == other for one, other in zip(*trials, strict=True))
    assert first["scores"] != second["scores"]
    assert (first["scores"], first["search"]) == (again["scores"], again["search"])
    model = encoder("bert", classes=2)
    samples = [choose(model, planted(60), Settings(examples=20, validation=6, seed=seed))[0] for seed in (0, 1)]
    ids = [{encoding.example.id for encoding in sample.encodings} for sample in samples]
    assert ids[0] != ids[1]


def test_better_follows_the_metric():
    assert is_better("comprehensiveness")({"comprehensiveness": 2}, {"comprehensiveness": 1})
    assert is_better("log_odds")({"log_odds": -2}, {"log_odds": -1})
    assert not is_better("sufficiency")({"sufficiency": float("nan")}, {"sufficiency": 1})
    assert is_better("sufficiency")({"sufficiency": 9}, {"sufficiency": float("nan")})


def test_judge_is_measure():
    model, own = encoder("bert", classes=2), attribution_model(classes=2)
    _, validation = choose(model, planted(40), Settings())
    found = judge(model, own, validation, ["comprehensiveness", "aopc_sufficiency"])
    from troth.explainers.attributive_masking import AttributiveMasking

    examples = [encoding.example for encoding in validation.encodings]
    maps = troth.explain(model, examples, AttributiveMasking("", fitted=own), units="token")
    for metric, value in found.items():
        assert value == pytest.approx(np.mean([score.value for score in troth.measure(model, maps, metric)]), abs=1e-6)


def test_the_command_for_all_metrics_and_again(folders, tmp_path):
    out = tmp_path / "fitted"
    about = {"model": folders / "classifier", "data": folders / "data.jsonl", "out": out, "metric": "all", **SMALL}
    command = ["fit", "attributive_masking", "--json"]
    command += [part for name, value in about.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert set(said["folders"]) == set(METRICS)
    for metric, folder in said["folders"].items():
        report = saving.facts(folder)
        assert report["metric"] == metric
        assert report["loss"] == report["search"]["best"][metric]
        assert len(report["search"]["trials"]) == 2
        assert set(report["scores"]) == set(METRICS)
        assert report["settings"]["learning_rate"] == 4e-5
        assert report["data"]["training"] == 40
    written = (out / "log_odds" / saving.FACTS).stat().st_mtime_ns
    again = CliRunner().invoke(app, command)
    assert json.loads(again.stdout) == said
    assert (out / "log_odds" / saving.FACTS).stat().st_mtime_ns == written  # found, not done again


def test_bad_input(folders, tmp_path):
    classifier, data = str(folders / "classifier"), str(folders / "data.jsonl")
    settings = Settings(**SMALL)
    given = {"prediction": 1.0, "sparsity": 1.0, "inverse": 1.0}
    fit(classifier, data, tmp_path / "one", lambdas=given, settings=settings)
    spec = f"attributive_masking(checkpoint={str(tmp_path / 'one')!r})"
    with pytest.raises(TrothError, match=r"fitted for the classes LABEL_0, LABEL_1, but .*other has LABEL_0, LABEL_1"):
        troth.explain(str(folders / "other"), "a good film", spec)
    with pytest.raises(TrothError, match="contains a different attribution model"):
        fit(classifier, data, tmp_path / "one", lambdas={**given, "inverse": 0.5}, settings=settings)
    fit(classifier, data, tmp_path / "one", lambdas={**given, "inverse": 0.5}, settings=settings, restart=True)
    assert saving.facts(tmp_path / "one")["loss"]["inverse"] == 0.5
    with pytest.raises(TrothError, match="cannot be chosen by recursive_erasure"):
        fit(classifier, data, tmp_path / "two", metrics=["recursive_erasure"])
    with pytest.raises(TrothError, match="no loss is called 'invers'; did you mean inverse"):
        fit(classifier, data, tmp_path / "two", without=["invers"])
    with pytest.raises(TrothError, match="too few to fit"):
        fit(classifier, planted(4), tmp_path / "two")
    with pytest.raises(TrothError, match="three numbers"):
        lambdas_of("1,2")
    with pytest.raises(TrothError, match="epochs must be above 0"):
        Settings(epochs=0)
    with pytest.raises(TrothError, match="has no word vectors"):
        fit(lambda texts: [[0.5, 0.5] for _ in texts], data, tmp_path / "two")
    result = CliRunner().invoke(app, ["fit", "lime"])
    assert isinstance(result.exception, TrothError)
    assert "there are: attributive_masking" in str(result.exception)


def test_the_training_split_is_used_where_there_is_one(tmp_path):
    for split, examples in (("train", planted(12)), ("test", planted(14, seed=1))):
        rows = [{"id": one.id, "text": one.text, "label": one.label} for one in examples]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(load_training(tmp_path, required=False)) == len(load_training(str(tmp_path), required=False)) == 12
    (tmp_path / "train.jsonl").unlink()
    assert len(load_training(tmp_path, required=False)) == 14
    assert load_training("reviews", required=False).split == "test"  # the only one it has
    assert len(load_training(planted(9), required=False)) == 9


def test_a_model_that_cannot_pad_gets_texts_of_one_length():
    from troth.attribution_model.fitting import parts_of
    from troth.training.corpus import Corpus

    model = Encoder(hf_model("bert", classes=2), tokenizer_for("bert"), name="unpadded")
    model.reads_last = True  # then nothing is padded
    training, _ = choose(model, planted(40), Settings(examples=20))
    corpus = Corpus(training.encodings, [0] * 20)
    parts = list(parts_of(model, corpus, torch.arange(20), None))
    assert sorted(torch.cat(parts).tolist()) == list(range(20))
    assert all(len(set(corpus.lengths[part].tolist())) == 1 for part in parts)
