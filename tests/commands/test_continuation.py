"""What a language model wrote, on the command line."""

import json

import pytest

import fakes

TEXT = "a good film was bad"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(fakes.saved_causal(tmp_path_factory.mktemp("causal"), "gpt2"))


def test_the_whole_and_each_token(troth, folder, tmp_path):
    def call(*arguments):
        code, said, problem = troth(*arguments)
        assert code == 0, problem
        return said

    whole = json.loads(
        call("explain", TEXT, "-m", folder, "-e", "leave_one_out", "--continuation", "the film", "--json")
    )
    assert whole[0]["continuation"] == [" the", " film"]
    assert whole[0]["target_label"] == "the whole continuation"
    assert whole[0]["proof"]["probability"] == pytest.approx(whole[0]["probabilities"][0], abs=1e-5)
    page = tmp_path / "page.html"
    options = ("-m", folder, "-e", "leave_one_out,input_x_gradient", "--generate", "3", "--target", "each")
    first, second = json.loads(call("explain", TEXT, *options, "--json"))
    assert first["targets"] == second["targets"]
    assert len(first["scores"]) == len(first["targets"])
    assert len(first["scores"][0]) == 5
    shown = call("explain", TEXT, *options, "--html", str(page))
    assert "how much each word (across) pushes toward each token that was written (down)" in " ".join(shown.split())
    assert page.read_text().count("<table") == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--continuation", ""), "the continuation must be a text"),
        (("--continuation", "the", "--generate", "4"), "leave one of them out"),
        (("--continuation", "the", "--class-words", "good,bad"), "class_words is for a prompted language model"),
        (("--continuation", "a " * 200), "so no room is left for a text"),
        (("--continuation", "the", "--target", "each", "--record", "kept"), "--record keeps one decision per text"),
        (("--generate", "0"), "generate must be a number of tokens"),
    ],
)
def test_bad_options(troth, folder, options, problem):
    code, _, said = troth("explain", TEXT, "-m", folder, *options)
    assert code == 2
    assert problem in said
    assert len([line for line in said.splitlines() if "troth:" in line]) == 1
