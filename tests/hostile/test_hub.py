"""A hub that cannot be reached is said in seconds, not after the client's own minute of trying."""

import time

import pytest

from troth.core import hub
from troth.core.errors import TrothError
from troth.data import load_data
from troth.models import load_model


@pytest.fixture
def silent_hub(monkeypatch):
    """A hub that never answers: nobody listens at the address, which is one for documentation."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "https://192.0.2.1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    hub._tried.cache_clear()
    yield
    hub._tried.cache_clear()


def test_an_unreachable_hub_is_one_line_in_five_seconds(silent_hub):
    from huggingface_hub import constants

    load_model("embedded")  # what has to be imported counts for nothing
    begun = time.monotonic()
    with pytest.raises(
        TrothError, match=r"cannot load nobody/nothing .* not in the cache \(192\.0\.2\.1 cannot be reached"
    ):
        load_model("nobody/nothing")
    assert time.monotonic() - begun < 5
    assert constants.HF_HUB_OFFLINE is False


def test_so_are_data_of_an_unreachable_hub(silent_hub, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    begun = time.monotonic()
    with pytest.raises(TrothError, match=r"nobody/nothing cannot be loaded .* \(192\.0\.2\.1 cannot be reached"):
        load_data("nobody/nothing")
    assert time.monotonic() - begun < 5
    assert datasets.config.HF_HUB_OFFLINE is False
