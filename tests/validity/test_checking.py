import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from fakes import CORPUS, encoder, hf_model, planted, tokenizer_for
from troth.cli import app
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.data import load_data
from troth.engine.prober import Prober
from troth.explainers.leave_one_out import LeaveOneOut
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.models.black_box import BlackBox
from troth.statistics import simes
from troth.validity.checking import check, erased_views
from troth.validity.masf import MaSF
from troth.verbs.explain import explain

WORDS = sorted({word for text in CORPUS for word in text.split() if word.isalpha()})


def sentences(count, seed):
    generator = np.random.default_rng(seed)
    return load_data(
        [Example(f"{seed}-{i}", " ".join(generator.choice(WORDS, generator.integers(4, 12)))) for i in range(count)]
    )


def test_calibrated_p_values_are_uniform_under_the_null():
    # Many dependent hidden units, few references: the case in which the published way is not.
    generator = np.random.default_rng(0)
    mixing = generator.normal(size=(3, 20, 64))

    def draw(count):
        return np.einsum("nlk,lkh->nlh", generator.normal(size=(count, 3, 20)), mixing)

    found, published = [], []
    for _ in range(40):
        references, queries = draw(150), draw(100)
        found.append(MaSF.fit(references, over_hidden="fisher", self_included=False).p_values(queries))
        published.append(MaSF.fit(references).p_values(queries))
    levels = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75]
    shares = [(np.concatenate(found) <= level).mean() for level in levels]
    np.testing.assert_allclose(shares, levels, atol=0.035)
    assert (np.concatenate(published) <= 0.05).mean() > 0.1


def test_inputs_are_erased_as_recursive_erasure_erases():
    model, data, validation = encoder(), sentences(4, seed=1), sentences(40, seed=2)
    points = range(0, 10_001, 2_500)
    views = list(erased_views(Prober(model), LeaveOneOut(), model.encode(data), points))
    for example, seen in zip(data, views, strict=True):
        words, left = example.text.split(), list(range(len(example.text.split())))
        for point, ratio in enumerate((0, 0.25, 0.5, 0.75, 1)):
            view = [layer[point] for layer in seen]
            missing = int(len(words) * ratio) - (len(words) - len(left))
            if missing:
                scores = _leave_one_out(model, words, left)
                gone = left if ratio == 1 else sorted(left, key=lambda place: -scores[place])[:missing]
                left = [place for place in left if place not in gone]
            np.testing.assert_allclose(view, _logits_and_view(model, words, left)[1], atol=1e-4)
    fitted = MaSF.from_model(
        Prober(model), model.encode(validation, "token", "both"), over_hidden="fisher", self_included=False
    )
    found = check(model, data, validation, ["leave_one_out"], step=0.25, references="masked")
    assert found.p_values["leave_one_out"].tolist() == [fitted.p_values_of(seen).tolist() for seen in views]


def _ids(model, words, left):
    """A word's pieces, or as many mask tokens."""
    ids = []
    for place, word in enumerate(words):
        pieces = model.tokenizer(word, add_special_tokens=False)["input_ids"]
        ids += pieces if place in left else [model.mask_id] * len(pieces)
    return [model.tokenizer.cls_token_id, *ids, model.tokenizer.sep_token_id]


def _logits_and_view(model, words, left):
    import torch

    with torch.no_grad():
        output = model.model(input_ids=torch.tensor([_ids(model, words, left)]), output_hidden_states=True)
    return output.logits[0].numpy(), np.stack([layer[0].amax(0).numpy() for layer in output.hidden_states])


def _leave_one_out(model, words, left):
    target = int(_logits_and_view(model, words, list(range(len(words))))[0].argmax())
    now = _logits_and_view(model, words, left)[0][target]
    return {at: now - _logits_and_view(model, words, [one for one in left if one != at])[0][target] for at in left}


def test_a_check_says_what_it_rests_on():
    data = sentences(70, seed=3)
    found = check(encoder(), data, explainers=["random", "gradient"], step=0.5)
    assert (found.references, len(found.example_ids), found.masked_references) == (35, 35, 0.0)
    assert {name: p.shape for name, p in found.p_values.items()} == {"random": (35, 3), "gradient": (35, 3)}
    # Nothing is erased yet, and everything is: there the order does not matter.
    assert np.array_equal(found.p_values["random"][:, [0, 2]], found.p_values["gradient"][:, [0, 2]])
    assert any("nothing says that tiny bert was fine-tuned with masking" in note for note in found.notes)
    told = found.to_dict()
    assert told["explainers"]["random"]["p"] == found.by_ratio("random").tolist()
    assert json.loads(json.dumps(told))["ratios"] == [0, 0.5, 1]


def test_whole_references_find_all_masked_inputs_outside_and_masked_ones_do_not():
    data, validation = sentences(40, seed=4), sentences(200, seed=5)
    whole = check(encoder(), data, validation, step=0.5, references="whole")
    masked = check(encoder(), data, validation, step=0.5, references="masked")
    assert whole.by_ratio("random")[0] > 0.05
    assert whole.by_ratio("random")[-1] < 0.05 < masked.by_ratio("random")[1]
    assert whole.to_dict()["explainers"]["random"]["verdict"][::2] == ["no evidence against", "out of distribution"]
    assert "when erased in the order of random" in whole.answer()[0]
    lowest = simes(masked.by_ratio("random")[1:])
    assert masked.answer()[0].startswith(f"No evidence against (p = {lowest:.2g}): ")
    outside = simes(whole.by_ratio("random")[1:])
    assert whole.answer()[0].startswith(f"Out of distribution when erased in the order of random (p = {outside:.2g}): ")
    # As small as 1 / (references + 1), unless a reference is itself that unusual.
    assert 1 / 201 <= masked.smallest < 0.05
    assert masked.answer()[1] == f"The smallest p-value this check could have given is {masked.smallest:.2g}."


def test_texts_that_are_outside_before_anything_is_erased_are_told_apart():
    data = load_data([Example(f"x{i}", "?") for i in range(40)])
    found = check(encoder(), data, sentences(60, seed=5), step=0.5, references="whole")
    assert found.by_ratio("random")[0] < 0.05
    assert "before anything is erased" in found.answer()[0]
    assert not any("troth train masked" in line for line in found.answer())


def test_what_cannot_be_tested_is_said():
    model, data, validation = encoder(), sentences(20, seed=6), sentences(40, seed=7)
    deleted = check(model, data, validation, masking="delete")
    assert deleted.not_tested.startswith("not tested: under delete")
    assert not deleted.p_values
    # 40 references of 16 hidden units: most are extreme somewhere in every layer, so Simes can tell nothing apart.
    published = check(model, data, sentences(60, seed=8), variant="paper")
    assert "not tested: with 60 references no p-value can be below" in published.not_tested
    with pytest.raises(TrothError, match="needs 30 validation examples, but there are 20"):
        check(model, validation, data)
    with pytest.raises(TrothError, match="59 examples of memory are too few: half of them would be the references"):
        check(model, sentences(59, seed=9))
    with pytest.raises(TrothError, match="rule has no hidden states"):
        check(BlackBox(planted(), name="rule"), data, validation)
    with pytest.raises(TrothError, match="step must divide 1"):
        check(model, data, validation, step=0.3)
    with pytest.raises(TrothError, match=r"'hole'.*did you mean whole"):
        check(model, data, validation, references="hole")
    with pytest.warns(UserWarning, match="20 of 20 examples to test are also references"):
        same = check(model, data, load_data([*data, *validation]), step=0.5)
    assert "20 of 20" in same.notes[0]


def test_command_prints_verdicts_and_json(tmp_path):
    hf_model(classes=2).save_pretrained(tmp_path / "model")
    tokenizer_for("bert").save_pretrained(tmp_path / "model")
    path = tmp_path / "data.jsonl"
    path.write_text(
        "".join(json.dumps({"text": one.text, "label": i % 2}) + "\n" for i, one in enumerate(sentences(64, 10)))
    )
    command = ["check", "--model", str(tmp_path / "model"), "--data", str(path), "--step", "0.5"]
    shown = CliRunner().invoke(app, [*command, "--html", str(tmp_path / "check.html")])
    assert shown.exit_code == 0, shown.output
    assert "50 %" in shown.output
    page = (tmp_path / "check.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'id="report-data">(.*?)</script>', page)
    (found,) = json.loads(data)["checks"]
    assert found["answer"][0].startswith("No evidence against")
    assert found["lines"][0]["at"] == [0.0, 0.5, 1.0]
    assert "<td>50 %</td>" in page  # for browsers without scripts
    assert "No evidence against" in shown.output
    assert "smallest p-value this check could have given is 0.03" in shown.output
    told = json.loads(CliRunner().invoke(app, [*command, "-e", "random", "-e", "attention", "--json"]).stdout)
    assert set(told["explainers"]) == {"random", "attention"}
    assert told["references"] == 32
    untested = CliRunner().invoke(app, [*command, "--masking", "delete"])
    assert "not tested: under delete" in untested.output


def test_the_metric_still_follows_the_same_order():
    model, data = encoder(), sentences(3, seed=11)
    (attribution, *_) = explain(model, data, "leave_one_out")
    curve, _ = Prober(model).ask(RecursiveErasure(step=0.5)._curves([attribution.question], [attribution], None))
    half = attribution.question.n_units // 2
    kept = np.ones(attribution.question.n_units)
    kept[np.argsort(-attribution.scores, kind="stable")[:half]] = 0
    words = attribution.example.text.split()
    expected = _logits_and_view(model, words, np.flatnonzero(kept).tolist())[0]
    np.testing.assert_allclose(curve.logits[1].numpy(), expected, atol=1e-4)
