"""The AML study: seeds that count, the paper's test splits, what a dry run tells, prompts, and long texts."""

import importlib.util
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import fakes
import troth
from fakes import CORPUS, hf_model, tokenizer_for
from troth import studies
from troth.attribution_model.start import FitSettings
from troth.cli import app
from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Score
from troth.statistics import crossed_mean
from troth.store.specs import ModelSpec
from troth.store.store import Store
from troth.store.tables import table_to_scores
from troth.studies.aml import _experiment as _aml_experiment
from troth.studies.aml import _works as _aml_works
from troth.studies.aml._experiment import METRICS, reduced
from troth.verbs import fit as attributive_masking

TINY = (
    "aml(examples=5, methods=('GXI',), steps=1, fit_examples=10, fit_epochs=1, validation=4, trials=1, "
    "trial_examples=6, trial_epochs=1, learning_rate=0.01, search='random'{more})"
)


def write(path, count, label=lambda number: number % 2, text=lambda number: CORPUS[number % len(CORPUS)]):
    rows = [{"id": str(number), "text": text(number), "label": label(number)} for number in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aml")
    hf_model(classes=2).save_pretrained(folder / "model")
    tokenizer_for("bert").save_pretrained(folder / "model")
    write(folder / "data.jsonl", 21)
    return folder


def setting_of(place, out, seeds=(0,), **options):
    return studies.Setting(out, (str(place / "data.jsonl"),), str(place / "model"), seeds, **options)


def test_seeds_are_averaged_within_an_example_first():
    """By hand: two seeds of three examples; the same seed twice changes nothing."""
    metric = catalog.build("metrics", "comprehensiveness")
    seeds = {0: [Score(0.1), Score(0.5), Score(0.9)], 1: [Score(0.3), Score(0.5), Score(0.1)]}
    found = reduced(metric, seeds)
    assert found.summary.value == pytest.approx((0.2 + 0.5 + 0.5) / 3)
    assert (found.summary.low, found.summary.high) == crossed_mean([[0.1, 0.5, 0.9], [0.3, 0.5, 0.1]])[1:3]
    assert found.summary.count == 3
    assert found.by_seed == {0: pytest.approx(0.5), 1: pytest.approx(0.3)}
    assert found.spread == pytest.approx(np.sqrt(2) * 0.1)
    alone, again = reduced(metric, {0: seeds[0]}), reduced(metric, {0: seeds[0], 1: seeds[0]})
    assert (again.summary.value, again.summary.low, again.summary.high) == pytest.approx(
        (alone.summary.value, alone.summary.low, alone.summary.high)
    )
    assert (alone.spread, again.spread) == (None, 0)
    undefined = reduced(metric, {0: [Score(0.1), Score(np.nan, why="no units")], 1: [Score(0.3), Score(np.nan)]})
    assert (undefined.summary.value, undefined.summary.undefined) == (pytest.approx(0.2), {"no units": 1})


@pytest.mark.full
def test_every_seed_has_its_own_attribution_models(place, tmp_path):
    study = catalog.build("studies", TINY.format(more=""))
    (one,) = studies.carry_out(study, setting_of(place, tmp_path / "out"), ["main"])
    (two,) = studies.carry_out(study, setting_of(place, tmp_path / "out", (0, 1)), ["main"])
    first, both = one.facts["data.jsonl"], two.facts["data.jsonl"]
    assert both["seeds"] == [0, 1]
    weights = {row["seed"]: row["prediction"] for row in both["lambdas"]}
    assert weights[0] != weights[1]  # of the losses
    assert len(list((tmp_path / "out" / "files").iterdir())) == 2
    for short in METRICS:
        for method in ("fAML", "pAML", "random"):
            found = both["methods"][method][short]
            assert found["by_seed"]["0"] == pytest.approx(first["methods"][method][short]["value"])
            assert found["value"] == pytest.approx(np.mean(list(found["by_seed"].values())))
            assert found["examples"] == 5  # not ten
        assert len(both["methods"]["GXI"][short]["by_seed"]) == 1  # it draws nothing
    assert both["methods"]["random"]["aopc_comp"]["spread"] > 0
    assert both["methods"]["pAML"]["aopc_comp"]["spread"] > 0
    # Every seed's scores are stored.
    store = Store(tmp_path / "out")
    cells = [cell for cell in store.cells() if cell.kind == "metric" and cell.specs["explainer"] == "random"]
    kept = {cell.specs["seed"]: table_to_scores(store.table(cell.name)) for cell in cells
            if cell.specs["metric"] == "comprehensiveness"}  # fmt: skip
    mean = np.mean([score.value for scores in kept.values() for score in scores])
    assert both["methods"]["random"]["comp"]["value"] == pytest.approx(mean)
    assert "2 seeds" in two.words
    assert " ± " in {row[0]: row for row in two.rows}["pAML"][1]


@pytest.mark.parametrize(
    ("name", "split"),
    [("sst2", None), ("rotten_tomatoes", "test"), ("emotion", "test"), ("imdb", "test"), ("eraser_movies", "test")],
)
def test_the_papers_test_splits(name, split, monkeypatch):
    asked = []
    monkeypatch.setattr(_aml_experiment, "load_data", lambda name, split, limit: asked.append((name, split, limit)))
    _aml_experiment.tested(name, 7)
    assert asked == [(name, split, 7)]
    if name == "sst2":  # its test labels are hidden: without a split, validation is taken
        assert "test" not in catalog.build("data", name).split_names


@pytest.mark.parametrize("per_metric", [False, True])
def test_what_a_dry_run_counts_is_what_a_fit_does(place, tmp_path, monkeypatch, per_metric):
    settings = FitSettings(
        examples=12, validation=2, epochs=2, batch_size=4, trials=2, trial_examples=8, trial_epochs=1,
        trials_per_metric=per_metric, search="random",
    )  # fmt: skip
    trained, judged = [], []
    real_train, real_judge = attributive_masking.train, attributive_masking.judge

    def train(model, own, examples, loss, settings, *, epochs, **more):
        trained.append(settings.steps(len(examples.encodings), epochs) * settings.batch_size)
        return real_train(model, own, examples, loss, settings, epochs=epochs, **more)

    def judge(model, own, examples, metrics):
        judged.append(len(examples.encodings) * (1 + sum(5 if "aopc" in metric else 1 for metric in metrics)))
        return real_judge(model, own, examples, metrics)

    monkeypatch.setattr(attributive_masking, "train", train)
    monkeypatch.setattr(attributive_masking, "judge", judge)
    metrics = ["comprehensiveness", "aopc_sufficiency"]
    attributive_masking.fit(
        str(place / "model"), str(place / "data.jsonl"), tmp_path / "g", metrics=metrics, settings=settings
    )
    foretold = _aml_works.effort(settings, metrics)
    assert (foretold.trainings, foretold.rows, foretold.judged) == (len(trained), sum(trained), sum(judged))
    assert foretold.trainings == (4 if per_metric else 2) + 2
    assert (foretold.forward, foretold.backward) == (2 * sum(trained) + sum(judged), 2 * sum(trained))


def test_a_dry_run_tells_trainings_and_time_and_fits_nothing(place, tmp_path):
    out = tmp_path / "out"
    command = ["study", TINY.format(more=""), "--only", "main", "--only", "ablation", "--seeds", "2", "--dry-run"]
    command += [
        "--data",
        str(place / "data.jsonl"),
        "--base",
        str(place / "model"),
        "--out",
        str(out),
        "--workers",
        "1",
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    main, ablation = result.stdout.split("ablation:")
    # Two seeds: a trial and five trainings each; in the ablation five more variants of a trial and two trainings.
    assert f"attribution models: {2 * 6} trainings" in main
    assert f"attribution models: {2 * (6 + 5 * 3)} trainings" in ablation
    for part in (main, ablation):
        assert re.search(r"[\d,]+ passes of the explained model and [\d,]+ back through it", part)
        assert re.search(r"time: (about \d|under 1 s)", part)
    assert not list(out.rglob("attributive.json"))
    plan = catalog.build("studies", TINY.format(more="")).plan("main", setting_of(place, out))
    assert set(plan.probes) == {cell.kind for cell in plan.cells.values() if cell.kind != "data"} | {"classifier"}


def test_a_dry_run_of_data_that_need_a_classifier(place, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "validation", "test"):
        write(data / f"{split}.jsonl", 30, lambda n: ["x", "y", "z"][n % 3], lambda n: f"{CORPUS[n % 7]} {n}")
    setting = studies.Setting(tmp_path / "out", (str(data),), str(place / "model"))
    plan = catalog.build("studies", TINY.format(more="")).plan("main", setting)
    (classifier,) = plan.of("classifier")
    assert _aml_works.seconds_of_classifier(classifier, plan.tables, setting.context) > 0
    (fit,) = plan.of("attribution_models")
    assert _aml_works.seconds_of_fit(fit, plan.tables, setting.context) > 0
    assert len(setting.context.model(ModelSpec.of(fit)).labels) == 3
    assert {cell.specs["split"] for cell in plan.of("data")} == {"test"}


def test_beam_search_on_long_texts_is_left_out_or_reckoned(place, tmp_path, monkeypatch):
    study = catalog.build("studies", "aml(examples=3)")
    monkeypatch.setattr("troth.studies.aml.LONG", 3)
    setting = setting_of(place, tmp_path / "out")
    plan = study.plan("main", setting)
    assert not [cell for cell in plan.of("explanation") if cell.specs["explainer"].startswith("beam_search")]
    model = setting.context.model_spec(str(place / "model"))
    data = _aml_experiment.tested(str(place / "data.jsonl"), 3)
    lengths = [one.n_units for one in setting.context.model(model).encode(data.examples, "token")]
    (experiment,) = study.experiments(setting, plan)
    known, (why,) = study._affordable(experiment, data), experiment.notes
    passes = np.mean([catalog.build("explainers", "beam_search(preset=solvex)").passes(n) for n in lengths])
    assert "SLVX" not in known
    assert f"about {passes:,.0f} passes per text" in why
    named = catalog.build("studies", "aml(examples=3, methods=('SLVX',))")
    (beam,) = {
        cell
        for cell in named.plan("main", setting).of("explanation")
        if cell.specs["explainer"].startswith("beam_search")
    }
    # Reckoned from its passes, not tried: a text of 225 tokens takes 2.5 million.
    monkeypatch.setattr(_aml_works, "_MOST", 10)
    monkeypatch.setattr(_aml_works, "_seconds_a_pass", lambda *about: 0.5)
    monkeypatch.setattr(_aml_works, "explain_each", lambda *about, **options: pytest.fail("it was tried"))
    seconds = _aml_works.seconds_of_explanation(beam, plan.tables, setting.context)
    assert seconds == pytest.approx(0.5 * 3 * passes)


def test_passes_of_a_beam_that_keeps_and_erases():
    # 225 candidates at first; then 50 orders times the units left, 2 to 224 of them; one at last; each kept and erased.
    rounds = 225 + 50 * sum(range(2, 225)) + 1
    assert catalog.build("explainers", "beam_search(preset=solvex)").passes(225) == 1 + 2 * rounds
    assert catalog.build("explainers", "beam_search(width=50)").passes(225) == 1 + rounds


PROMPT = ["--prompt", r"Text: {text}\nLabel:", "--class-words", "good,bad"]


@pytest.fixture
def prompted(place, tmp_path):
    """The folder of a tiny causal language model, and the command of a study of it."""
    folder, backbone = fakes.saved_causal(tmp_path / "tiny", "gpt2"), str(place / "model")
    study = TINY.format(more=f", backbone={backbone!r}")
    command = [
        "study",
        study,
        "--only",
        "main",
        "--base",
        str(folder),
        "--out",
        str(tmp_path / "out"),
        "--workers",
        "1",
    ]
    return folder, command


def test_an_attribution_model_is_fitted_to_a_prompted_model(place, tmp_path, prompted):
    folder, _ = prompted
    sizes = {"examples": 10, "validation": 3, "epochs": 1, "trials": 1, "trial-examples": 6, "search": "random"}
    command = ["fit", "attributive_masking", "--model", str(folder), "--data", str(place / "data.jsonl"), *PROMPT]
    command += ["--out", str(tmp_path / "g"), "--json"]
    command += [part for name, value in sizes.items() for part in (f"--{name}", str(value))]
    # A decoder is no attribution model: a backbone has to be named.
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, TrothError)
    assert "name one: --backbone FOLDER" in str(refused.exception)
    fitted = CliRunner().invoke(app, [*command, "--backbone", str(place / "model")])
    assert fitted.exit_code == 0, fitted.output
    model = troth.load_model(str(folder), prompt="Text: {text}\nLabel:", class_words=["good", "bad"])
    (one,) = troth.explain(model, "a good film", f"attributive_masking(checkpoint={str(tmp_path / 'g')!r}, steps=1)")
    assert len(one.scores) == 3


def test_a_study_takes_a_prompt(place, tmp_path, prompted):
    _, command = prompted
    named = write(tmp_path / "named.jsonl", 12, lambda number: ["bad", "good"][number % 2])
    told = CliRunner().invoke(app, [*command, "--data", str(named), *PROMPT, "--no-chat", "--dry-run"])
    assert told.exit_code == 0, told.output
    assert "attribution models: 6 trainings" in told.stdout
    few = CliRunner().invoke(app, [*command, "--data", str(named), *PROMPT, "--class-words", "good,bad,film"])
    assert "the prompt has 3 class words (good, bad, film), but" in str(few.exception)
    other = CliRunner().invoke(app, ["study", "roar", *PROMPT])
    assert "leave --prompt and --class-words out" in str(other.exception)


@pytest.mark.full
def test_a_prompted_model_is_studied(place, prompted):
    _, command = prompted
    told = CliRunner().invoke(app, [*command, "--data", str(place / "data.jsonl"), *PROMPT, "--json"])
    assert told.exit_code == 0, told.output
    methods = json.loads(told.stdout)["data.jsonl"]["methods"]
    assert all(np.isfinite(methods[method]["comp"]["value"]) for method in ("fAML", "pAML", "GXI"))


@pytest.mark.full
def test_a_study_without_optuna(place, tmp_path, monkeypatch):
    """Without Optuna the weights are searched by Sobol points, which is stored."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "optuna" else find(name, *more)
    )
    study = catalog.build("studies", TINY.format(more="").replace(", search='random'", ""))
    (section,) = studies.carry_out(study, setting_of(place, tmp_path / "out"), ["main"])
    assert {row["sampler"] for row in section.facts["data.jsonl"]["lambdas"]} == {"Sobol points"}


@pytest.mark.skipif("embedded" not in catalog.names("bases"), reason="the shipped model is not a base")
@pytest.mark.parametrize("part", ["main", pytest.param("all", marks=pytest.mark.full)])
def test_the_shipped_model_is_trained_for_data_of_other_classes(tmp_path, part):
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "validation", "test"):
        write(data / f"{split}.jsonl", 30, lambda n: ["x", "y", "z"][n % 3], lambda n: f"{CORPUS[n % 7]} {n}")
    study = catalog.build("studies", TINY.format(more=", classifier_epochs=1"))
    setting = studies.Setting(tmp_path / "out", (str(data),))  # no base: the shipped model, of two classes
    if part == "main":
        plan = study.plan("main", setting)
        assert [cell.specs["base"] for cell in plan.of("classifier")] == ["embedded"]
        assert {len(setting.context.model(ModelSpec.of(cell)).labels) for cell in plan.of("attribution_models")} == {3}
        return
    (section,) = studies.carry_out(study, setting, ["main"])
    assert section.title.startswith("a model trained for it on 5 examples of ")
    assert "start from embedded, from which" in section.words
