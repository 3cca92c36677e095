"""Gold classes are matched by name: end to end, on models whose classes stand in another order than the data's."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import troth
from fakes import Lookup, hf_model, wordpiece
from troth import Example
from troth.cli import app
from troth.commands._model_options import asked_of
from troth.core.errors import TrothError
from troth.data import Data, load_data
from troth.data._classes import Label, match_labels, order_of, without_labels
from troth.models._prompts import as_shots
from troth.models.encoder import Encoder
from troth.report.board import leaderboards
from troth.store.store import Store
from troth.sweep.context import Context
from troth.sweep.crossing import cross
from troth.training.bases.pretrained import Pretrained
from troth.validity.checking import check
from troth.verbs.fit import fit

runner = CliRunner()

TEXTS = ["a good film", "a bad ending", "the soup was cold", "my new phone is fast"]
WORDS = ["positive", "negative", "negative", "positive"]


def matched(names, classes, *, ordered=True):
    """The class each name is given, or the error's reason."""
    data = Data("films", [Example(str(n), "x", label=Label(n, names, ordered)) for n in range(len(names))], names)
    try:
        return [example.label for example in match_labels(data, classes, "the model")]
    except TrothError as error:
        return str(error).partition("): ")[2].partition(";")[0]


@pytest.mark.parametrize(
    ("names", "classes", "expected"),
    [
        (("negative", "positive"), ("positive", "negative"), [1, 0]),
        (("Negative", "Positive"), ("POSITIVE", "NEGATIVE"), [1, 0]),
        (("neg", "pos"), ("positive", "negative"), [1, 0]),
        (("negative", "positive"), ("POS", "NEG"), [1, 0]),
        (("n", "p"), ("positive", "negative"), [1, 0]),
        (("no", "yes"), ("True", "False"), [1, 0]),
        (("World", "Sci/Tech"), ("sci_tech", "world", "sports"), [1, 0]),
        (("entailment", "neutral", "contradiction"), ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), [2, 1, 0]),
        (("LABEL_1", "LABEL_0"), ("LABEL_0", "LABEL_1"), [1, 0]),
        (("LABEL_0", "LABEL_1"), ("negative", "positive"), [0, 1]),
        (("0", "1"), ("negative", "positive"), [0, 1]),
        (("1", "2", "3"), ("1 star", "2 stars", "3 stars"), [0, 1, 2]),
        (("negative", "positive"), ("LABEL_0", "LABEL_1"), [0, 1]),  # a data set's own order
        (("Pos", "pos", "neg"), ("negative", "positive"), [1, 1, 0]),
        (("green", "purple"), ("negative", "positive"), "no class is like 'green'"),
        (("negative", "positive"), ("LABEL_0", "LABEL_1", "LABEL_2"), "no class is like 'negative'"),
        (("n", "p"), ("negative", "neutral", "positive"), "'n' may be negative or neutral"),
        (
            ("positive", "positive (strong)"),
            ("negative", "positive"),
            "'positive (strong)' and another label may both be positive",
        ),
        (("1", "2", "3"), ("negative", "neutral", "positive"), "no class is like '3'"),
    ],
)
def test_names_find_their_class(names, classes, expected):
    assert matched(names, classes) == expected


def test_words_in_sorted_order_are_no_numbers():
    assert matched(("neg", "pos"), ("LABEL_0", "LABEL_1"), ordered=False) == "no class is like 'neg'"


def test_the_note_on_their_numbers_is_true_of_the_model(tmp_path):
    (tmp_path / "films.csv").write_text("text,label\nawful,neg\ngreat,pos\n")
    data = load_data(tmp_path / "films.csv")
    assert data.notes[-1] == "labels: 0 = neg, 1 = pos (words in sorted order)"
    turned = match_labels(data, ("positive", "negative"), "my-model")
    assert turned.notes[-1] == "labels: 0 = pos, 1 = neg (matched with the model's classes: positive, negative)"
    assert turned.notes[:-1] == data.notes[:-1]
    assert match_labels(turned, ("positive", "negative"), "my-model").notes == turned.notes


def test_the_error_shows_both_lists():
    data = Data("films.csv", [Example("0", "x", label="purple"), Example("1", "x", label="green")])
    with pytest.raises(TrothError) as caught:
        match_labels(data, ("negative", "positive"), "my-model")
    assert str(caught.value).startswith(
        "films.csv: its labels (green, purple) do not match the classes of my-model (negative, positive): no class is "
    )
    assert "\n" not in str(caught.value)


def test_only_labels_that_occur_must_have_a_class():
    names = ("negative", "positive", "mixed")
    data = Data("films", [Example("0", "x", label=Label(1, names)), Example("1", "x")], names)
    assert [example.label for example in match_labels(data, ("positive", "negative"), "m")] == [0, None]


def test_numbers_without_names_stay_unless_the_classes_bear_other_numbers():
    data = load_data([{"text": "a", "label": 1}, {"text": "b", "label": 2}])
    assert [example.label for example in match_labels(data, ("x", "y", "z"), "m")] == [1, 2]
    assert [example.label for example in match_labels(data, ("1 star", "2 stars", "3 stars"), "m")] == [0, 1]
    with pytest.raises(
        TrothError, match=r"labels \(1, 2\) do not match the classes of m \(x, y\): there is no class 2;"
    ):
        match_labels(data, ("x", "y"), "m")


def test_matching_again_changes_nothing():
    data = Data("films", [Example("0", "x", label="2 stars")])
    once = match_labels(data, ("1 star", "2 stars"), "m")
    assert match_labels(once, ("1 star", "2 stars"), "m") is once
    assert [example.label for example in match_labels(once, ("2 stars", "1 star"), "m")] == [0]


def test_the_names_travel_with_single_examples(tmp_path):
    (tmp_path / "films.csv").write_text("text,label\ngood film,pos\nbad film,neg\n")
    examples = list(load_data(tmp_path / "films.csv"))
    model = Lookup({"good film": [0, 2], "[M] film": [0, 0], "good [M]": [0, 2], "bad film": [2, 0], "bad [M]": [2, 0]})
    model._labels = ("positive", "negative")
    assert [found.target for found in troth.explain(model, examples, "leave_one_out", target="gold")] == [0, 1]
    model._labels = ("green", "purple")
    with pytest.raises(TrothError, match=r"example 0: its label does not match the model's classes \(green, purple\)"):
        troth.explain(model, examples, "leave_one_out", target="gold")


def test_whether_two_lists_are_of_the_same_classes():
    assert order_of(("neg", "pos"), ("positive", "negative")) == [1, 0]
    assert order_of(("neg", "pos"), ("negative", "neutral", "positive")) is None
    assert order_of(("sadness", "joy"), ("negative", "positive")) is None


def test_a_data_set_without_its_labels():
    data = load_data("reviews", label="")
    assert {example.label for example in data} == {None}
    assert data.labels == ()
    assert without_labels(load_data("reviews")).fingerprint == data.fingerprint


# --- end to end: two models that differ only in the order of their classes


@pytest.fixture(scope="module")
def models():
    """Of the same weights; the second has its outputs, and their names, in the other order."""
    straight, turned = hf_model(classes=2), hf_model(classes=2)
    with_names = []
    for model, names in ((straight, ("negative", "positive")), (turned, ("positive", "negative"))):
        if names[0] == "positive":
            model.classifier.weight.data = model.classifier.weight.data.flip(0)
            model.classifier.bias.data = model.classifier.bias.data.flip(0)
        model.config.id2label = dict(enumerate(names))
        model.config.label2id = {name: index for index, name in enumerate(names)}
        with_names.append(Encoder(model.eval(), wordpiece(), name=names[0]))
    return with_names


@pytest.fixture
def films(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text("text,label\n" + "".join(f"{text},{word}\n" for text, word in zip(TEXTS, WORDS, strict=True)))
    return path


def test_explain_gold_is_the_same_on_turned_classes(models, films):
    straight, turned = (troth.explain(model, load_data(films), "input_x_gradient", target="gold") for model in models)
    assert [one.label(one.target) for one in straight] == WORDS == [one.label(one.target) for one in turned]
    for one, other in zip(straight, turned, strict=True):
        assert one.scores.tolist() == pytest.approx(other.scores.tolist(), abs=1e-6)


@pytest.mark.parametrize("written", ["words", "short", "lines"])
def test_bench_is_the_same_on_turned_classes(models, films, tmp_path, written):
    source = films
    if written == "short":
        source = tmp_path / "short.csv"
        source.write_text(films.read_text().replace("positive", "POS").replace("negative", "NEG"))
    elif written == "lines":
        source = tmp_path / "films.jsonl"
        rows = [{"text": text, "label": word} for text, word in zip(TEXTS, WORDS, strict=True)]
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    boards = []
    for model in models:
        run = troth.bench(
            model, str(source), ["input_x_gradient"], ["comprehensiveness(ratio=0.5)", "recursive_erasure(step=0.5)"],
            tmp_path / f"{written}-{model.name}", target="gold",
        )  # fmt: skip
        assert not run.outcome.failed
        boards.append(run.leaderboard)
    assert len(boards[0].values) == 4
    for key, values in boards[0].values.items():
        np.testing.assert_allclose(values, boards[1].values[key], atol=1e-5)
        assert boards[0].summaries[key].value == pytest.approx(boards[1].summaries[key].value, abs=1e-5, nan_ok=True)


def test_one_sweep_of_both_models_gives_each_its_own_gold(models, films):
    context = Context()
    plan = cross(context, models, [load_data(films)], ["random"], ["sparsity"], target="gold")
    golds = [table.column("label_index").to_pylist() for table in plan.tables.values()]
    assert golds == [[1, 0, 0, 1], [0, 1, 1, 0]]


def test_the_command_line_agrees(models, films, tmp_path):
    rows = []
    for model in models:
        folder = tmp_path / model.name
        model.model.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        command = ["bench", "-m", str(folder), "-d", str(films), "-e", "gradient", "--metrics", "sufficiency"]
        command += ["--target", "gold", "--workers", "1", "--out", str(tmp_path / f"run-{model.name}"), "--json"]
        answer = runner.invoke(app, command, catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        (board,) = leaderboards(Store(tmp_path / f"run-{model.name}"))
        rows.append(board.values["gradient", "sufficiency"])
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-5)


@pytest.mark.parametrize("task", ["explain", "bench", "check", "fit", "explain predicted"])
def test_other_classes_are_refused_with_both_lists(models, tmp_path, task):
    path = tmp_path / "colors.csv"
    path.write_text("text,label\n" + "".join(f"film {n},{'purple' if n % 2 else 'green'}\n" for n in range(60)))
    tasks = {
        "explain": lambda: troth.explain(models[0], load_data(path), "gradient", target="gold"),
        "explain predicted": lambda: troth.explain(models[0], load_data(path), "gradient"),
        "bench": lambda: troth.bench(models[0], str(path), ["gradient"], ["sparsity"], tmp_path / "run"),
        "check": lambda: check(models[0], load_data(path)),
        "fit": lambda: fit(models[0], str(path), tmp_path / "fitted"),
    }
    expected = r"colors.csv: its labels \(green, purple\) do not match the classes of negative \(negative, positive\)"
    with pytest.raises(TrothError, match=expected):
        tasks[task]()
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "fitted").exists()


def test_shots_are_of_the_class_they_name(tmp_path):
    (tmp_path / "shots.csv").write_text("text,label\na dull film,neg\na fine film,pos\n")
    words = "positive=good,negative=bad"
    asked = asked_of(prompt="Review: {text} It is", class_words=words, shots=str(tmp_path / "shots.csv"))
    assert (asked["labels"], asked["class_words"]) == (["positive", "negative"], ["good", "bad"])
    assert [word for _, word in as_shots(asked["shots"], asked["class_words"], asked["labels"])] == ["bad", "good"]


# --- a base that has classes already


def saved(models, folder):
    models[1].model.save_pretrained(folder)  # {0: positive, 1: negative}
    models[1].tokenizer.save_pretrained(folder)
    return Pretrained(path=str(folder))


def test_a_base_keeps_its_head_by_the_names_of_its_classes(models, tmp_path):
    base = saved(models, tmp_path / "base")
    examples = [Example("0", "a good film", label=1)]
    built = base.build(examples, ("negative", "positive"), 0, None)
    assert built.labels == ("negative", "positive")
    assert torch.equal(built.model.classifier.weight, models[0].model.classifier.weight)
    assert torch.equal(built.model.classifier.bias, models[0].model.classifier.bias)


def test_a_base_of_other_classes_gets_a_new_head_drawn_with_the_seed(models, tmp_path):
    base = saved(models, tmp_path / "base")
    before = models[1].model.classifier.weight
    first, again, other = (base.build([], ("green", "purple"), seed, None).model.classifier for seed in (0, 0, 1))
    assert not torch.isclose(first.weight, before).any()
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)
    assert first.bias.tolist() == [0, 0]


def test_classes_nobody_named_keep_their_places(tmp_path):
    model = hf_model(classes=2)
    model.save_pretrained(tmp_path / "base")
    wordpiece().save_pretrained(tmp_path / "base")
    built = Pretrained(path=str(tmp_path / "base")).build([], ("negative", "positive"), 0, None)
    assert torch.equal(built.model.classifier.weight, model.classifier.weight)
