"""What a burst of requests needed goes back to the system."""

import json
import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def megabytes(process):
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@needs_linux
@pytest.mark.full
@pytest.mark.alone
def test_what_is_freed_goes_back_to_the_system():
    """Small tensors lie in the heap; those that stay among them keep glibc from giving back what is below."""
    code = """
        import torch
        from pathlib import Path
        from troth.serve.work_queue import release_memory

        def megabytes():
            lines = Path("/proc/self/status").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

        before = megabytes()
        many = [torch.ones(2_500) for _ in range(20_000)]  # 10 KB each
        stay = many[::100]
        del many
        kept = megabytes() - before
        release_memory()
        print(kept, megabytes() - before)
    """
    printed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, env={**os.environ}
    )
    kept, left = map(float, printed.stdout.split())
    assert kept > 100  # else this shows nothing
    assert left < 40


@needs_linux
@pytest.mark.full
@pytest.mark.alone
def test_waves_of_fifty_leave_memory_where_it_was(tmp_path):
    command = [sys.executable, "-m", "troth", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env={**os.environ}) as process:
        url = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")["url"]
        try:
            first = settled(url, process.pid, 0, 1)  # what any request loads once
            waves = [settled(url, process.pid, wave, 50) for wave in range(1, 4)]
        finally:
            process.terminate()
            process.wait(timeout=20)
    print(f"after one request {first:.0f} MB, after each wave of fifty {[round(each) for each in waves]}")
    assert max(waves) - first < 60
    assert waves[-1] - waves[0] < 25  # no wave adds to the one before; what the allocator keeps differs by some MB


def settled(url, process, wave, count):
    """Sends so many requests at once; how much memory the server has a little later."""
    words = ["dull", "bad", "good", "great", "plot", "actor", "film", "scene", "music", "long"]

    def ask(place):
        text = " ".join(words[(place * 7 + step * step + wave) % 10] for step in range(10 + place % 30))
        asked = {"text": text, "explainers": ["leave_one_out", "integrated_gradients", "lime(samples=30)"]}
        return httpx.post(f"{url}api/explain", json=asked, timeout=300, trust_env=False).status_code

    with ThreadPoolExecutor(count) as pool:
        assert {*pool.map(ask, range(count))} <= {200, 503}
    time.sleep(4)  # idle, so that memory is given back
    return megabytes(process)
