"""`troth serve`: it says where it is, ends quietly, and what a user can fix is one line."""

import json
import os
import signal
import socket
import subprocess
import sys

import httpx


def test_a_port_in_use_is_one_line(troth):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, out, err = troth("serve", "--port", port)
    assert (code, out) == (2, "")
    assert err == f"troth: --port {port}: Address already in use; name another, or 0 for any that is free\n"


def test_an_unknown_run_is_one_line(troth):
    code, out, err = troth("serve", "nothing", "--port", 0)
    assert (code, out) == (2, "")
    assert err.startswith("troth: no run is called 'nothing'")
    assert err.count("\n") == 1


def test_a_model_named_twice_and_a_port_that_is_none_are_one_line(troth):
    assert troth("serve", "-m", "embedded,embedded", "--port", 0)[2].startswith("troth: --model names one model twice")
    assert troth("serve", "--port", 70_000)[2] == "troth: --port must be 0 to 65535, not 70000\n"


def test_without_its_extra_it_says_what_to_install(troth, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    code, _, err = troth("serve")
    assert (code, err) == (2, 'troth: troth serve needs fastapi; pip install "troth[serve]"\n')


def test_it_serves_until_it_is_interrupted(tmp_path):
    command = [sys.executable, "-m", "troth", "serve", "--port", "0", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env={**os.environ}
    ) as process:
        printed = "".join(iter(process.stdout.readline, "}\n")) + "}"
        url = json.loads(printed)["url"]
        assert url.startswith("http://127.0.0.1:")
        answer = httpx.post(f"{url}api/explain", json={"text": "a dull film"}, timeout=60, trust_env=False)
        assert answer.json()[0]["target_label"] == "negative"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "stopped\n")
