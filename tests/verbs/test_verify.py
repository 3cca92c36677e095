"""Records of decisions: they hold as long as the file, the model and what it says are what they were."""

import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import fakes
from troth import explain, prove
from troth.verbs import records
from troth.verbs.comparison import sentence
from troth.verbs.proof import CHOICES, RATIO
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
        assert len(facts["model"]["fingerprint"]) == 32
        assert {"python", "torch", "transformers"} <= set(facts["versions"])
        assert facts["time"].startswith("20")
        assert facts["signature"].startswith("sha256:")
        assert [each["explainer"].partition("(")[0] for each in facts["explanations"]] == [
            "leave_one_out", "lime", "tf_idf",
        ]  # fmt: skip
        assert all(each["proof"]["choices"] > 1 for each in facts["explanations"])
    page = (kept / "index.html").read_text()
    assert all(text.split()[-1] in page for text in TEXTS)
    assert page.count("Without its top ") == 6
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
    assert "was not found; pass its location with --model" in err
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


# --- forged records, signed again


def put(*path_and_value):
    """An edit that puts a value at a place of the record."""
    *path, last, value = path_and_value

    def edit(facts):
        for part in path:
            facts = facts[part]
        facts[last] = value

    return edit


def nothing(facts):
    """No edit at all."""


def first(*path_and_value):
    return put("explanations", 0, *path_and_value)


def taken_out(*path):
    def edit(facts):
        for part in path[:-1]:
            facts = facts[part]
        del facts[path[-1]]

    return edit


def renamed_labels(facts):
    for each in facts["explanations"]:
        each["labels"] = ["innocent", *each["labels"][1:]]


def another_target(facts):
    for each in facts["explanations"]:
        each["target"] = (each["target"] + 1) % 3
        each["target_label"] = each["labels"][each["target"]]


def without_evidence(facts):
    facts["explanations"][0]["proof"] = None


def another_text(facts):
    """Everywhere, but the numbers are those of the old one."""
    for each in [facts, *facts["explanations"]]:
        each["text"] = each["text"].replace("a ", "A ", 1).replace("good", "bad").replace("bad", "good")


FORGED = {
    "text": put("text", "a perfect film"),
    "text everywhere": another_text,
    "id": put("id", "case 4711"),
    "text pair": put("text_pair", "and its sequel"),
    "model name": put("model", "name", "approved-model"),
    "comparison": put("comparison", "Most faithful on this text: lime."),
    "no comparison": put("comparison", ""),
    "labels": renamed_labels,
    "target label": first("target_label", "innocent"),
    "target": another_target,
    "spans": first("spans", 0, [0, 2]),
    "units": first("units", 0, "nobody"),
    "segments": first("segments", 0, 1),
    "unit kind": first("unit_kind", "sentence"),
    "scores": first("scores", 0, 9.0),
    "a score left out": first("scores", 0, None),
    "rest": first("rest", 4.0),
    "gap": first("gap", 0.0),
    "signed": first("signed", False),
    "seed of one": first("seed", 6),
    "model of one": first("model", "0" * 32),
    "truncated": first("truncated", 3),
    "note": first("note", "audited"),
    "prompt": first("prompt", [[None, "Judge:"]]),
    "continuation": first("continuation", ["yes"]),
    "threshold": first("threshold", 0.1),
    "against": first("against", 1),
    "against label": first("against_label", "LABEL_1"),
    "outputs": first("outputs", "labels"),
    "probability": first("probabilities", 0, 0.9),
    "a class more": lambda facts: facts["explanations"][0]["probabilities"].append(0.0),
    "text of one": put("explanations", 1, "text", "another"),
    "label of one": put("explanations", 1, "label", 2),
    "an explanation twice": lambda facts: facts["explanations"].append(facts["explanations"][0]),
    "settings seed": put("settings", "seed", 6),
    "settings masking": put("settings", "masking", "delete"),
    "settings units": put("settings", "units", "token"),
    "settings target": put("settings", "target", "each"),
    "proof settings": put("settings", "proof", "ratio", 0.5),
    "proof choices": put("settings", "proof", "choices", 10**9),
    "no evidence": without_evidence,
    "texts together": put("run", "texts", 0),
    **{
        f"proof {name}": first("proof", name, value)
        for name, value in {
            "ratio": 0.3, "count": 5, "masking": "delete", "probability": 0.99, "without_top": 0.01,
            "without_random": 0.99, "random_low": 0.98, "random_high": 1.0, "choices": 10_000, "exact": False,
            "chance": 0.5, "predicted_without_top": "LABEL_9", "runner_up": "nobody", "runner_up_probability": 0.9,
            "runner_up_without_top": 0.9, "most_faithful": "forged",
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_no_forged_field_holds(signed_again, name):
    """Every field of a record is computed again or compared; the hash of the file is that of the forgery."""

    def edit(facts):
        FORGED[name](facts)
        proof = facts["explanations"][0]["proof"]
        if proof and proof["most_faithful"] == "forged":
            before = next(each["proof"]["most_faithful"] for each in facts["explanations"][1:])
            proof["most_faithful"] = True if before is None else not before

    verified = signed_again(edit)
    assert not any(each.holds for each in verified)
    assert all(each.why and "\n" not in each.why for each in verified)


MALFORMED = {
    "unknown field": (put("approved_by", "me"), "approved_by is not a field of it"),
    "unknown field of one": (first("confidence", 1.0), "explanations[0].confidence is not a field of it"),
    "unknown field of the proof": (first("proof", "stars", 5), "explanations[0].proof.stars is not a field of it"),
    "unknown setting": (put("settings", "progress", True), "settings.progress is not a field of it"),
    "missing units": (lambda facts: taken_out("explanations", 0, "units")(facts), "explanations[0].units is missing"),
    "missing comparison": (taken_out("comparison"), "comparison is missing"),
    "text as a number": (put("text", 5), "text must be text, not 5"),
    "scores as text": (first("scores", "high"), "explanations[0].scores must be a list"),
    "spans as numbers": (first("spans", [1, 2]), "explanations[0].spans[0] must be a list"),
    "spans of text": (first("spans", [["a", "b"]]), "must be a whole number"),
    "target as text": (first("target", "0"), "explanations[0].target must be a whole number"),
    "target as a truth": (first("target", True), "explanations[0].target must be a whole number"),
    "seed as text": (put("settings", "seed", "5"), "settings.seed must be a whole number"),
    "units as a list": (put("settings", "units", []), "settings.units must be text"),
    "settings as a list": (put("settings", []), "settings must be a table"),
    "proof as text": (first("proof", "good"), "explanations[0].proof must be"),
    "model as text": (put("model", "embedded"), "model must be a table"),
    "options as a list": (put("model", "options", [1]), "model.options must be a table"),
    "source as a number": (put("model", "source", 5), "model.source must be text"),
    "run as a number": (put("run", 1), "run must be a table"),
    "texts as text": (put("run", "texts", "2"), "run.texts must be a whole number"),
    "explanations as a table": (put("explanations", {}), "explanations must be a list"),
    "no explanations": (put("explanations", []), "it contains no explanation"),
    "an explanation as text": (put("explanations", ["x"]), "explanations[0] must be a table"),
    "time as a number": (put("time", 5), "time must be text"),
    "time as words": (put("time", "yesterday"), "time must be like"),
    "format": (put("format", True), "has format True"),
    "signature as a list": (put("comparison", ["x"]), "comparison must be text"),
    "deep": (first("note", [[[[]]]]), "explanations[0].note must be text"),
    "huge number": (first("proof", "chance", 10**40), "cannot be 1000"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_wrong_fields_are_refused_with_one_line(signed_again, name):
    edit, line = MALFORMED[name]
    for each in signed_again(edit):
        assert not each.holds
        assert line in each.why
        assert "\n" not in each.why


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"probabilities": [', '"probabilities": [NaN, ', "NaN is not a number in JSON"),
        ('"rest": ', '"rest": -Infinity, "_": ', "-Infinity is not a number in JSON"),
        ('"rest": ', '"rest": 1e999, "_": ', "1e999 is too large"),
        ('"comparison"', '"text": "a bad film", "comparison"', "the field 'text' occurs twice"),
        ('"note"', '"target": 0, "note"', "the field 'target' occurs twice"),
    ],
)
def test_what_json_leaves_open_is_refused(kept, old, new, line):
    for path in files(kept):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
    assert all(not each.holds and line in each.why for each in verify(kept))


@pytest.mark.parametrize("options", [{"max_length": "long"}, {"dtype": 5}, {"labels": 7}, {"no_such": 1}])
def test_options_of_the_wrong_type_are_one_line(kept, troth, options):
    for path in files(kept):
        change(path, put("model", "options", options), resign=True)
    code, _, err = troth("verify", "kept")
    assert code == 2
    assert err.count("\n") == 1


def test_a_record_of_an_earlier_troth_says_so(signed_again):
    for each in signed_again(put("model", "fingerprint", "a81b2e4de7ed4986")):
        assert "it was recorded by an earlier troth" in each.why


@pytest.fixture
def signed_again(one_record, tmp_path):
    """Changes one record, signs it again and verifies it with the model it names."""

    def verified(edit):
        facts = json.loads(json.dumps(one_record[0]))
        edit(facts)
        assert facts != one_record[0] or edit is nothing
        facts["signature"] = records.signature(facts)
        (tmp_path / "record.json").write_text(json.dumps(facts))
        return verify(tmp_path / "record.json", one_record[1])

    return verified


@pytest.fixture(scope="module")
def one_record():
    """The facts of a record, and its model."""
    model = fakes.encoder()
    settings = {"units": "word", "segments": "first", "target": "predicted", "masking": "mask_token", "seed": 5}
    settings |= {"against": None}
    found = prove(model, explain(model, [TEXTS[0]], ["leave_one_out", "gradient"], progress=False, seed=5))
    row = [attributions[0] for attributions in found.values()]
    facts = records.decision(
        row, model, source=model.name, options={}, run={"id": "0", "texts": 1}, versions={"troth": "0"},
        settings={**settings, "proof": {"ratio": RATIO, "choices": CHOICES, "masking": row[0].proof.masking}},
        comparison=sentence(row),
    )  # fmt: skip
    return facts, model


def test_the_record_that_is_forged_holds(signed_again):
    assert [each.why for each in signed_again(nothing)] == [""]


# --- signing with a key


def test_only_records_signed_with_the_key_hold(troth, tmp_path):
    (tmp_path / "key").write_bytes(b"0123456789abcdef0123")
    (tmp_path / "other").write_bytes(b"x" * 32)
    (tmp_path / "short").write_bytes(b"secret")
    asked = ["explain", "a good film", "-e", "gradient", "--no-proof"]
    assert troth(*asked, "--record", "kept", "--key-file", "key")[0] == 0
    (path,) = files(tmp_path / "kept")
    assert b"0123456789abcdef0123" not in path.read_bytes()
    assert '"signature": "hmac-sha256:' in path.read_text()
    assert "CHANGED" not in (tmp_path / "kept" / "index.html").read_text()
    assert troth("verify", "kept", "--key-file", "key")[0] == 0
    code, out, _ = troth("verify", "kept", "--key-file", "other")
    assert code == 1
    assert "signed with another key, or changed" in out
    code, out, _ = troth("verify", "kept")
    assert code == 1
    assert "it is signed with a key; name the file of the key with --key-file" in out
    # Whoever has no key can only sign without one.
    change(path, put("comparison", ""), resign=True)
    code, out, _ = troth("verify", "kept", "--key-file", "key")
    assert code == 1
    assert "it is not signed with a key" in out
    assert "the key file short must have 16 to 4,096 bytes" in troth("verify", "kept", "--key-file", "short")[2]
    assert troth("verify", "kept", "--key-file", "missing")[0] == 2
    assert "--key-file signs records" in troth(*asked, "--key-file", "key")[2]


def test_what_a_signature_proves_is_said(kept, troth):
    _, out, _ = troth("verify", "kept")
    assert "a signature shows whether the file was damaged, not who wrote it" in " ".join(out.split())
