"""A hub that cannot be reached is said in seconds, not after the client's own minute of trying."""

import errno
import socket
import threading

import pytest

from troth.core import hub
from troth.core.errors import TrothError
from troth.data import load_data
from troth.models import load_model


@pytest.fixture
def silent_hub(monkeypatch):
    """A hub that cannot be reached. -> the addresses and timeouts of all attempts"""
    attempts = []

    def refuse(address, timeout=None, *_, **__):
        attempts.append((address, timeout))
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "https://192.0.2.1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    hub._tried.cache_clear()
    yield attempts
    hub._tried.cache_clear()


def test_an_unreachable_hub_is_asked_once_and_briefly(silent_hub):
    from huggingface_hub import constants

    with pytest.raises(
        TrothError, match=r"cannot load nobody/nothing .* not in the cache \(192\.0\.2\.1 cannot be reached"
    ):
        load_model("nobody/nothing")
    assert silent_hub == [(("192.0.2.1", 443), 1.5)]
    assert constants.HF_HUB_OFFLINE is False


def test_so_are_data_of_an_unreachable_hub(silent_hub, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    with pytest.raises(TrothError, match=r"nobody/nothing cannot be loaded .* \(192\.0\.2\.1 cannot be reached"):
        load_data("nobody/nothing")
    assert silent_hub == [(("192.0.2.1", 443), 1.5)]
    assert datasets.config.HF_HUB_OFFLINE is False


def test_a_hub_whose_name_is_looked_up_for_ever_is_given_up(silent_hub, monkeypatch):
    stopped = threading.Event()

    def look_up(*_, **__):
        stopped.wait(60)
        raise OSError("stopped")

    monkeypatch.setattr(socket, "create_connection", look_up)
    monkeypatch.setattr(hub, "_PATIENCE", 0.01)
    assert hub.unreachable() == "192.0.2.1 cannot be reached: no answer in 0 s"
    stopped.set()
