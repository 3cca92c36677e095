"""The record of a decision: one JSON file with all that is needed to explain it again, signed by a hash of its content.

The hash shows that a file is as it was written. It is no proof against somebody who writes another file and hashes
that: keep the signatures, or the folder, where only the right people can write.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from troth.core import reading
from troth.core.errors import TrothError
from troth.core.files import write_aside
from troth.core.types import Attribution
from troth.models import TextClassifier

FORMAT = 1
_KIND = "troth decision"
_NEEDED = {"time": str, "model": dict, "versions": dict, "settings": dict, "run": dict, "explanations": list}


def decision(
    attributions: Sequence[Attribution],
    model: TextClassifier,
    *,
    source: str,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    run: Mapping[str, Any],
    versions: Mapping[str, str],
    comparison: str,
) -> dict[str, Any]:
    """The record of one text: `source` and `options` load the model again, `settings` are those of `explain`.

    `settings["proof"]` holds those of `prove`; `run` names the texts that were explained together.
    """
    first = attributions[0]
    facts = {
        "kind": _KIND,
        "format": FORMAT,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "id": first.example.id,
        "text": first.example.text,
        "text_pair": first.example.text_pair,
        "model": {
            "name": model.name,
            "source": str(Path(source).resolve()) if Path(source).is_dir() else source,
            "options": dict(options),
            "fingerprint": model.fingerprint,
        },
        "versions": dict(versions),
        "settings": dict(settings),
        "run": dict(run),
        "explanations": [attribution.to_dict() for attribution in attributions],
        "comparison": comparison,
    }
    return {**facts, "signature": signature(facts)}


def signature(facts: Mapping[str, Any]) -> str:
    """A hash of all that a record says, but itself."""
    said = {name: value for name, value in facts.items() if name != "signature"}
    plain = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(plain.encode()).hexdigest()}"


def write(folder: Path, decisions: Sequence[Mapping[str, Any]]) -> list[Path]:
    """One file per decision, next to those of earlier runs; its name holds its time, its id and its signature."""
    paths = []
    for number, facts in enumerate(decisions):
        when = re.sub(r"[^\dT]", "", facts["time"].partition("+")[0])
        name = re.sub(r"[^A-Za-z0-9_-]", "_", str(facts["id"]))[:40]
        path = folder / f"{when}-{number:04d}-{name}-{facts['signature'][7:15]}.json"
        write_aside(path, (json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode(), lasting=True)
        paths.append(path)
    return paths


def files_of(path: Path) -> list[Path]:
    """The record at a path, or all records in a folder, the oldest first."""
    if not path.exists():
        raise TrothError(f"{path}: no such record; troth explain --record writes them")
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise TrothError(f"{path} holds no records (*.json); troth explain --record writes them")
    return files


def read(path: Path) -> dict[str, Any]:
    """What a record says, known to be one; not that its signature holds."""
    try:
        facts = reading.json_of(path)
    except OSError as error:
        raise TrothError(f"{path}: {error.strerror}") from None
    except reading.ExcessError as error:
        raise TrothError(f"{path} is not a record: it {error}") from None
    except ValueError:
        raise TrothError(f"{path} is not a record: it is not JSON") from None
    if not isinstance(facts, dict) or facts.get("kind") != _KIND:
        raise TrothError(f"{path} is not a record of troth explain --record")
    if not isinstance(facts.get("format"), int) or facts["format"] > FORMAT:
        raise TrothError(f"{path} has format {facts.get('format')}; this troth reads up to {FORMAT}: update troth")
    for name, kind in _NEEDED.items():
        if not isinstance(facts.get(name), kind):
            raise TrothError(f"{path} is not a whole record: {name!r} is missing")
    if not facts["explanations"] or not all(isinstance(each, dict) for each in facts["explanations"]):
        raise TrothError(f"{path} is not a whole record: it holds no explanation")
    return facts


def is_unchanged(facts: Mapping[str, Any]) -> bool:
    """Whether a record is as it was signed."""
    return bool(facts.get("signature") == signature(facts))
