"""Whether the hub can be reached, asked once and briefly: its own client waits and tries again for a minute."""

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
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")  # of a model on the hub


_off = ""  # why nothing may be asked over the network; one for all threads


def network_off() -> str:
    """Why nothing may be asked over the network; empty where it may."""
    return _off


@contextmanager
def without_network(why: str) -> Iterator[None]:
    """Nothing is asked over the network inside, neither the hub nor an endpoint."""
    global _off
    before, setting = _off, os.environ.get("HF_HUB_OFFLINE")
    _off = why
    os.environ["HF_HUB_OFFLINE"] = "1"  # read by huggingface_hub and datasets where they are imported later
    try:
        yield
    finally:
        _off = before
        if setting is None:
            os.environ.pop("HF_HUB_OFFLINE", None)
        else:
            os.environ["HF_HUB_OFFLINE"] = setting


def unreachable() -> str:
    """Why the hub cannot be asked; nothing where it can."""
    if _off:
        return _off
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return "HF_HUB_OFFLINE is set"
    return _tried(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")


def require(name: str, purpose: str = "as a text classifier") -> None:
    """One line, before anything is imported, for a model that is not here while the hub cannot be asked."""
    if Path(name).exists() or not _NAME.fullmatch(name) or is_cached(f"models/{name}"):
        return
    if why := unreachable():
        raise TrothError(
            f"cannot load {name} {purpose}: it is not a folder here, and not in the cache ({why}); "
            "pass a model's folder, or load it once where there is a network"
        )


def is_cached(name: str) -> bool:
    """Whether something of the hub has been fetched before: models/OWNER/NAME or datasets/OWNER/NAME."""
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

    # Looking up a name knows no timeout of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    why = found[0] if found else f"no answer in {_PATIENCE:.0f} s"
    return f"{host} cannot be reached: {why}" if why else ""


@contextmanager
def offline_where_unreachable(name: str, *others: ModuleType) -> Iterator[None]:
    """Keeps the hub's client from trying again and again; `local_files_only` alone does not reach all it asks for.

    `others` are settings of libraries that keep a switch of their own.
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
