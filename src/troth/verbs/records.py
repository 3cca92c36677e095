"""The record of a decision: one JSON file with everything needed to explain it again, signed by a content hash.

A plain signature (sha256) shows that a file was not damaged. It does not show who wrote it: anybody can change a file
and hash it again. A signature with a user's key (hmac-sha256) shows that whoever wrote the file had the key. Neither
shows that the content is true; `troth verify` computes it again.
"""

import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troth.core import plain_values, reading
from troth.core.errors import TrothError
from troth.core.files import write_aside
from troth.core.proof import Proof
from troth.core.types import Attribution
from troth.models import TextClassifier

FORMAT = 2
_KIND = "troth decision"
_SHORTEST_KEY, _LONGEST_KEY = 16, 4096  # in bytes
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}")


# The fields of a record and their types: a file with additional or missing fields is not a record.


@dataclass(frozen=True)
class RecordedModel:
    name: str
    source: str  # the source that loads the model again, with these options
    options: Mapping[str, Any]
    fingerprint: str


@dataclass(frozen=True)
class Proving:
    """The options of `prove`."""

    ratio: float
    choices: int
    masking: str


@dataclass(frozen=True)
class RecordSettings:
    """The options of `explain`; omitted ones have their defaults."""

    seed: int
    units: str = "word"
    segments: str = "first"
    target: str | int = "predicted"
    masking: str = "mask_token"
    against: str | int | None = None
    proof: Proving | None = None


@dataclass(frozen=True)
class Together:
    """The run that a record belongs to: an ID and the number of texts that were explained together."""

    id: str
    texts: int


@dataclass(frozen=True)
class Explanation:
    """The output of `Attribution.to_dict`."""

    id: str
    text: str
    text_pair: str | None
    label: str | int | Sequence[str | int] | None
    units: Sequence[str]
    unit_kind: str
    spans: Sequence[Sequence[int]]
    segments: Sequence[int]
    scores: Sequence[float | None]
    target: int
    target_label: str
    against: int | None
    against_label: str | None
    labels: Sequence[str]
    probabilities: Sequence[float]
    outputs: str
    threshold: float | None
    signed: bool
    rest: float
    gap: float | None
    explainer: str
    model: str
    seed: int
    truncated: int
    prompt: Sequence[Sequence[str | int | None]]
    continuation: Sequence[str]
    word: Sequence[int] | None  # the character span of the word whose label is explained
    note: str
    proof: Proof | None


@dataclass(frozen=True)
class Decision:
    """The complete file."""

    kind: str
    format: int
    time: str
    id: str
    text: str
    text_pair: str | None
    model: RecordedModel
    versions: Mapping[str, str]
    settings: RecordSettings
    run: Together
    explanations: Sequence[Explanation]
    comparison: str
    signature: str


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
    key: bytes | None = None,
) -> dict[str, Any]:
    """The record of one text: `source` and `options` load the model again, and `settings` are those of `explain`.

    `settings["proof"]` holds those of `prove`; `run` identifies the texts that were explained together.
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
    return {**facts, "signature": signature(facts, key)}


def signature(facts: Mapping[str, Any], key: bytes | None = None) -> str:
    """A hash of a record without its signature field; with a key, only holders of the key can compute it."""
    said = {name: value for name, value in facts.items() if name != "signature"}
    try:
        plain = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
    except ValueError:
        raise TrothError(
            f"example {facts.get('id')}: a number is not finite, so the explanation cannot be recorded"
        ) from None
    if key is None:
        return f"sha256:{hashlib.sha256(plain).hexdigest()}"
    return f"hmac-sha256:{hmac.new(key, plain, hashlib.sha256).hexdigest()}"


def read_key(path: Path) -> bytes:
    """The content of a key file."""
    try:
        key = reading.content(path)
    except OSError as error:
        raise TrothError(f"cannot read the key file {path}: {error.strerror}") from None
    if not _SHORTEST_KEY <= len(key) <= _LONGEST_KEY:
        raise TrothError(
            f"the key file {path} must have {_SHORTEST_KEY} to {_LONGEST_KEY:,} bytes; create one with: "
            f"head -c 32 /dev/urandom > {path}"
        )
    return key


def write(folder: Path, decisions: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Writes one file per decision, next to those of earlier runs, named by its time, ID and signature."""
    paths = []
    for number, facts in enumerate(decisions):
        when = re.sub(r"[^\dT]", "", facts["time"].partition("+")[0])
        name = re.sub(r"[^A-Za-z0-9_-]", "_", str(facts["id"]))[:40]
        path = folder / f"{when}-{number:04d}-{name}-{facts['signature'].rpartition(':')[2][:8]}.json"
        write_aside(path, (json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode(), lasting=True)
        paths.append(path)
    return paths


def files_of(path: Path) -> list[Path]:
    """The record at a path, or all records in a folder, the oldest first."""
    if not path.exists():
        raise TrothError(f"{path}: there is no such record; troth explain --record writes records")
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise TrothError(f"{path} contains no records (*.json); troth explain --record writes records")
    return files


def read(path: Path) -> dict[str, Any]:
    """Reads a record and checks its fields and their types, but neither its signature nor its truth."""
    try:
        facts = reading.parse_json(reading.content(path), strict=True)
    except OSError as error:
        raise TrothError(f"{path}: {error.strerror}") from None
    except json.JSONDecodeError:
        raise TrothError(f"{path} is not a record: it is not JSON") from None
    except reading.ExcessError as error:
        raise TrothError(f"{path} is not a record: it {error}") from None
    except ValueError as error:
        raise TrothError(f"{path} is not a record: {error}") from None
    if not isinstance(facts, dict) or facts.get("kind") != _KIND:
        raise TrothError(f"{path} is not a record of troth explain --record")
    version = facts.get("format")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= FORMAT:
        raise TrothError(
            f"{path} has format {version}; this version of troth reads formats up to {FORMAT}: update troth"
        )
    if wrong := plain_values.fault(facts, Decision, strict=True):
        raise TrothError(f"{path} is not a complete record: {wrong}")
    if not facts["explanations"]:
        raise TrothError(f"{path} is not a complete record: it contains no explanation")
    if not _TIME.fullmatch(facts["time"]):
        raise TrothError(f"{path} is not a complete record: time must be like 2025-01-31T12:00:00+0000")
    return facts


def fault_of_signature(facts: Mapping[str, Any], key: bytes | None = None) -> str:
    """Why the signature is invalid; empty if it is valid."""
    known = str(facts.get("signature"))
    has_key = known.startswith("hmac-sha256:")
    if has_key and key is None:
        return "it is signed with a key; name the file of the key with --key-file"
    if not hmac.compare_digest(known.encode(), signature(facts, key).encode()):
        if key is not None and not has_key:
            return "it is not signed with a key"
        if key is not None:
            return "its signature does not fit: it was signed with another key, or changed after it was written"
        return "the file was changed after it was written: its signature does not fit"
    return ""


def is_changed(facts: Mapping[str, Any]) -> bool:
    """Whether a record was changed after it was signed, as far as can be detected without a key."""
    return not str(facts.get("signature")).startswith("hmac-") and bool(fault_of_signature(facts))
