"""Anybody's scores as a salience: attributions as `troth explain --json` writes them, a JSON array or one per line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from troth.core import reading
from troth.core.errors import TrothError
from troth.core.types import Encoding
from troth.core.units import join


def is_file(source: str) -> bool:
    """Whether a source means a file of scores."""
    return source.endswith((".jsonl", ".json"))


@dataclass(frozen=True, eq=False)
class StoredScores:
    """By example id: spans, the text each lies in (0, or 1 for a second one) and how much each matters."""

    path: str
    by_id: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, path: str) -> Self:
        """From a file; every entry has id, spans and scores, and segments where there are second texts."""
        try:
            text = reading.text(path, reading.DATA)
            lines = text.splitlines()
            rows = reading.parse_json(text) if text.lstrip().startswith("[") else [*map(reading.parse_json, lines)]
        except OSError as error:
            raise TrothError(f"cannot read the scores in {path}: {error.strerror}") from None
        except reading.ExcessError as error:
            raise TrothError(f"{path} {error}") from None
        except ValueError:
            raise TrothError(
                f"{path} is not a file of scores: it holds neither a JSON array nor one object per line"
            ) from None
        return cls(path, {str(row["id"]): row for row in _checked(path, rows)})

    def of_tokens(self, encoding: Encoding) -> Tensor:
        """[length] a unit's absolute score, shared by the tokens that join it; 0 for tokens in none."""
        row = self.by_id.get(encoding.example.id)
        if row is None:
            raise TrothError(
                f"{self.path} has no scores of example {encoding.example.id}; explain all training examples"
            )
        values = np.abs(np.array([0.0 if score is None else score for score in row["scores"]], np.float64))
        segments = np.array(row.get("segments") or [0] * len(values))
        of_unit = np.zeros(encoding.n_units)
        for segment in (0, 1):
            ours = [unit for unit, place in enumerate(encoding.unit_segments) if place == segment]
            theirs = np.flatnonzero(segments == segment)
            if not ours or not len(theirs):
                continue
            joined = theirs[join([encoding.unit_spans[unit] for unit in ours], [row["spans"][unit] for unit in theirs])]
            of_unit[ours] = values[joined] / np.bincount(joined, minlength=len(values))[joined]
        tokens = torch.bincount(encoding.units[encoding.units >= 0], minlength=encoding.n_units).clamp(min=1)
        return encoding.per_token((torch.from_numpy(of_unit) / tokens)[None], others=0.0)[0]


def _checked(path: str, rows: Iterable[Any]) -> Iterable[Mapping[str, Any]]:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or not {"id", "spans", "scores"} <= row.keys():
            raise TrothError(f"{path}: entry {number} lacks one of id, spans, scores; write them with troth explain")
        if len(row["spans"]) != len(row["scores"]):
            counts = f"{len(row['scores'])} scores for {len(row['spans'])} spans"
            raise TrothError(f"{path}: entry {number} has {counts}; give one per span")
        yield row
