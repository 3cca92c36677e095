"""Runs on the page: what the command line prints of them, as far as they are, and nothing else on this machine."""

import json

import pytest

from fakes import encoder
from films import film
from serving import client_of
from troth import bench, load_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    data = [film(number) for number in range(6)]
    bench(
        encoder("bert", classes=2), data, ["random", "leave_one_out"], ["comprehensiveness"],
        out=folder / "runs" / "first", workers=1,
    )  # fmt: skip
    return folder


@pytest.fixture
def client(folder):
    with client_of({"embedded": load_model("embedded")}, folder / "runs") as client:
        yield client


def test_runs_and_reports_are_the_json_of_the_command_line(client, folder, troth):
    _, listed, _ = troth("runs", folder / "runs", "--json")
    _, reported, _ = troth("report", folder / "runs" / "first", "--format", "json")
    assert client.get("/api/runs").json() == json.loads(listed)
    assert client.get("/api/runs/first/report").json() == json.loads(reported)
    assert client.get("/api/runs/first").json()["finished"] == json.loads(listed)[0]["finished"]


def test_the_report_is_a_page_that_can_reach_nothing(client):
    answer = client.get("/runs/first")
    assert "leave_one_out" in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("name", ["second", "%2e%2e", "..%2f..", "%2fetc", "first%00", "runs"])
def test_no_other_folder_is_opened(client, name):
    for path in (f"/api/runs/{name}", f"/api/runs/{name}/report", f"/runs/{name}"):
        assert client.get(path).status_code == 404


def test_an_unknown_run_is_one_line(client):
    assert (
        client.get("/api/runs/frist").json()["error"]
        == "no run is called 'frist'; did you mean first? there are: first"
    )


def test_a_run_that_is_being_written_is_shown_as_far_as_it_is(client, folder):
    half = folder / "runs" / "half"
    half.mkdir()
    whole = json.loads((folder / "runs" / "first" / "run.json").read_text())
    (half / "run.json").write_text(json.dumps(whole))
    try:
        assert client.get("/api/runs/half").json()["finished"] == 0
        assert client.get("/api/runs/half/report").json() == []
        assert client.get("/runs/half").status_code == 200
        (half / "run.json").write_text('{"format": ')
        assert "half" in client.get("/").text
        assert client.get("/api/runs/half").json()["problem"]
        assert client.get("/api/runs/half/report").status_code == 404
    finally:
        (half / "run.json").unlink()
        half.rmdir()
