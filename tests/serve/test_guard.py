"""Who may ask, and how much."""

import socket

import pytest

from serving import PORT, client_of, server_of
from troth import load_model

TEXT = {"text": "a fine film", "explainers": ["random"]}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with client_of({"embedded": load_model("embedded")}, tmp_path_factory.mktemp("none")) as client:
        yield client


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", ""])
def test_a_foreign_host_is_refused(client, host):
    for path in ("/", "/api/about", "/openapi.json"):
        answer = client.get(path, headers={"host": host})
        assert answer.status_code == 403
        assert "its own address" in answer.json()["error"]


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}"])
def test_the_page_answers_to_its_own_names(client, host):
    own = {"host": host, "origin": f"http://{host}"}
    assert client.post("/api/explain", json=TEXT, headers=own).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"https://127.0.0.1:{PORT}", f"http://127.0.0.1:{PORT + 1}", ""]
)
def test_a_foreign_origin_is_refused(client, origin):
    answer = client.post("/api/explain", json=TEXT, headers={"origin": origin})
    assert answer.status_code == 403
    assert client.post("/", data={"text": "a"}, headers={"origin": origin}).status_code == 403


def test_ten_megabytes_are_refused(client):
    large = b'{"text": "' + b"a" * 10_000_000 + b'"}'
    for path in ("/api/explain", "/api/erase", "/", "/erase"):
        answer = client.post(path, content=large, headers={"content-type": "application/json"})
        assert answer.status_code == 413
        assert "too large" in answer.json()["error"]


def test_a_length_that_is_not_told_is_counted(tmp_path):
    """A body in chunks says nowhere how long it is."""
    with server_of({"embedded": load_model("embedded")}, tmp_path) as (port, queue):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            head = f"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            for _ in range(32):  # 2 MB, and never the end of it
                connection.sendall(b"10000\r\n" + b"a" * 0x10000 + b"\r\n")
            answer = connection.recv(1000)
        assert b" 413 " in answer.split(b"\r\n")[0]
        assert queue.open == 0


def test_nothing_of_another_site_runs_in_the_page(client):
    headers = client.get("/").headers
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in headers
