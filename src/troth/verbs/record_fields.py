"""The fields of a recorded decision and their types: a file with others, or with fewer, is not a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from troth.core.proof import Proof


@dataclass(frozen=True)
class RecordedModel:
    name: str
    source: str  # what loads it again, with these options
    options: Mapping[str, Any]
    fingerprint: str


@dataclass(frozen=True)
class Proving:
    """How the evidence was gathered: the options of `prove`."""

    ratio: float
    choices: int
    masking: str


@dataclass(frozen=True)
class RecordSettings:
    """The options of `explain`; what was not given has its default."""

    seed: int
    units: str = "word"
    segments: str = "first"
    target: str | int = "predicted"
    masking: str = "mask_token"
    against: str | int | None = None
    proof: Proving | None = None


@dataclass(frozen=True)
class Together:
    """The texts that were explained together."""

    id: str
    texts: int


@dataclass(frozen=True)
class Explanation:
    """What `Attribution.to_dict` gives."""

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
    note: str
    proof: Proof | None


@dataclass(frozen=True)
class Decision:
    """The whole file."""

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
