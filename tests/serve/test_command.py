"""`troth serve`: it says where it is, ends quietly, and what a user can fix is one line."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest

from fakes import Lookup
from serving import server_of


def test_a_port_in_use_is_one_line(troth):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, out, err = troth("serve", "--port", port)
    assert (code, out) == (2, "")
    assert err == f"troth: --port {port}: Address already in use; name another, or 0 for any that is free\n"


def test_a_port_where_troth_serve_is_already_says_so(troth, tmp_path, monkeypatch):
    monkeypatch.setattr("troth.commands.serve._PATIENCE", 300)
    with server_of({"lookup": Lookup({"a": [0, 1]})}, tmp_path) as (port, _):
        code, out, err = troth("serve", "--port", port)
    assert (code, out) == (2, "")
    assert err.startswith(
        f"troth: --port {port}: troth serve is already running there; open http://127.0.0.1:{port}/, or name"
    )


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
    assert (code, err) == (2, "troth: troth serve needs fastapi, which is not installed: pip install 'troth[serve]'\n")


@contextmanager
def started(folder, *options):
    """`troth serve` as a user has it. -> the process"""
    command = [sys.executable, "-m", "troth", "serve", "--port", "0", *options]
    # Buffered as usual: what is printed must come through a pipe at once all the same.
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=usual
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.full
def test_it_serves_until_it_is_interrupted_in_the_middle_of_work(tmp_path):
    with started(tmp_path, "--json") as process:
        url = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")["url"]
        assert url.startswith("http://127.0.0.1:")
        answer = httpx.post(f"{url}api/explain", json={"text": "a dull film"}, timeout=300, trust_env=False)
        assert answer.json()[0]["target_label"] == "negative"
        asked = {"text": "a dull film " * 60, "explainers": ["lime(samples=10000)"]}
        with httpx.stream(
            "POST",
            f"{url}api/explain",
            json=asked,
            headers={"accept": "text/event-stream"},
            timeout=300,
            trust_env=False,
        ) as streamed:
            assert any("progress" in line for line in streamed.iter_lines())
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "stopped\n")


def test_open_shows_the_page_in_the_browser(tmp_path, troth, monkeypatch):
    """The browser may connect at once: the socket listens before the server runs."""
    opened = []

    def open_page(url):
        opened.append(url)
        with socket.create_connection(("127.0.0.1", int(url.split(":")[2].strip("/"))), timeout=5):
            raise KeyboardInterrupt  # as the user would

    monkeypatch.setattr("webbrowser.open", open_page)
    code, out, err = troth("serve", "--port", 0, "--open")
    assert [out] == [f"open {url} in a browser on this machine; Ctrl-C stops\n" for url in opened]
    assert (code, err) == (0, "stopped\n")
