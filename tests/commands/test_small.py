"""Small things of the command line: version, lists with commas, completion, one method in full, retries, no network."""

import json
import os
import subprocess
import sys

import pytest

import troth as package
from troth.commands import list as listing
from troth.commands._options import names_of
from troth.commands.list import names_in_lists
from troth.core import catalog, hub


def test_the_version(troth):
    assert troth("--version") == (0, f"troth {package.__version__}\n", "")


# --- lists with commas


def test_explainers_may_be_separated_by_commas(troth):
    code, out, _ = troth("explain", "a fine film", "-e", "lime(samples=9, ridge=2),random", "--json")
    assert code == 0
    names = [attribution["explainer"].partition("(")[0] for attribution in json.loads(out)]
    assert names == ["lime", "random"]
    code, out, _ = troth("explain", "a fine film", "-e", "random,lime(samples=9)", "-e", "leave_one_out", "--json")
    assert len(json.loads(out)) == 3


def test_bench_takes_commas_for_explainers_metrics_and_seeds(troth):
    lists = ("-e", "random,leave_one_out", "--metrics", "comprehensiveness,sufficiency(ratio=0.5)", "--seed", "0,2")
    code, out, _ = troth("bench", *lists, "--limit", 2, "--workers", 1, "--dry-run", "--json")
    assert code == 0
    cells = json.loads(out)["cells"]
    assert (cells["explanation"], cells["metric"]) == (4, 8)
    code, _, err = troth("bench", "--seed", "0,x", "--dry-run")
    assert code == 2
    assert "'0,x' is not a whole number, nor several with commas between them" in err


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("check", "-e", "random,nothing"), "no explainer is called 'nothing'"),
        (("fit", "attributive_masking", "--metric", "aopc_comprehensiveness,nothing"), "'nothing'"),
        (("fit", "attributive_masking", "--without", "sparsity,nothing"), "no loss is called 'nothing'"),
        (("study", "roar", "--only", "synthetic,nothing"), "no part is called 'nothing'"),
        (("study", "soft", "--data", "reviews,nothing"), "no data set is called 'nothing'"),
    ],
)
def test_so_do_the_other_commands(troth, command, line):
    code, _, err = troth(*command)
    assert code == 2
    assert line in err


# --- completion


def test_names_are_completed_also_in_lists():
    complete = names_of("explainers")
    assert complete("leave") == ["leave_one_out"]
    assert complete("random,lime(samples=5),leave") == ["random,lime(samples=5),leave_one_out"]
    assert set(complete("")) == set(catalog.names("explainers"))
    assert names_in_lists("dat") == ["datasets"]
    assert "sst2" in names_in_lists("sst")


def test_a_shell_is_answered_without_torch():
    code = "import sys; sys.modules['torch'] = None; sys.argv = ['troth']; from troth.cli import main; main()"
    shell = {"_TROTH_COMPLETE": "complete_bash", "COMP_WORDS": "troth bench -e random,gradient_", "COMP_CWORD": "3"}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **shell}
    )
    assert run.stdout.strip() == "random,gradient_shap", run.stderr


# --- list and doctor


def test_a_list_is_a_line_each_with_cost_and_models(troth, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = troth("list", "explainers")
    lines = out.splitlines()
    assert code == 0
    assert max(map(len, lines)) <= 100
    named = {line.split()[0]: line for line in lines if line.split()}
    assert set(catalog.names("explainers")) <= set(named)
    assert "n + 1" in named["leave_one_out"]
    assert " all " in named["leave_one_out"]
    assert "21 + 20 back" in named["integrated_gradients"]
    assert "encoders, LLMs" in named["integrated_gradients"]
    assert "BERT-like" in named["alti"]


def test_what_is_piped_on_is_not_cut(troth, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    out = troth("list", "metrics")[1]
    assert catalog.summary("metrics", "recursive_erasure") in out


def test_one_method_with_all_of_it(troth):
    code, out, _ = troth("list", "recursive_erasure")
    text = " ".join(out.split())
    assert code == 0
    assert "recursive_erasure(step=0.1, performance=None, masking=mask_token" in text
    assert "Madsen et al., 2024" in text
    assert "20 and 9 explanations" in text
    assert "beware: Erased inputs are in distribution only for models" in text
    card = json.loads(troth("list", "lime", "--json")[1])
    assert card["paper"] == "Ribeiro et al., 2016"
    assert card["write"].startswith("lime(absolute=False, samples=1000")


def test_two_kinds_may_share_a_name(troth):
    out = troth("list", "soft")[1]
    assert "masking" in out
    assert "study" in out


def test_a_slip_in_a_name_is_told_apart_from_one_in_a_kind(troth):
    meant = "did you mean leave_one_out or leave_one_out_correlation? see troth list"
    assert troth("list", "leave_one")[2] == f"troth: nothing is called 'leave_one'; {meant}\n"
    assert "no kind is called 'metric'; did you mean metrics?" in troth("list", "metric")[2]


def test_data_sets_say_whether_they_are_here(troth, tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "is_cached", lambda name: name == "datasets/google/boolq")
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    (tmp_path / "multirc").mkdir()
    (tmp_path / "tasks_1-20_v1-2" / "en-10k").mkdir(parents=True)
    places = {name: listing.place_of(name) for name in catalog.names("data")}
    assert places["reviews"] == places["babi"] == "here"  # shipped, and made
    assert places["multirc"] == places["babi1"] == "here"  # in TROTH_DATA
    assert places["boolq"] == "here"  # fetched before
    assert places["sst2"] == "on the hub"
    assert places["diabetes"] == "not here"
    monkeypatch.delenv("TROTH_DATA")
    assert listing.place_of("multirc") == "not here"
    listed = {line.split()[0]: line for line in troth("list", "datasets")[1].splitlines() if line.split()}
    assert "on the hub" in listed["sst2"]


def test_doctor_names_the_folder_of_data_sets(troth, tmp_path, monkeypatch):
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    (tmp_path / "sst2").mkdir()
    parts = json.loads(troth("doctor", "--json")[1])["parts"]
    count = len(catalog.names("data"))
    assert parts["TROTH_DATA"] == {"state": "ok", "detail": f"{tmp_path}: 1 of {count} data sets"}
    assert "HF_HUB_OFFLINE is set" in parts["hub"]["detail"]
    monkeypatch.setenv("TROTH_DATA", "/nowhere")
    assert listing.data_folder() == "/nowhere is not a folder"


# --- no network


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "a film", "-m", "nobody/nothing"),
        ("bench", "-m", "nothing-here"),
        ("train", "plain", "--data", "reviews", "--base", "nothing-here"),
        ("study", "soft", "--base", "nobody/nothing"),
    ],
    ids=lambda command: command[0],
)
def test_a_model_that_is_not_here_is_said_at_once_without_a_network(troth, command, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    attempts = []
    monkeypatch.setattr(hub, "_tried", lambda endpoint: attempts.append(endpoint) or "the hub cannot be reached")
    code, out, err = troth(*command)
    assert (code, out) == (2, "")
    assert "it is not a folder here, and not in the cache (the hub cannot be reached)" in err
    assert attempts  # and nothing else was tried: see tests/hostile/test_hub.py


def test_folders_and_what_was_fetched_before_are_not_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--nobody--nothing").mkdir()
    hub.require("nobody/nothing")
    hub.require(str(tmp_path))
    hub.require("my_module:predict")  # not a name on the hub
    with pytest.raises(package.TrothError, match="cannot load nobody/else as a text classifier"):
        hub.require("nobody/else")


# --- sweeps and studies


def test_a_sweep_prints_its_tables_and_what_to_do_next(troth, workshop, monkeypatch, tmp_path):
    (tmp_path / "plan.toml").write_text(
        f'models = ["{workshop / "first"}"]\ndata = ["{workshop / "data.jsonl"}"]\n'
        'explainers = ["random", "leave_one_out"]\nmetrics = ["comprehensiveness"]\nout = "results"\n'
    )
    code, out, err = troth("sweep", "plan.toml", "--workers", 1, "--allow", workshop)
    assert code == 0, err
    assert "leave_one_out" in out
    assert "comprehensiveness" in out
    last = out.strip().splitlines()[-1]
    assert last.startswith("next: troth report ")
    assert troth(*last.removeprefix("next: troth ").split())[0] == 0


def test_a_study_tries_failed_cells_again_once_where_it_is_asked_to(tmp_path):
    from tests.sweep.works import HERE

    from troth import studies
    from troth.store.cells import Cell, Plan

    obstacle, journal = tmp_path / "obstacle", tmp_path / "journal"
    obstacle.touch()
    cells = [
        Cell("score", {"number": 1, "journal": str(journal)}, (), f"{HERE}:numbers"),
        Cell("score", {"number": 2, "obstacle": str(obstacle), "journal": str(journal)}, (), f"{HERE}:fails"),
    ]
    plan = Plan({cell.name: cell for cell in cells})

    def failed(setting):
        return len(setting.carry_out(plan)[1].failed)

    assert failed(studies.Setting(tmp_path / "out")) == 1
    again = studies.Setting(tmp_path / "out", retry=True)
    assert failed(again) == 1  # tried, and failed again
    obstacle.unlink()
    assert failed(studies.Setting(tmp_path / "out")) == 1  # not tried again unless it is asked for
    assert failed(again) == 1  # nor twice by one study whose parts share it
    assert failed(studies.Setting(tmp_path / "out", retry=True)) == 0
    assert len(journal.read_text().splitlines()) == 2  # the other one was kept


def test_a_study_has_the_option(troth):
    assert "--retry" in troth("study", "--help")[1]
