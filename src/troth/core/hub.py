"""Checks once, with a short timeout, whether the hub can be reached; the hub's own client retries for a minute."""

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from troth.core.errors import TrothError

_PATIENCE = 1.5  # seconds
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")  # name of a model on the hub


_off = ""  # why the network must not be used; shared by all threads


def network_off() -> str:
    """The reason why the network must not be used; empty if it may be."""
    return _off


@contextmanager
def without_network(why: str) -> Iterator[None]:
    """Disables network access, both to the hub and to endpoints."""
    global _off
    before, setting = _off, os.environ.get("HF_HUB_OFFLINE")
    _off = why
    os.environ["HF_HUB_OFFLINE"] = "1"  # read by huggingface_hub and datasets when they are imported later
    try:
        yield
    finally:
        _off = before
        if setting is None:
            os.environ.pop("HF_HUB_OFFLINE", None)
        else:
            os.environ["HF_HUB_OFFLINE"] = setting


def unreachable() -> str:
    """The reason why the hub cannot be reached; empty if it can."""
    if _off:
        return _off
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return "HF_HUB_OFFLINE is set"
    return _tried(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")


def require(name: str, purpose: str = "as a text classifier") -> None:
    """Raises a one-line error, before anything is imported, for a model that is not available locally while the hub
    cannot be reached.
    """
    if Path(name).exists() or not _NAME.fullmatch(name) or is_cached(f"models/{name}"):
        return
    if why := unreachable():
        raise TrothError(
            f"cannot load {name} {purpose}: it is not a folder here, and not in the cache ({why}); "
            "pass a model's folder, or load it once where there is a network"
        )


def is_cached(name: str) -> bool:
    """Whether a repository of the hub is in the cache: models/OWNER/NAME or datasets/OWNER/NAME."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE, name.replace("/", "--")).is_dir()


@lru_cache(maxsize=4)
def _tried(endpoint: str) -> str:
    host = urlsplit(endpoint).hostname or ""
    between = None if proxy_bypass(host) else getproxies().get(urlsplit(endpoint).scheme)
    parts = urlsplit(between or endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found: list[str] = []

    def connect() -> None:
        try:
            socket.create_connection((parts.hostname or "", port), timeout=_PATIENCE).close()
            found.append("")
        except OSError as error:
            found.append(error.strerror or str(error))

    # Resolving a host name has no timeout of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    why = found[0] if found else f"no answer in {_PATIENCE:.0f} s"
    return f"{host} cannot be reached: {why}" if why else ""


@contextmanager
def offline_where_unreachable(name: str, *others: ModuleType) -> Iterator[None]:
    """Keeps the hub's client from retrying if the hub cannot be reached; `local_files_only` alone does not cover all
    requests.

    `others` are modules of libraries that have their own offline switch.
    """
    from huggingface_hub import constants

    away = bool(_off) or (not Path(name).exists() and bool(unreachable()))
    before: list[tuple[Any, bool]] = [(module, module.HF_HUB_OFFLINE) for module in (constants, *others)]
    for module, switched in before:
        module.HF_HUB_OFFLINE = switched or away
    try:
        yield
    finally:
        for module, switched in before:
            module.HF_HUB_OFFLINE = switched
