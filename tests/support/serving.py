"""The page on a real port of this machine, in a thread, for tests that need connections of their own."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.testclient import TestClient

from troth.serve.app import build
from troth.serve.runs import Runs

PORT = 8765


def app_of(models, folder, *, port=PORT, opened=None, limit=None):
    return build(models, Runs(folder, opened), port=port, limit=limit)


@contextmanager
def client_of(models, folder, **options):
    """A client that speaks to the application directly."""
    app = app_of(models, folder, **options)
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}", raise_server_exceptions=False) as client:
        client.queue = app._app.state.queue
        yield client


@contextmanager
def server_of(models, folder, **options):
    """-> its port, its queue"""
    place = socket.socket()
    place.bind(("127.0.0.1", 0))
    place.listen(128)
    port = place.getsockname()[1]
    app = app_of(models, folder, port=port, **options)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
    thread.start()
    try:
        until(lambda: server.started)
        yield port, app._app.state.queue
    finally:
        server.should_exit = True
        thread.join(timeout=60)
        place.close()


def until(holds, seconds=120):
    """Waits until something holds; fails where it never does."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.01)


def close(one, other):
    """Equal but for what the shape of a batch moves."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    return one == pytest.approx(other, abs=1e-4) if isinstance(one, float) else one == other
