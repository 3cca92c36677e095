"""The command line: what it prints and writes, and one clear line with exit code 2 for what a user can mend."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import fakes
from troth import cli, commands
from troth.core import catalog

COMMANDS = sorted(path.stem for path in Path(commands.__path__[0]).glob("[a-z]*.py"))
TEXT = "a good film"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A tiny model, one whose weights are NaN, one without a mask token, one that reads eight tokens."""
    root = tmp_path_factory.mktemp("models")
    labels = {0: "<script>", 1: "[/b]", 2: "fine"}
    names = {"id2label": labels, "label2id": {label: index for index, label in labels.items()}}
    for name in ("plain", "undefined", "maskless", "short", "single"):
        fakes.hf_model(classes=1 if name == "single" else 3, **({} if name == "single" else names)).save_pretrained(
            root / name
        )
        tokenizer = fakes.wordpiece()
        tokenizer.mask_token = None if name == "maskless" else tokenizer.mask_token
        tokenizer.model_max_length = 8 if name == "short" else 64
        tokenizer.save_pretrained(root / name)
    weights = load_file(root / "undefined" / "model.safetensors")
    weights["classifier.bias"] = torch.full_like(weights["classifier.bias"], torch.nan)
    save_file(weights, root / "undefined" / "model.safetensors", metadata={"format": "pt"})
    return root


@pytest.fixture
def troth(monkeypatch, capsys, tmp_path):
    """Calls the command line in this process, in an empty folder. -> exit code, standard output, standard error"""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, stdin=None):
        monkeypatch.setattr(sys, "argv", ["troth", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(SystemExit) as left:
            cli.main()
        told = capsys.readouterr()
        return left.value.code or 0, told.out, told.err

    return call


def piped(text):
    return io.TextIOWrapper(io.BytesIO(text if isinstance(text, bytes) else text.encode()), encoding="utf-8")


# --- explain


def test_explain_prints_the_text_the_class_and_every_method(troth, models):
    code, out, err = troth(
        "explain", TEXT, "a bad book", "-m", models / "plain", "-e", "leave_one_out", "-e", "gradient"
    )
    assert (code, err) == (0, "")
    for shown in (TEXT, "a bad book", "leave_one_out", "gradient", "blue pushes toward the class"):
        assert shown in out
    assert any(f"{label} (" in out for label in ("<script>", "[/b]", "fine"))


@pytest.mark.parametrize("label", ["<script>", "[/b]", "fine"])
def test_labels_that_look_like_markup_are_shown_as_they_are(troth, models, label, tmp_path):
    code, out, _ = troth("explain", TEXT, "-m", models / "plain", "--target", label, "--html", tmp_path / "[/x].html")
    assert code == 0
    assert f"{label} (" in out
    page = (tmp_path / "[/x].html").read_text()
    assert "<script>" not in page
    assert label.replace("<", "&lt;").replace(">", "&gt;") in page


def test_explain_as_json(troth, models):
    code, out, err = troth(
        "explain",
        TEXT,
        "--pair",
        "is it ?",
        "--segments",
        "both",
        "-m",
        models / "plain",
        "--json",
        "-e",
        "leave_one_out",
        "--target",
        "fine",
        "--against",
        "0",
        "--seed",
        "3",
    )
    assert (code, err) == (0, "")
    (found,) = json.loads(out)
    assert found["units"] == ["a", "good", "film", "is", "it", "?"]
    assert [found["text"][start:end] for start, end in found["spans"][:3]] == ["a", "good", "film"]
    assert found["segments"] == [0, 0, 0, 1, 1, 1]
    assert (found["target_label"], found["against_label"], found["seed"]) == ("fine", "<script>", 3)
    assert len(found["scores"]) == 6
    assert found["explainer"].startswith("leave_one_out(")


def test_explain_writes_one_escaped_page(troth, models, tmp_path):
    nasty = '<script>alert(1)</script> & "good" film'
    code, out, _ = troth("explain", nasty, "-m", models / "plain", "--html", tmp_path / "new" / "page.html")
    assert code == 0
    assert "page.html" in out
    page = (tmp_path / "new" / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    assert "script" in page
    assert "http" not in page
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["page.html"]


def test_lines_from_standard_input(troth, models):
    code, out, _ = troth("explain", "-m", models / "plain", "--json", stdin=piped("a good film\n\nשלום 👍🏽\n"))
    assert code == 0
    found = json.loads(out)
    assert [one["text"] for one in found] == ["a good film", "שלום 👍🏽"]  # a blank line is no text


def test_what_was_cut_off_is_said_and_counted(troth, models):
    text = "a good film with a great cast and a bad ending"
    code, out, _ = troth("explain", text, "-m", models / "short")
    assert code == 0
    assert "5 words at the end were cut off" in " ".join(out.split())
    code, out, _ = troth("explain", text, "-m", models / "short", "--json")
    assert json.loads(out)[0]["truncated"] == 5


def test_one_token_and_unknown_tokens_are_explained(troth, models):
    code, out, _ = troth("explain", "film", "漢", "-m", models / "plain", "--json", "-e", "leave_one_out", "-e", "lime")
    assert code == 0
    assert [len(one["scores"]) for one in json.loads(out)] == [1, 1, 1, 1]


# --- what a user can mend

CSV = "name,stars\na,1\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["explain", TEXT, "-e", "loo"], "no explainer is called 'loo'; did you mean leave_one_out? there are: "),
        (["explain", TEXT, "-e", "lime(sample=3)"], "lime: no option is called 'sample'; did you mean samples?"),
        (["explain", TEXT, "-e", "lime(samples=many)"], "lime: samples must be a whole number, not 'many'"),
        (["explain", TEXT, "-e", "lime("], "cannot read 'lime('; write name or name(option=value, …)"),
        (["explain", TEXT, "--masking", "delet"], "no masking is called 'delet'; did you mean delete?"),
        (["explain", TEXT, "--units", "letter"], "units must be one of token, word, sentence, passage, or a list"),
        (["explain", TEXT, "--segments", "second"], "--segments must be first or both, not 'second'"),
        (["explain", TEXT, "--target", "joyful"], "no class is called 'joyful'; "),
        (
            ["explain", TEXT, "--target", "7"],
            "example 0: class 7 is outside the model's 3 classes (<script>, [/b], fine)",
        ),
        (
            ["explain", TEXT, "--target", "gold"],
            "example 0 has no label, so no gold class; use target predicted or name a",
        ),
        (
            ["explain", TEXT, "--target", "fine", "--against", "2"],
            "target and against are both 'fine'; a contrast needs two",
        ),
        (["explain", TEXT, "film", "--pair", "more"], "--pair needs exactly one text, not 2"),
        (["explain", ""], "the text is empty, so there is nothing to explain"),
        (["explain", " \n "], "the text is empty, so there is nothing to explain"),
        (["explain", "lone \udcff"], "example 0: the text is not valid Unicode"),
        (["explain", TEXT, "--device", "nowhere"], "cannot use device nowhere: "),
        (["explain", TEXT, "--html", "file/page.html"], "cannot write file/page.html: "),
        (["explain", TEXT, "--html", "."], "cannot write .: "),
        (["explain", TEXT, "--html", ""], "cannot write .: "),
        (["explain", TEXT, "--seed", "x"], "--seed must be a whole number, not 'x'; see troth explain --help"),
        (["check", "--step", "half"], "--step must be a number, not 'half'; see troth check --help"),
        (
            ["explain", TEXT, "-m", "embedded", "--continuation", "good"],
            "cannot load embedded as a causal language model: it is the small text classifier of troth; ",
        ),
        (
            ["explain", TEXT, "-m", "embedded", "--threshold", "0.3"],
            "threshold needs a multi-label model; embedded returns classes that exclude each other: add multi_label",
        ),
        (["explain", TEXT, "--device", "gpu"], "cannot use device gpu: a device is cpu, cuda or cuda:1; "),
        (["explain", TEXT, "--explainr", "lime"], "No such option: --explainr"),
        (["explain", TEXT, "-m", "{models}"], "{models} is a folder without config.json, so it is not a model; "),
        (["explain", TEXT, "-m", "{models}/absent"], "there is no model folder {models}/absent"),
        (["explain", TEXT, "-m", "nobody/nothing"], "cannot load nobody/nothing as a text classifier: "),
        (["explain", TEXT, "-m", "file"], "there is no model folder file"),
        (
            ["explain", TEXT, "-m", "{models}/undefined"],
            "{models}/undefined gave NaN or infinite logits for example 0; ",
        ),
        (
            ["explain", TEXT, "-m", "{models}/maskless", "-e", "lime"],
            "{models}/maskless has no mask token; use masking delete",
        ),
        (
            ["explain", TEXT, "-m", "{models}/single", "--target", "good"],
            "{models}/single returns one value (value) and has no classes, so 'good' cannot be explained",
        ),
        (
            ["explain", TEXT, "--pair", "a good film with a cast", "-m", "{models}/short"],
            "example 0: the second text and the",
        ),
        (["bench", "-e", "loo"], "no explainer is called 'loo'; did you mean leave_one_out?"),
        (
            ["bench", "--metrics", "comprehensivness"],
            "no metric is called 'comprehensivness'; did you mean comprehensiveness?",
        ),
        (["bench", "--sort", "nothing"], "no metric is called 'nothing'; "),
        (["bench", "--masking", "delet"], "no masking is called 'delet'; did you mean delete?"),
        (["bench", "--data", "absent.csv"], "absent.csv: no such file or folder"),
        (["bench", "--data", "reviws"], "no data set is called 'reviws'; did you mean reviews?"),
        (
            ["bench", "--data", "columns.csv"],
            "columns.csv has no text column; columns: name, stars; name it with --text",
        ),
        (
            ["bench", "--data", "columns.csv", "--text", "nam"],
            "columns.csv has no column 'nam' (--text); columns: name, stars",
        ),
        (["bench", "--data", "file"], "file: cannot read this kind of file; give one of "),
        (["bench", "--limit", "-1"], "limit must be at least 1, not -1"),
        (["bench", "--engine", "spark", "--limit", "2", "--label", ""], "no engine is called 'spark'"),
        (
            ["bench", "--out", "file/run", "--limit", "2", "-e", "random", "--metrics", "sparsity", "--label", ""],
            "file/run",
        ),
        (["report", "absent"], "no run is called 'absent'"),
        (["list", "explainer"], "no kind is called 'explainer'; did you mean explainers?"),
        (["explan", TEXT], "No such command 'explan'. Did you mean 'explain'? see troth --help"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(troth, models, tmp_path, arguments, line):
    (tmp_path / "columns.csv").write_text(CSV)
    (tmp_path / "file").write_text("")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    arguments = [argument.replace("{models}", str(models)) for argument in arguments]
    if arguments[0] in ("explain", "bench") and "-m" not in arguments:
        arguments += ["-m", str(models / "plain")]
    code, out, err = troth(*arguments)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith(f"troth: {line.replace('{models}', str(models))}"), err
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("stdin", [None, "closed", "empty", "latin1"])
def test_standard_input_that_gives_nothing(troth, models, stdin):
    stream = {None: None, "closed": piped("a"), "empty": piped(""), "latin1": piped("caf\xe9".encode("latin1"))}[stdin]
    if stdin == "closed":
        stream.close()
    code, out, err = troth("explain", "-m", models / "plain", stdin=stream)
    assert (code, out) == (2, "")
    said = "standard input is not UTF-8" if stdin == "latin1" else "no text given; pass one: troth explain"
    assert err.startswith(f"troth: {said}")
    assert err.count("\n") == 1


def test_labels_outside_the_models_classes(troth, models, tmp_path):
    (tmp_path / "data.csv").write_text("text,label\na good film,0\na bad book,7\n")
    arguments = (
        "--data",
        "data.csv",
        "-m",
        models / "plain",
        "-e",
        "gradient",
        "--metrics",
        "sparsity",
        "--workers",
        "1",
    )
    code, out, err = troth("bench", *arguments, "--target", "gold", "--out", "run")
    assert (code, out) == (2, "")
    assert err.startswith(f"troth: data.csv: its labels (0, 7) do not match the classes of {models / 'plain'} ")
    assert "(<script>, [/b], fine): there is no class 7; " in err


# --- bench and report


def test_bench_prints_a_leaderboard_and_writes_a_report(troth, models, tmp_path):
    rows = [f'"{text}",{number % 3}\n' for number, text in enumerate(fakes.CORPUS)]
    (tmp_path / "data.csv").write_text("body,stars\n" + "".join(rows))
    arguments = [
        "bench", "-m", models / "short", "--data", "data.csv", "--text", "body", "--label", "stars", "--workers", "1",
        "-e", "leave_one_out", "--metrics", "comprehensiveness", "--metrics", "sparsity", "--out", "run",
    ]  # fmt: skip
    code, out, err = troth(*arguments)
    assert (code, err) == (0, "")
    for shown in ("leave_one_out", "random", "comprehensiveness", "text: column 'body'", "report: run/report.html"):
        assert shown in out
    assert "Beware: 7 of 7 texts were cut off; read all with --model-option windows=true." in out
    page = (tmp_path / "run" / "report.html").read_text()
    assert "leave_one_out" in page
    code, out, _ = troth(*arguments, "--json", "--sort", "sparsity")
    found = json.loads(out)
    assert {row["explainer"] for row in found["rows"]} == {"random", "leave_one_out"}
    assert found["run"] == "run"
    code, out, _ = troth("report", "run", "--out", "other/page.html")
    assert code == 0
    assert (tmp_path / "other" / "page.html").read_text() == (tmp_path / "run" / "report.html").read_text()
    code, out, _ = troth(*arguments, "--dry-run", "--json")
    assert json.loads(out)["to_do"] == 0


def test_bench_says_in_its_answer_what_failed(troth, models, tmp_path):
    rows = [f'"{text}"\n' for text in (*fakes.CORPUS, "one two three four five six seven eight nine ten " * 2)]
    (tmp_path / "data.csv").write_text("body\n" + "".join(rows))
    arguments = [
        "bench", "-m", models / "plain", "--data", "data.csv", "--text", "body", "--unlabelled", "--workers", "1",
        "-e", "leave_one_out", "-e", "exact_shapley", "--metrics", "sparsity", "--out", "run",
    ]  # fmt: skip
    said = "Failed, so not ranked here: exact_shapley. The reason: "
    for _ in range(2):  # also when the run is only read again
        code, out, _ = troth(*arguments)
        assert code == 2
        assert said in " ".join(out.split())
    code, out, _ = troth(*arguments, "--json")
    assert any(line.startswith(said) for line in json.loads(out)["answer"])
    assert said in (tmp_path / "run" / "report.html").read_text()


# --- list, doctor, help


def test_list_shows_everything_as_it_is_written(troth):
    code, out, _ = troth("list", "--json")
    found = json.loads(out)
    assert code == 0
    assert set(found) == {"datasets" if kind == "data" else kind for kind in catalog.KINDS}
    assert set(found["explainers"]) == set(catalog.names("explainers"))
    code, out, _ = troth("list", "maskings")
    assert all(name in out for name in catalog.names("maskings"))
    assert "\nkeep: how much of a unit is kept, from 0 (erased) to 1 (whole)\n" in out
    code, out, _ = troth("list", "datasets")
    assert out.rstrip().endswith("has to be put into the folder $TROTH_DATA\nmore about one of them: troth list NAME")
    code, out, _ = troth("list")
    assert "integrated_gradients" in out
    assert "reviews" in out


def test_doctor_tries_and_tells(troth):
    code, out, err = troth("doctor")
    assert (code, err) == (0, "")
    assert "everything that is needed works" in out
    assert "– is optional, and not used or not available here\n" in out
    assert "torch" in out
    code, out, _ = troth("doctor", "--json")
    found = json.loads(out)
    assert found["healthy"]
    assert found["parts"]["explain"]["state"] == "ok"
    missing = {name: part["detail"] for name, part in found["parts"].items() if "pip install" in part["detail"]}
    assert all("troth[" in detail for detail in missing.values())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(troth, command):
    code, out, err = troth(command, "--help")
    assert (code, err) == (0, "")
    assert f"Example: troth {command}" in " ".join(out.split())
    assert "--json" in out


def test_help_names_every_command(troth):
    code, out, _ = troth("--help")
    assert code == 0
    assert all(command in out for command in COMMANDS)
    code, _, err = troth()
    assert code == 2
    assert err == "troth: no command given; see troth --help\n"


# --- Ctrl-C

STARTED = """
import os, sys, time
import troth.cli
from troth.models.encoder import Encoder
original, calls, interrupted = Encoder.forward, [], sys.argv.pop(1)
def slow(self, *arguments, **options):
    calls.append(None)
    if len(calls) == 3:  # in the midst of work
        sys.stderr.write("started\\n"); sys.stderr.flush()
        while not os.path.exists(interrupted):
            time.sleep(0.01)
    return original(self, *arguments, **options)
Encoder.forward = slow
sys.argv = ["troth", *sys.argv[1:]]
troth.cli.main()
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "arguments",
    [
        [
            "explain",
            *[f"a good film {number}" for number in range(9)],
            *["-e", "leave_one_out", "-e", "beam_search", "--html", "page.html"],
        ],
        [
            "bench",
            "--label",
            "",
            "--limit",
            "3",
            "-e",
            "leave_one_out",
            "--metrics",
            "recursive_erasure",
            "--workers",
            "1",
            "--out",
            "run",
        ],
    ],
    ids=["explain", "bench"],
)
def test_ctrl_c_leaves_no_half_written_file(models, tmp_path, tmp_path_factory, arguments):
    interrupted = tmp_path_factory.mktemp("flag") / "interrupted"
    process = subprocess.Popen(
        [sys.executable, "-c", STARTED, str(interrupted), *arguments, "-m", str(models / "plain")],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stderr.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        interrupted.touch()
        _out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in err
    said = [line for line in err.splitlines() if line != "started"]
    assert said in (["stopped; what was finished is kept"], [])
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    if arguments[0] == "explain":
        assert left == []
    else:
        assert not [path for path in left if path.name.startswith(".") or path.suffix in (".tmp", ".part")]
        for path in left:
            if path.suffix == ".json":
                json.loads(path.read_text())
