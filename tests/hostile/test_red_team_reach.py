"""Attacks by name: a plan, a record, a model folder or a request tries to send, read or run what nobody allowed.

Every connection and every name lookup is noted and refused, every secret is in the environment, and the code that
would be run leaves a file. An attack fails where the command ends in one line that names what was refused.
"""

import json
import os
import re
import shutil
import socket
import sys
import threading

import pytest

import fakes
from servers import failure, serving
from troth import cli, explain, load_model
from troth.commands.explain import keep_records
from troth.core import hub, trust
from troth.core.errors import TrothError
from troth.models._bases import pretrained_of
from troth.serve import requests
from troth.training.record import record_of
from troth.verbs import records

EVIL = "http://198.51.100.7/v1"
GOOD = "http://good.example/v1"
SECRET = "the-secret-of-the-user"
PLAN = {"models": ["model"], "data": ["data.jsonl"], "explainers": ["random"], "metrics": ["sparsity"]}
ASKING = f"llm_ranking(model='m', endpoint='{EVIL}', key_variable='DATABASE_PASSWORD', retries=0)"


def asking(url, key="DATABASE_PASSWORD"):
    return f"llm_ranking(model='m', endpoint={url!r}, key_variable={key!r}, retries=0)"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """What the user has: a model, data, a record of a decision; and elsewhere what is private."""
    folder = tmp_path_factory.mktemp("shop")
    for place in ("here/model", "private/model"):
        fakes.hf_model(classes=2).save_pretrained(folder / place)
        fakes.wordpiece().save_pretrained(folder / place)
    rows = [{"id": str(number), "text": text, "label": number % 2} for number, text in enumerate(fakes.CORPUS)]
    for place in ("here", "private"):
        (folder / place / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = load_model(str(folder / "here" / "model"))
    found = [explain(model, "a good film", "gradient")]
    keep_records(folder / "here" / "kept", found, model, model.name, {}, {"seed": 0})
    return folder


@pytest.fixture
def here(shop, tmp_path, monkeypatch):
    """The user's folder; what is private lies next to it."""
    for place in ("here", "private"):
        shutil.copytree(shop / place, tmp_path / place)
    (tmp_path / "here" / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef predict(t): ...\n")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def contacted(monkeypatch):
    """Every place that something tried to reach; nothing is reached.

    A test in which an endpoint is allowed may leave a thread that asks it again; such a thread is not counted.
    """
    seen = []
    left_over = {*threading.enumerate()} - {threading.current_thread()}

    def refuse(*arguments, **_):
        if threading.current_thread() not in left_over:
            seen.append(arguments)
        raise ConnectionRefusedError("nothing is reached in this test")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("create_connection", "getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)
    for variable in ("DATABASE_PASSWORD", "OPENAI_API_KEY", "HF_TOKEN"):
        monkeypatch.setenv(variable, SECRET)
    # As on a machine with a network.
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    hub._tried.cache_clear()
    yield seen
    hub._tried.cache_clear()


def troth(capsys, monkeypatch, *arguments):
    """-> exit code, what was printed"""
    monkeypatch.setattr(sys, "argv", ["troth", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    printed = capsys.readouterr()
    return left.value.code or 0, printed.out + printed.err


def toml(**changed):
    return "".join(f"{key} = {written(value)}\n" for key, value in {**PLAN, **changed}.items())


def written(value):
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {written(each)}' for key, each in value.items())}}}"
    return json.dumps(value)


# Plans: what the plan says, and what the user allows; {private} is a folder that the user has not named.
PLANS = {
    "an explainer asks an endpoint": ({"explainers": [ASKING]}, []),
    "an explainer asks with the usual key": ({"explainers": [f"llm_ranking(model='m', endpoint='{EVIL}')"]}, []),
    "the endpoint is in capitals": ({"explainers": [asking("HTTP://198.51.100.7/v1")]}, []),
    "the model is an endpoint": ({"models": [f"{EVIL}#m"]}, []),
    "the model is an endpoint, in a table": (
        {"models": [{"path": f"{EVIL}#m", "prompt": "{text}", "class_words": ["a", "b"], "key_variable": "HF_TOKEN"}]},
        [],
    ),
    "a metric's masking is a URL": ({"metrics": [f"comprehensiveness(masking='{EVIL}')"]}, []),
    "a metric's masking names a file": ({"metrics": ["comprehensiveness(masking=\"token(text='/etc/x')\")"]}, []),
    "the masking is a URL": ({"masking": f"token(text='{EVIL}')"}, []),
    "the data are a URL": ({"data": [f"{EVIL}/data.jsonl"]}, []),
    "the explainer is a file's code": ({"explainers": ["evil.py:predict"]}, []),
    "the explainer is a module's code": ({"explainers": ["os:system"]}, []),
    "the model is code": ({"models": ["evil.py:predict"]}, []),
    "the metric is code": ({"metrics": ["evil.py:predict"]}, []),
    "other code was allowed": ({"explainers": ["evil.py:predict"]}, ["evil.py:other"]),
    "data by an absolute path": ({"data": ["{private}/data.jsonl"]}, []),
    "data by ..": ({"data": ["../private/data.jsonl"]}, []),
    "data by .. in the middle": ({"data": ["model/../../private/data.jsonl"]}, []),
    "data through a link": ({"data": ["link.jsonl"]}, []),
    "data in the home folder": ({"data": ["~/data.jsonl"]}, []),
    "a model by an absolute path": ({"models": ["{private}/model"]}, []),
    "a model through a linked folder": ({"models": ["linked/model"]}, []),
    "a checkpoint elsewhere": ({"explainers": ["attributive_masking(checkpoint='{private}/model')"]}, []),
    "a language model elsewhere": ({"explainers": ["llm_ranking(model='{private}/model')"]}, []),
    "the run is written elsewhere": ({"out": "{private}/run"}, []),
    "a neighbor of an allowed path": ({"data": ["{private}/data.jsonl"]}, ["{private}/model"]),
    # The user allows one host; the plan names another that looks like it.
    "a longer host": ({"explainers": [asking("http://good.example.evil/v1")]}, [f"{GOOD}=DATABASE_PASSWORD"]),
    "a host before an @": ({"explainers": [asking("http://good.example@evil/v1")]}, [f"{GOOD}=DATABASE_PASSWORD"]),
    "another port": ({"explainers": [asking("http://good.example:8080/v1")]}, [f"{GOOD}=DATABASE_PASSWORD"]),
    "another scheme": ({"explainers": [asking(GOOD)]}, [f"{GOOD.replace('http', 'https')}=DATABASE_PASSWORD"]),
    "another path": ({"explainers": [asking(f"{GOOD}evil")]}, [f"{GOOD}=DATABASE_PASSWORD"]),
    "a path upwards": ({"explainers": [asking(f"{GOOD}/../evil")]}, [f"{GOOD}=DATABASE_PASSWORD"]),
    "a backslash in the host": ({"explainers": [asking("http://a\\.good.example/v1")]}, [f"{GOOD}=DATABASE_PASSWORD"]),
    "a blank in the host": ({"explainers": [asking("http://evil\tgood.example/v1")]}, [f"{GOOD}=DATABASE_PASSWORD"]),
    "a fragment hides the host": ({"explainers": [asking(f"{EVIL}#{GOOD}")]}, [f"{GOOD}=DATABASE_PASSWORD"]),
    "another key to an allowed host": ({"explainers": [asking(GOOD, "HF_TOKEN")]}, [f"{GOOD}=DATABASE_PASSWORD"]),
    "a key to a host allowed without one": ({"explainers": [asking(GOOD)]}, [GOOD]),
    "the usual key to a host allowed without one": (
        {"explainers": [f"llm_ranking(model='m', endpoint='{GOOD}')"]}, [GOOD]
    ),
    "one host's key to another that is allowed": (
        {"explainers": [asking(EVIL)]}, [f"{GOOD}=DATABASE_PASSWORD", EVIL]
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode", [["--dry-run"], []], ids=["dry", "run"])
@pytest.mark.parametrize("attack", PLANS)
def test_a_plan_reaches_nothing(here, contacted, capsys, monkeypatch, attack, mode):
    changed, allowed = PLANS[attack]
    private = str(here.parent / "private")
    monkeypatch.setenv("HOME", private)
    (here / "link.jsonl").symlink_to(here.parent / "private" / "data.jsonl")
    (here / "linked").symlink_to(here.parent / "private")
    (here / "plan.toml").write_text(toml(**changed).replace("{private}", private))
    flags = [part for name in allowed for part in ("--allow", name.replace("{private}", private))]
    before = sorted(here.parent.rglob("*"))
    code, said = troth(capsys, monkeypatch, "sweep", "plan.toml", *mode, *flags)
    assert code == 2, said
    assert re.search(r"allow it yourself with --allow|is code, which runs only|endpoint must ", said), said
    assert "Traceback" not in said
    assert contacted == []
    assert sorted(here.parent.rglob("*")) == before
    assert SECRET not in said


ALLOWED = {
    "the same path": ({"data": ["{private}/data.jsonl"]}, ["{private}/data.jsonl"]),
    "a folder above it": ({"models": ["{private}/model"]}, ["../private"]),
    "a place to write": ({"out": "../private/run"}, ["../private"]),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_the_user_repeats_is_allowed(here, capsys, monkeypatch, name):
    changed, allowed = ALLOWED[name]
    private = str(here.parent / "private")
    (here / "plan.toml").write_text(toml(**changed).replace("{private}", private))
    flags = [part for name in allowed for part in ("--allow", name.replace("{private}", private))]
    code, said = troth(capsys, monkeypatch, "sweep", "plan.toml", "--workers", 1, *flags)
    assert code == 0, said


def test_allowed_code_runs_and_allowed_endpoints_get_the_key_named_for_them(here, capsys, monkeypatch):
    monkeypatch.setenv("MY_KEY", SECRET)
    (here / "mine.py").write_text("def lengths(model, example):\n    return [len(w) for w in example.text.split()]\n")
    reply = (200, {}, json.dumps({"choices": [{"message": {"content": '["good"]'}}]}).encode())
    with serving(*[reply] * 99) as (server, url):
        methods = ["mine.py:lengths", asking(url, "MY_KEY")]
        (here / "plan.toml").write_text(toml(explainers=methods, limit=2))
        flags = ["--allow", "mine.py:lengths", "--allow", f"{url}=MY_KEY"]
        code, said = troth(capsys, monkeypatch, "sweep", "plan.toml", "--dry-run", *flags)
        assert (code, server.seen) == (0, []), said
        code, said = troth(capsys, monkeypatch, "sweep", "plan.toml", "--workers", 1, *flags)
        assert code == 0, said
        assert {headers["Authorization"] for _, headers, *_ in server.seen} == {f"Bearer {SECRET}"}
    assert hub.network_off() == ""
    assert trust.allowed() == frozenset()


def test_a_redirect_takes_neither_the_key_nor_the_text_along(here, capsys, monkeypatch):
    monkeypatch.setenv("MY_KEY", SECRET)
    with serving() as (other, elsewhere):
        with serving(*[failure(307, Location=f"{elsewhere}/x")] * 9) as (server, url):
            (here / "plan.toml").write_text(toml(explainers=[asking(url, "MY_KEY")], limit=2))
            code, said = troth(capsys, monkeypatch, "sweep", "plan.toml", "--workers", 1, "--allow", f"{url}=MY_KEY")
            assert server.seen
        assert other.seen == []
    assert code == 1
    assert "answered 307" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "hub.toml"],
        ["bench", "-m", "owner/model", "-d", "data.jsonl"],
        ["bench", "-m", f"{EVIL}#m", "-d", "data.jsonl", "--prompt", "{text}", "--class-words", "a,b"],
        ["bench", "-m", "model", "-d", "data.jsonl", "-e", f"llm_ranking(model='m', endpoint='{EVIL}')"],
        ["bench", "-m", "model", "-d", "owner/data"],
        ["study", "fmm", "--base", "owner/model"],
    ],
    ids=["a hub name in a plan", "a hub model", "an endpoint", "an explainer's endpoint", "hub data", "a study's base"],
)  # fmt: skip
def test_a_dry_run_touches_no_network(here, contacted, capsys, monkeypatch, arguments):
    (here / "hub.toml").write_text(toml(models=["owner/model"]))
    _, said = troth(capsys, monkeypatch, *arguments, "--dry-run")
    assert contacted == [], said
    assert "Traceback" not in said
    assert "HF_HUB_OFFLINE" not in os.environ


def forged(here, edit):
    (path,) = (here / "kept").glob("*.json")
    facts = json.loads(path.read_text())
    facts["model"]["source"] = "model"
    edit(facts)
    facts["signature"] = records.signature(facts)
    path.write_text(json.dumps(facts))
    return path


def setting(*keys):
    def edit(facts, value):
        for key in keys[:-1]:
            facts = facts[key]
        facts[keys[-1]] = value

    return edit


EXPLAINER, SOURCE, OPTIONS = (
    setting("explanations", 0, "explainer"),
    setting("model", "source"),
    setting("model", "options"),
)
RECORDS = {
    "its explainer asks an endpoint": (EXPLAINER, ASKING, []),
    "its explainer reads a checkpoint elsewhere": (EXPLAINER, "attributive_masking(checkpoint='{private}/model')", []),
    "its explainer is code": (EXPLAINER, "evil.py:predict", []),
    "its explainer is a language model elsewhere": (EXPLAINER, "llm_ranking(model='{private}/model')", []),
    "its model is an endpoint": (SOURCE, f"{EVIL}#m", []),
    "its model is elsewhere": (SOURCE, "{private}/model", []),
    "its model is upwards": (SOURCE, "../private/model", []),
    "its model is code": (SOURCE, "evil.py:predict", []),
    "its model is on the hub": (SOURCE, "evil/model", []),
    "its masking names a file": (setting("settings", "masking"), "token(text='{private}/data.jsonl')", []),
    "its proof's masking is a URL": (setting("settings", "proof"), {"masking": f"token(text='{EVIL}')"}, []),
    "its options name a key for the user's host": (
        OPTIONS, {"key_variable": "DATABASE_PASSWORD", "prompt": "{text}", "class_words": ["a"]}, ["-m", f"{GOOD}#m"]
    ),
    "its options name a cache elsewhere": (OPTIONS, {"cache": "{private}"}, []),
    "its options name a tokenizer elsewhere": (OPTIONS, {"tokenizer": "{private}/model"}, []),
}  # fmt: skip


@pytest.mark.parametrize("attack", RECORDS)
def test_a_record_reaches_nothing(here, contacted, capsys, monkeypatch, attack):
    edit, value, flags = RECORDS[attack]
    private = str(here.parent / "private")
    value = json.loads(json.dumps(value).replace("{private}", private))
    path = forged(here, lambda facts: edit(facts, value))
    before = sorted(here.parent.rglob("*"))
    code, said = troth(capsys, monkeypatch, "verify", path, *flags)
    assert code in (1, 2)
    refusals = (
        "with --allow",
        "is code, which",
        "is not one of troth's own",
        "was not found; pass its location",
        "is not a complete",
    )
    assert any(refusal in said for refusal in refusals), said
    assert contacted == []
    assert sorted(here.parent.rglob("*")) == before
    assert SECRET not in said


FOLDERS = {
    "an adapter's base elsewhere": ("adapter_config.json", {"base_model_name_or_path": "{private}/model"}),
    "an adapter's base upwards": ("adapter_config.json", {"base_model_name_or_path": "../../private/model"}),
    "an adapter's base is a URL": ("adapter_config.json", {"base_model_name_or_path": f"{EVIL}#m"}),
    "an adapter's base is code": ("adapter_config.json", {"base_model_name_or_path": "evil.py:predict"}),
    "a checkpoint's metric is code": ("attributive.json", {"metric": "evil.py:predict"}),
    "a checkpoint's metric is a URL": ("attributive.json", {"metric": f"comprehensiveness(masking='{EVIL}')"}),
    "a training's data elsewhere": ("train.json", {"data": "{private}/data.jsonl"}),
    "a training's data are a URL": ("train.json", {"data": f"{EVIL}/data.jsonl"}),
    "a training's validation elsewhere": ("train.json", {"data": "reviews", "validation": "{private}/data.jsonl"}),
    "a classifier's encoder elsewhere": ("config.json", {"_name_or_path": "{private}/model"}),
}  # fmt: skip


@pytest.mark.parametrize("attack", FOLDERS)
def test_a_model_folder_reaches_nothing(here, contacted, attack):
    from troth.attribution_model import saving

    file, said = FOLDERS[attack]
    said = json.loads(json.dumps(said).replace("{private}", str(here.parent / "private")))
    folder = here / "theirs"
    if file == "adapter_config.json":
        folder.mkdir()
        (folder / file).write_text(json.dumps(said))
        (folder / "adapter_model.safetensors").touch()
        with pytest.raises(TrothError, match=r"with --allow|is code, which runs only"):
            load_model(str(folder))
    elif file == "attributive.json":
        folder.mkdir()
        (folder / file).write_text(json.dumps({"labels": [], "variant": "paper", "loss": {}, **said}))
        with pytest.raises(TrothError, match=r"with --allow|is code, which runs only"):
            saving.facts(folder)
    else:
        shutil.copytree(here / "model", folder)
        if file == "train.json":
            (folder / file).write_text(json.dumps({"identity": {"recipe": "plain"}, "asked": said}))
            record = record_of(load_model(str(folder)))
            with pytest.raises(TrothError, match="with --allow"):
                record.held_out()
        else:
            config = json.loads((folder / file).read_text())
            (folder / file).write_text(json.dumps({**config, **said}))
            found, why = pretrained_of(str(folder))
            assert found is None
            assert "with --allow" in why
    assert contacted == []
    assert not (here.parent / "ran").exists()


REQUESTS = {
    "an endpoint": (requests.explainers, [ASKING]),
    "a checkpoint": (requests.explainers, ["attributive_masking(checkpoint=model)"]),
    "code": (requests.explainers, ["evil.py:predict"]),
    "a file in an option": (requests.explainers, ["leave_one_out(of='data.jsonl')"]),
    "a URL in a masking": (requests.masking, f"token(text='{EVIL}')"),
    "a file in a masking": (requests.masking, "token(text='data.jsonl')"),
    "code as a masking": (requests.masking, "evil.py:predict"),
}


@pytest.mark.parametrize("attack", REQUESTS)
def test_a_request_reaches_nothing_whatever_the_user_allows(here, contacted, attack):
    check, asked = REQUESTS[attack]
    line = "names|reads checkpoint|reads endpoint|is code, which runs only"
    with (
        trust.allowing(f"{EVIL}=DATABASE_PASSWORD", str(here), "evil.py:predict"),
        pytest.raises(TrothError, match=line),
    ):
        check(asked)
    assert contacted == []
    assert not (here.parent / "ran").exists()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("OPENAI_API_KEY", "a key is allowed together with the endpoint"),
        ("http://user:password@host/v1", "must not contain a password"),
        ("http://host/v1=not a name", "is not the name of an environment variable"),
        ("ftp://host", "endpoint must be a URL"),
        ("nowhere/at/all", "there is no such file or folder"),
    ],
)
def test_what_could_never_allow_anything_is_refused(here, capsys, monkeypatch, name, line):
    code, said = troth(capsys, monkeypatch, "verify", "kept", "--allow", name)
    assert code == 2
    assert line in said
