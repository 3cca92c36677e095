"""The proof of an explanation on the command line: the same numbers in the terminal, in HTML and in JSON."""

import io
import json
import re
import sys

import pytest

import fakes
import troth as package
from troth import cli
from troth.core.terminal import Console
from troth.report import explanation, explanation_screen
from troth.report.explanation_screen import signed_lines

TEXT = "a good film with a great cast and a bad ending"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "plain"
    labels = {0: "bad", 1: "so so", 2: "good"}
    names = {"id2label": labels, "label2id": {label: index for index, label in labels.items()}}
    fakes.hf_model(**names).save_pretrained(folder)
    fakes.wordpiece().save_pretrained(folder)
    return folder


@pytest.fixture
def troth(monkeypatch, capsys, tmp_path):
    """Calls the command line in this process, in an empty folder. -> exit code, standard output, standard error"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["troth", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        told = capsys.readouterr()
        return left.value.code or 0, told.out, told.err

    return call


def test_the_same_proof_everywhere(troth, model, tmp_path):
    methods = ("-m", model, "-e", "leave_one_out", "-e", "gradient")
    _, shown, _ = troth("explain", TEXT, *methods, "--html", "page.html")
    _, plain, _ = troth("explain", TEXT, *methods, "--json")
    page = (tmp_path / "page.html").read_text()
    loaded = package.load_model(str(model))
    proved = package.prove(loaded, package.explain(loaded, TEXT, ["leave_one_out", "gradient"]))
    for facts, attributions in zip(json.loads(plain), proved.values(), strict=True):
        proof = facts["proof"]
        assert {"ratio", "masking", "probability", "without_top", "without_random", "random_low", "random_high"} <= set(
            proof
        )
        assert proof == attributions[0].proof.to_dict()
        line = (
            f"Without its top {proof['count']} of {len(facts['units'])} words: {100 * proof['probability']:.0f} % → "
            f"{100 * proof['without_top']:.0f} %. Without {proof['count']} random words: "
            f"{100 * proof['random_low']:.0f}–{100 * proof['random_high']:.0f} %."
        )
        assert line in shown
        assert line in page
        assert "words are erased by mask_token" in shown
        numbers = explanation.strongest(attributions[0])
        assert numbers in shown
        assert numbers.replace("'", "&#x27;") in page
        assert f"runner-up {proof['runner_up']} (" in shown
    comparison = re.search(r"^(Cannot tell|Most faithful|No method|Too short).*$", shown, re.MULTILINE)[0]
    assert comparison in page


def test_no_proof(troth, model):
    _, shown, _ = troth("explain", TEXT, "-m", model, "--no-proof")
    assert "Without its top" not in shown
    assert "strongest: " in shown
    _, plain, _ = troth("explain", TEXT, "-m", model, "--no-proof", "--json")
    assert json.loads(plain)[0]["proof"] is None


def test_methods_without_a_sign_have_a_legend_of_their_own(troth, model):
    _, signed, _ = troth("explain", TEXT, "-m", model, "-e", "leave_one_out")
    _, unsigned, _ = troth("explain", TEXT, "-m", model, "-e", "gradient")
    assert "pushes toward the class" in signed
    assert "toward it or away" not in signed
    assert "toward it or away" in unsigned
    assert "pushes toward the class" not in unsigned
    assert "gradient (how much, not which way)" in unsigned


def test_signs_stand_under_the_units():
    model = fakes.encoder("bert")
    attribution = package.Attribution.from_scores(
        model, "a good film 漢 with a bad ending", [0, 4, 0.1, 2, 0, 0, -3, -1]
    )
    console = Console(width=80)
    text, signs = (line.plain for line in signed_lines(attribution, console, 40))
    assert text == "a good film 漢 with a bad ending"
    assert signs == "  ++++      ++        --- ------"  # 漢 takes two cells
    lines = [line.plain for line in signed_lines(attribution, console, 12)]
    assert lines == ["a good film ", "  ++++", "漢 with a ", "++", "bad ending", "--- ------"]
    unsigned = list(signed_lines(attribution.magnitude(), console, 40))
    assert unsigned[1].plain == "  ^^^^      ^^        ^^^ ^^^^^^"


def test_pipes_get_signs(troth, model):
    _, out, _ = troth("explain", "a good film", "-m", model, "-e", "leave_one_out")
    lines = out.splitlines()
    under = lines[lines.index("  a good film") + 1]
    assert re.fullmatch(r" {2}[ +-]*[+-]", under)
    assert "\x1b" not in out


def test_a_terminal_without_color_gets_signs_too(monkeypatch):
    attribution = package.Attribution.from_scores(fakes.encoder("bert"), "a good film", [0, 2, -1])

    def shown():
        console = Console(force_terminal=True, color_system="truecolor", width=80, record=True, file=io.StringIO())
        explanation_screen.show(console, [[attribution]])
        return console.export_text(styles=True).splitlines()

    monkeypatch.setenv("NO_COLOR", "1")
    lines = shown()
    assert lines[3] == "  a \x1b[1;4mgood\x1b[0m \x1b[4mfilm\x1b[0m"  # underlined
    assert lines[4] == "    ++++ ----"
    monkeypatch.delenv("NO_COLOR")
    assert "    ++++ ----" not in shown()
    assert "\x1b[38;2;" in shown()[3]  # colors


def test_text_is_data(troth, model, tmp_path):
    nasty = "<script>alert(1)</script> [bold]good[/bold] film"
    code, shown, _ = troth("explain", nasty, "-m", model, "-e", "leave_one_out", "--html", "p.html", "--record", "kept")
    assert code == 0
    assert nasty in shown
    for page in (tmp_path / "p.html", tmp_path / "kept" / "index.html"):
        assert "<script" not in page.read_text()
        assert "script" in page.read_text()


def test_a_file_is_explained(troth, model, tmp_path):
    rows = [{"id": f"claim-{number}", "review": text} for number, text in enumerate(fakes.CORPUS)]
    (tmp_path / "claims.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = troth(
        "explain", "--data", "claims.jsonl", "--limit", "3", "--text", "review", "-m", model, "--json"
    )
    assert (code, err) == (0, "")
    assert [facts["id"] for facts in json.loads(out)] == ["claim-0", "claim-1", "claim-2"]
    code, out, _ = troth("explain", "--data", "claims.jsonl", "--limit", "1", "-m", model, "-e", "gradient")
    assert code == 0
    assert "the first 1 of 7 examples" in out
    for wrong in (["a text", "--data", "claims.jsonl"], ["a text", "--limit", "3"], ["a text", "--label", "x"]):
        code, _, err = troth("explain", *wrong, "-m", model)
        assert code == 2
        assert err.count("\n") == 1


def test_the_masking_that_is_named_reaches_the_proof(troth, model):
    methods = ("-m", model, "-e", "leave_one_out", "--masking")
    loaded = package.load_model(str(model))
    for masking, proving in (("delete", "delete"), ("zero", "zero"), ("soft", "mask_token")):
        _, plain, _ = troth("explain", TEXT, *methods, masking, "--json")
        (facts,) = json.loads(plain)
        explained = package.explain(loaded, TEXT, "leave_one_out", masking=masking)
        (expected,) = package.prove(loaded, explained, masking=proving)
        assert facts["proof"] == expected.proof.to_dict()
        _, shown, _ = troth("explain", TEXT, *methods, masking)
        assert ("deleted" if proving == "delete" else f"erased by {proving}") in shown
        assert ("the proof erases by mask_token: soft erases otherwise every time" in shown) == (masking == "soft")
