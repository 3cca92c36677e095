"""A run that another process is writing right now."""

import os
import subprocess
import sys
import time

import pytest

from serving import client_of
from troth import load_model


@pytest.mark.full
def test_a_run_is_shown_while_another_process_writes_it(tmp_path):
    command = [
        sys.executable, "-m", "troth", "bench", "--limit", "60", "--workers", "1", "--out", "runs/live",
        "-e", "random,leave_one_out,gradient,integrated_gradients,input_x_gradient,attention",
        "--metrics", "comprehensiveness,sufficiency,log_odds",
    ]  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    seen, pages = [], []
    with (
        client_of({"embedded": load_model("embedded")}, tmp_path / "runs") as client,
        subprocess.Popen(command, env={**os.environ}, cwd=tmp_path, **quiet) as process,
    ):
        while process.poll() is None:
            run = client.get("/api/runs/live")
            if run.status_code == 404:
                time.sleep(0.05)  # it has not begun
                continue
            report, page = client.get("/api/runs/live/report"), client.get("/runs/live")
            assert (run.status_code, report.status_code, page.status_code) == (200, 200, 200), (run.text, report.text)
            assert run.json()["problem"] == ""
            seen.append((run.json()["finished"], run.json()["planned"]))
            pages.append(page.text)
        assert process.returncode == 0
        last = client.get("/api/runs/live").json()
        (board,) = client.get("/api/runs/live/report").json()
    assert [finished for finished, _ in seen] == sorted(finished for finished, _ in seen)
    assert any(0 < finished < planned for finished, planned in seen)
    assert len({*pages}) > 1  # it was not the same all the time
    assert last["finished"] == last["planned"]
    assert len(board["rows"]) == 6
