import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from tests.validity.test_checking import sentences
from typer.testing import CliRunner

from fakes import encoder, hf_model, tokenizer_for
from troth.cli import app
from troth.core.errors import TrothError
from troth.core.types import Attribution
from troth.data import load_data
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.explainers.beam_search import BeamSearch
from troth.explainers.random import Random
from troth.metrics._erasing import top_units
from troth.models import load_model
from troth.sweep import bench as benching
from troth.training.examples import load_labeled
from troth.training.record import record_of
from troth.training.train import train
from troth.validity.checking import check, erased_views
from troth.validity.masf import MaSF
from troth.validity.references import held_out, held_out_beside, parted, splits_of


def saved(folder, recipe, **told):
    """The folder of a tiny model whose train.json names a recipe."""
    hf_model(classes=2).save_pretrained(folder)
    tokenizer_for("bert").save_pretrained(folder)
    (folder / "train.json").write_text(json.dumps({"identity": {"recipe": recipe}, **told}))
    return load_model(str(folder))


@pytest.mark.parametrize(
    ("recipe", "masking", "share"),
    [
        ("masked(train='50/50', validate='both', masking='mask_token', variant='paper')", "mask_token", 0.5),
        ("masked(train='50/50', masking='pad')", "pad", 0.5),
        ("masked(train='masking', validate='both')", "mask_token", 1.0),
        ("masked(train='no', validate='both')", "", 0.0),
        ("plain()", "", 0.0),
        ("plain + masked(train='50/50', masking='zero')", "zero", 0.5),
        # The file of the salience may be gone, and its name may hold a plus.
        ("salience(source='gone+for good.jsonl', weight=0.001) + masked(masking='soft')", "soft", 0.5),
        ("salience(source='text_rank', weight=0.001, variant='paper')", "", 0.0),
    ],
)
def test_how_a_model_was_masked_in_training_is_known_from_its_folder(tmp_path, recipe, masking, share):
    record = record_of(saved(tmp_path, recipe))
    assert (record.masking, record.masked_share) == (masking, share)


def test_of_models_of_other_origins_nothing_is_known(tmp_path):
    assert record_of(encoder()) is None
    model = saved(tmp_path, "masked")
    for text in ("", "[]", "{}", '{"identity": 3}', '{"identity": {"recipe": "masked(((", "asked": 1}}'):
        (tmp_path / "train.json").write_text(text)
        assert record_of(model) is None


@pytest.mark.parametrize("recipe", ["masked(masking='pad')", "salience(source='text_rank') + masked(masking='pad')"])
def test_references_are_masked_by_the_trainings_own_masking(tmp_path, recipe):
    model, data, validation = saved(tmp_path, recipe), sentences(10, seed=1), sentences(60, seed=2)
    found = check(model, data, validation, step=0.5)
    fits = {
        masking: MaSF.from_model(
            Prober(model, masking), model.encode(validation, "token", "both"), over_hidden="fisher", self_included=False
        )
        for masking in ("pad", "mask_token")
    }
    views = list(erased_views(Prober(model), Random(), model.encode(data), range(0, 10_001, 5000)))
    expected = {masking: np.stack([fitted.p_values_of(view) for view in views]) for masking, fitted in fits.items()}
    assert found.p_values["random"].tolist() == expected["pad"].tolist() != expected["mask_token"].tolist()
    assert found.masked_references == 0.5
    assert any("every second reference is masked by pad" in note for note in found.notes)
    # What is asked for is done, by the masking that the model knows.
    whole = check(model, data, validation, step=0.5, references="whole")
    assert any("as asked, the references are whole texts" in note for note in whole.notes)
    assert whole.p_values["random"].tolist() != found.p_values["random"].tolist()


def test_a_model_that_learned_deleted_texts_is_not_tested(tmp_path):
    model = saved(tmp_path, "masked(masking='delete')")
    found = check(model, sentences(10, seed=1), sentences(40, seed=2), step=0.5)
    assert found.not_tested.startswith("not tested: under delete")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model trained on a file of which 0.3 was held out."""
    folder = tmp_path_factory.mktemp("trained")
    rows = [{"text": one.text, "label": place % 2} for place, one in enumerate(sentences(120, seed=3))]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    base = "scratch(layers=1, hidden=16, heads=2, positions=32)"
    train("plain + masked", str(folder / "texts.jsonl"), base, folder / "model", hold_out=0.3, epochs=1, cpu=True)
    return folder


def test_references_are_what_was_held_out_of_the_training(trained):
    model = load_model(str(trained / "model"), device="cpu")
    held = load_labeled(str(trained / "texts.jsonl"), hold_out=0.3).validation
    texts = [example.text for example in held]
    assert len(texts) == 36
    known, asked, notes = parted(sentences(8, seed=4), None, model)
    assert [example.text for example in known] == texts
    assert len(asked) == 8
    assert "36 examples that were held out of the training" in notes[0]
    # What is tested is no reference; where too few are left, half of the data are the references again.
    some = load_data([*held.examples[:6], *sentences(8, seed=4)])
    assert [example.text for example in parted(some, None, model)[0]] == texts[6:]
    every = load_data([*held.examples[:30], *sentences(40, seed=4)])
    known, asked, notes = parted(every, None, model)
    assert (len(known), len(asked)) == (35, 35)
    assert "only 6 of them are not tested themselves" in notes[0]
    # The command leaves the choice to the record unless references are named.
    assert splits_of(str(trained / "texts.jsonl"), None, None, None, 5, model)[1] is None
    assert len(splits_of(str(trained / "texts.jsonl"), None, str(trained / "texts.jsonl"), None, 5, model)[1]) == 120


def test_a_bench_compares_with_what_was_held_out(trained):
    context, model = benching.Context(), str(trained / "model")
    held = {example.text for example in load_labeled(str(trained / "texts.jsonl"), hold_out=0.3).validation}
    metrics = ["recursive_erasure(step=1.0)"]
    plan = benching.plan_of(context, model, sentences(8, seed=4), ["random"], metrics)
    (cell,) = plan.of("check")
    assert set(plan.tables[cell.parents[1]].column("text").to_pylist()) == held
    assert cell.specs["references"] == "as_trained"


def test_what_cannot_be_rebuilt_is_said_and_not_used(trained, tmp_path, monkeypatch):
    report = json.loads((trained / "model" / "train.json").read_text())
    moved = tmp_path / "texts.jsonl"
    moved.write_text((trained / "texts.jsonl").read_text().replace("film", "movie"))
    asked = {**report["asked"], "data": str(moved)}
    model = saved(tmp_path / "model", report["identity"]["recipe"], asked=asked)
    own, why = held_out(model)
    assert own is None
    assert "has changed since the model was trained" in why
    monkeypatch.delenv("TROTH_DATA", raising=False)
    for source, reason in [("gone.jsonl", "not on this machine"), ("sst2", "not on this machine"), (None, "not name")]:
        model = saved(tmp_path / "model", report["identity"]["recipe"], asked={**asked, "data": source})
        own, why = held_out(model)
        assert own is None
        assert reason in why
    known, _, notes = parted(sentences(60, seed=5), None, model)
    assert len(known) == 30
    assert "train.json does not name the data" in notes[0]
    # The folder may say anything.
    for wrong in ({**asked, "columns": 5}, {**asked, "hold_out": "x"}, {"data": 5}):
        assert held_out(saved(tmp_path / "model", "plain", asked=wrong))[0] is None


def test_the_held_out_part_of_the_embedded_model_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    own, why = held_out_beside(load_model("embedded"), sentences(8, seed=4))
    assert own is None
    assert "sst2 is not on this machine" in why


@dataclass(frozen=True)
class Counted(Explainer):
    signed: ClassVar[bool] = False
    asked: ClassVar[list] = []

    def ask(self, question):
        yield from ()
        self.asked.append(question)
        # Another order each time: the last unit first, then the first.
        turn = 1 if question.base is None else -1
        return Attribution(question, turn * np.arange(question.n_units, dtype=np.float32), signed=False)


@dataclass(frozen=True)
class Once(Counted):
    recursive: ClassVar[bool] = True


@pytest.mark.parametrize(
    ("explainer", "recompute", "asked"),
    [(Counted(), None, 3), (Counted(), False, 1), (Once(), None, 1), (Once(), True, 3)],
)
def test_an_order_is_computed_once_where_said_or_where_the_explainer_is_recursive(explainer, recompute, asked):
    model, data = encoder(), load_data(["a good film with a plot"])
    Counted.asked.clear()
    (encoding,) = model.encode(data)
    points = (0, 2500, 5000, 7500, 10_000)
    (view,) = erased_views(Prober(model), explainer, [encoding], points, recompute=recompute)
    assert len(Counted.asked) == asked
    if asked == 1:
        scores = np.arange(encoding.n_units)
        left = 1 - top_units(scores, [encoding.n_units * point // 10_000 for point in points])
        (expected,) = Prober(model).run([_views(encoding, left)])
        np.testing.assert_allclose(view, expected, atol=1e-3)


def _views(encoding, left):
    from troth.core.types import Question
    from troth.engine.probes import Probe
    from troth.validity.masf import HIDDEN_STATES, largest

    answer = yield Probe(Question(encoding, target=0), left, readout=HIDDEN_STATES)
    return largest(answer)


def test_beam_search_is_recursive_by_itself():
    assert BeamSearch.recursive
    assert not Counted.recursive


def test_command_tells_whether_scores_change_when_weights_are_shuffled(tmp_path):
    saved(tmp_path / "model", "plain")
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps({"text": one.text, "label": 0}) + "\n" for one in sentences(4, 10)))
    command = ["check", "--model", str(tmp_path / "model"), "--data", str(path), "--randomization"]
    told = json.loads(CliRunner().invoke(app, [*command, "-e", "random", "-e", "gradient", "--json"]).stdout)
    found = {(one["explainer"], one["block"]): one["value"] for one in told}
    assert list(found) == [(name, block) for name in ("random", "gradient") for block in ("all", "class")]
    assert found["random", "all"] == found["random", "class"] == 1.0 > found["gradient", "all"]
    page = tmp_path / "shuffled.html"
    shown = CliRunner().invoke(app, [*command, "-e", "gradient", "--cascade", "--html", str(page)])
    assert shown.exit_code == 0, shown.output
    assert "gradient, bert.encoder.layer.1" in page.read_text(encoding="utf-8")
    assert "bert.encoder.layer.1" in shown.output
    assert "near 0" in shown.output
    refused = CliRunner().invoke(app, [*command[:-1], "--cascade"])
    assert isinstance(refused.exception, TrothError) or "--randomization" in refused.output


def test_only_a_missing_split_makes_halves_of_the_data(monkeypatch):
    def damaged(name, split=None, limit=None):
        asked.append(split)
        raise TrothError(f"{name}: row 3 of the split is damaged")

    asked = []
    monkeypatch.setattr("troth.validity.references.load_data", damaged)
    with pytest.raises(TrothError, match="row 3"):
        splits_of("films", None, None, None, None)
    assert asked == ["test"]
