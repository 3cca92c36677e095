"""The AML study in a tiny version: every part runs, its numbers are right, the paper's stand beside."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import troth
from fakes import CORPUS, hf_model, tokenizer_for
from troth import studies
from troth.cli import app
from troth.core import catalog
from troth.core.errors import TrothError
from troth.studies import published
from troth.studies.aml._experiment import BASELINES, EXAMPLES, METRICS, of_tables

TINY = (
    "aml(examples=4, methods=('DCMP', 'SIG', 'GXI'), steps=1, fit_examples=10, fit_epochs=1, validation=4, trials=1, "
    "trial_examples=6, trial_epochs=1, learning_rate=0.01, timed=2, human='{data}')"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aml")
    hf_model(classes=2).save_pretrained(folder / "model")
    tokenizer_for("bert").save_pretrained(folder / "model")
    rows = [
        {"id": f"{turn}-{number}", "text": text, "label": number % 2, "rationale": [[0, 9]]}
        for turn in range(3)
        for number, text in enumerate(CORPUS)
    ]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def told(place):
    """Facts and tables of all parts."""
    study = catalog.build("studies", TINY.format(data=place / "data.jsonl"))
    setting = studies.Setting(place / "out", (str(place / "data.jsonl"),), str(place / "model"))
    return {section.part: section for section in studies.carry_out(study, setting)}


def test_every_part_gives_numbers(told):
    assert set(told) == {"main", "ablation", "human", "runtime", "examples"}
    methods = told["main"].facts["data.jsonl"]["methods"]
    assert set(methods) == {"fAML", "pAML", "SIG", "DCMP", "GXI", "random"}
    for by_metric in methods.values():
        assert set(by_metric) == {*METRICS, "aopc_suff_released", "aopc_comp_released"}
        assert all(np.isfinite(found["value"]) and found["low"] <= found["high"] for found in by_metric.values())
    assert told["main"].facts["data.jsonl"]["failed"] == {}
    assert "fAML is" in told["main"].words
    assert "same split" in told["main"].words
    ablation = told["ablation"].facts["methods"]
    assert len(ablation) == 12
    assert all(np.isfinite(found["value"]) for by_metric in ablation.values() for found in by_metric.values())
    human = told["human"].facts["methods"]
    assert all(0 < found["macro_f1"] <= 1 and 0 < found["micro_f1"] <= 1 for found in human.values())
    seconds = next(iter(told["runtime"].facts.values()))["seconds"]
    assert set(seconds) == {"fAML", "pAML", "SIG", "DCMP"}
    assert all(found["alone"] > 0 for found in seconds.values())


@pytest.mark.full
def test_fine_tuning_is_chosen_by_the_metric_it_is_judged_by(told, place):
    methods = told["main"].facts["data.jsonl"]["methods"]
    for short, metric in METRICS.items():
        sign = 1 if catalog.find("metrics", metric).higher_is_better else -1
        assert sign * (methods["fAML"][short]["value"] - methods["pAML"][short]["value"]) >= -1e-6


def test_the_main_table_is_what_measure_says(told, place):
    model = troth.load_model(str(place / "model"))
    examples = troth.load_data(str(place / "data.jsonl"), limit=4)
    maps = troth.explain(model, examples, "decomp_x", units="token")
    found = told["main"].facts["data.jsonl"]["methods"]["DCMP"]
    for short, metric in (
        ("comp", "comprehensiveness"),
        ("aopc_comp", "aopc_comprehensiveness"),
        ("aopc_comp_released", "aopc_comprehensiveness(variant=released)"),
        ("aopc_suff_released", "aopc_sufficiency(variant=released)"),
    ):
        expected = np.mean([score.value for score in troth.measure(model, maps, metric)])
        assert found[short]["value"] == pytest.approx(expected, abs=1e-6)
    (row,) = (row for row in told["main"].rows if row[0] == "DCMP")
    shown = dict(zip(told["main"].columns, row, strict=True))  # the last of each name: released is of aopc_comp
    assert shown["released"] == found["aopc_comp_released"]["value"]


def test_the_papers_numbers_stand_beside(told):
    about = {"model": "BERT", "method": "fAML", "metric": "comp"}
    assert published.number("aml_encoder", dataset="SST2", **about) == 0.467
    assert published.number("aml_encoder", dataset="bAbI", **about) is None
    assert of_tables("somewhere/imdb", "BERT", "fAML", "comp") == 0.808  # a folder is known by its name
    ours = {row[0]: row for row in told["ablation"].rows}
    assert ours["fAMLXpred"][2::2] == [0.02, 0.71]
    assert ours["fAML L_a = L1"][2::2] == [None, None]
    human = {row[0]: row for row in told["human"].rows}
    assert human["pAML"][2::2] == [0.110, 0.092]
    named = {row["method"] for row in published.read("aml_encoder")}
    assert named - {"fAML", "pAML"} == set(BASELINES) - {"random"}
    timed = {row["method"] for row in published.read("aml_runtime")}
    assert {"SLVX-beamsize-10", "SLVX-beamsize-50", "SLVX-beamsize-100"} <= timed


def test_the_first_three_tokens_are_bold(told, place):
    model = troth.load_model(str(place / "model"))
    texts = [example.text for example in troth.load_data(str(place / "data.jsonl"), limit=4)]
    rows = [row for row in told["examples"].rows if row[1] == "DCMP"]
    assert {row[1] for row in told["examples"].rows} == {"fAML", "pAML", "SIG", "DCMP"}
    for attribution, text, (label, _, shown) in zip(
        troth.explain(model, texts, "decomp_x", units="token"), texts, rows, strict=True
    ):
        assert label == attribution.label(attribution.target)
        assert shown.replace("**", "") == text
        bold = [piece for number, piece in enumerate(shown.split("**")) if number % 2]
        first = np.argsort(-attribution.scores, kind="stable")[:3]
        expected = "".join(text[start:end] for start, end in sorted(attribution.spans[place] for place in first))
        assert "".join(bold) == expected


def test_the_papers_texts_are_shown(place, tmp_path):
    """Emotion has two of them, which are not a pair of texts."""
    folder = tmp_path / "emotion"
    folder.mkdir()
    (folder / "train.jsonl").write_bytes((place / "data.jsonl").read_bytes())
    study = catalog.build("studies", TINY.format(data=place / "data.jsonl").replace("'DCMP', 'SIG', 'GXI'", "'DCMP',"))
    setting = studies.Setting(tmp_path / "out", (str(folder),), str(place / "model"))
    (section,) = studies.carry_out(study, setting, ["examples"])
    shown = [row[2].replace("**", "") for row in section.rows if row[1] == "DCMP"]
    assert shown == list(EXAMPLES["EMR"])


def test_what_is_stored_is_not_done_again(told, place):
    name = TINY.format(data=place / "data.jsonl")
    before = {path: path.stat().st_mtime_ns for path in (place / "out" / "files").rglob("attributive.json")}
    assert len(before) == 5 + 5 * 2
    command = ["study", name, "--only", "main", "--data", str(place / "data.jsonl"), "--base", str(place / "model"),
               "--out", str(place / "out"), "--workers", "1", "--json"]  # fmt: skip
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    again = json.loads(result.stdout)["data.jsonl"]["methods"]
    assert again == json.loads(json.dumps(told["main"].facts["data.jsonl"]["methods"]))
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_method_that_is_not_there():
    with pytest.raises(TrothError, match="no method of this study is called 'DCOMP'; did you mean DCMP"):
        catalog.build("studies", "aml(methods=('DCOMP',))")


def test_data_of_other_classes_get_a_classifier_first(place, tmp_path):
    rows = [{"id": str(n), "text": f"{CORPUS[n % 7]} {n}", "label": ["x", "y", "z"][n % 3]} for n in range(30)]
    for split in ("train", "validation"):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rate = "classifier_epochs=1, classifier_learning_rate=1e-3"
    tiny = TINY.format(data="reviews").replace("('DCMP', 'SIG', 'GXI')", f"('GXI',), {rate}")
    setting = studies.Setting(tmp_path / "out", (str(tmp_path),), str(place / "model"))
    (section,) = studies.carry_out(catalog.build("studies", tiny), setting, ["main"])
    assert section.title.startswith("a model trained for it on 4 examples")
    (facts,) = section.facts.values()
    assert np.isfinite(facts["methods"]["pAML"]["comp"]["value"])
    (report,) = (tmp_path / "out" / "files").rglob("train.json")
    assert json.loads(report.read_text())["identity"]["learning_rate"] == 1e-3
