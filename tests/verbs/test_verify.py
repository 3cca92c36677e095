"""Records of decisions: they hold as long as the file, the model and what it says are what they were."""

import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import fakes
from troth.verbs import records
from troth.verbs.verify import verify

TEXTS = ["a good film with a great cast", "not a bad book , but dull"]


@pytest.fixture
def kept(troth, tmp_path):
    """A model folder and the records of two decisions of it."""
    fakes.hf_model().save_pretrained(tmp_path / "model")
    fakes.wordpiece().save_pretrained(tmp_path / "model")
    code, out, _ = troth(
        *["explain", *TEXTS, "-m", "model", "-e", "leave_one_out", "-e", "lime(samples=50)", "-e", "tf_idf"],
        *["--seed", "5", "--record", "kept"],
    )
    assert code == 0
    assert "written to kept/index.html" in out
    return tmp_path / "kept"


def files(kept):
    return sorted(kept.glob("*.json"))


def change(path, edit, resign=False):
    facts = json.loads(path.read_text())
    edit(facts)
    if resign:
        facts["signature"] = records.signature(facts)
    path.write_text(json.dumps(facts))


def test_a_record_says_all_that_is_needed(kept):
    assert len(files(kept)) == 2
    for text, path in zip(TEXTS, files(kept), strict=True):
        facts = json.loads(path.read_text())
        assert (facts["text"], facts["settings"]["seed"], facts["model"]["name"]) == (text, 5, "model")
        assert len(facts["model"]["fingerprint"]) == 16
        assert {"python", "torch", "transformers"} <= set(facts["versions"])
        assert facts["time"].startswith("20")
        assert facts["signature"].startswith("sha256:")
        assert [each["explainer"].partition("(")[0] for each in facts["explanations"]] == [
            "leave_one_out", "lime", "tf_idf",
        ]  # fmt: skip
        assert all(each["proof"]["choices"] > 1 for each in facts["explanations"])
    page = (kept / "index.html").read_text()
    assert all(text.split()[-1] in page for text in TEXTS)
    assert page.count("without its top 20 %") == 6
    assert json.loads(files(kept)[0].read_text())["model"]["fingerprint"] in page


def test_records_hold(kept, troth):
    code, out, err = troth("verify", "kept")
    assert (code, err) == (0, "")
    assert "2 of 2 records hold" in out
    code, out, _ = troth("verify", "kept", "--json")
    assert code == 0
    said = json.loads(out)
    assert said["holds"] is True
    assert [each["text"] for each in said["records"]] == TEXTS


def test_a_changed_model_fails_with_one_line(kept, troth):
    weights = load_file("model/model.safetensors")
    weights["classifier.bias"] = weights["classifier.bias"] + torch.tensor([0.0, 0.0, 1.0])
    save_file(weights, "model/model.safetensors", metadata={"format": "pt"})
    code, out, _ = troth("verify", "kept")
    assert code == 1
    (line,) = [line for line in out.splitlines() if line.startswith("fails")]
    assert "the model has changed: " in line
    assert "0 of 2 records hold" in out


def test_a_moved_model_is_named(kept, troth, tmp_path):
    shutil.move(tmp_path / "model", tmp_path / "elsewhere")
    code, _, err = troth("verify", "kept")
    assert code == 2
    assert "is not there; name it with --model" in err
    assert troth("verify", "kept", "-m", "elsewhere")[0] == 0


def test_a_changed_file_fails(kept):
    change(files(kept)[0], lambda facts: facts["explanations"][0]["scores"].reverse())
    first, second = verify(kept)
    assert not first.holds
    assert "its signature does not fit" in first.why
    # tf_idf learned from both texts, of which one is no longer known.
    assert "tf_idf learned from 2 texts together; records of 1 of them can be used" in second.why


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (
            lambda facts: facts["explanations"][0]["scores"].__setitem__(0, 9.0),
            r"leave_one_out gave '(a|not)' \+9, now ",
        ),
        (lambda facts: facts["explanations"][1]["proof"].update(without_top=0.5), "lime: without top was 0.5000, now"),
        (
            lambda facts: facts["explanations"][0].update(target=0, explainer="evil.py:Evil"),
            "cannot be explained again",
        ),
        (lambda facts: facts["explanations"][0]["probabilities"].__setitem__(0, 0.9), "differs by"),
        (lambda facts: facts["explanations"][0].pop("units"), "not the facts of an attribution"),
    ],
)
def test_what_does_not_come_out_again_fails(kept, edit, why):
    for path in files(kept):
        change(path, edit, resign=True)
    for each in verify(kept):
        assert not each.holds
        assert re.search(why, each.why), each.why


def test_damaged_files_are_named(kept, troth):
    files(kept)[0].write_text("{")
    (kept / "other.json").write_text('{"a": 1}')
    code, out, _ = troth("verify", "kept")
    assert code == 1
    assert "is not a record: it is not JSON" in out
    assert "is not a record of troth explain --record" in out


def test_a_record_cannot_name_code_to_run(kept, troth, tmp_path):
    (tmp_path / "evil.py").write_text(
        "open('owned', 'w').close()\ndef predict(texts): return [[0.5, 0.5] for _ in texts]\n"
    )
    for path in files(kept):
        change(path, lambda facts: facts["model"].update(source="evil:predict"), resign=True)
    assert troth("verify", "kept")[0] == 2
    assert not (tmp_path / "owned").exists()


def test_a_second_run_joins_the_first(kept, troth):
    assert troth("explain", "a dull film", "-m", "model", "-e", "gradient", "--no-proof", "--record", "kept")[0] == 0
    assert len(files(kept)) == 3
    assert "a dull film" in "".join(each.text for each in verify(kept) if each.holds)
    assert troth("verify", "kept")[0] == 0
