"""Runs probes of many rows in parts, so that between parts a job can stop and report progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from troth.engine.answers import Answers, joined
from troth.engine.prober import Prober
from troth.engine.probes import ProbeBatch
from troth.engine.routines import Routine

_ROWS = 256  # for models that take little memory: enough to keep a device busy


def in_parts(probes: Sequence[ProbeBatch], prober: Prober, after: Callable[[int], None]) -> Routine[list[Answers]]:
    """The answers to each probe; `after` is called after every part with its number of rows, and may raise."""
    longest = max(question.encoding.n_tokens for probe in probes for question in probe.questions)
    cost = max(probe.readout.bytes_per_row(prober.model, longest) for probe in probes)
    most = max(1, min(_ROWS, prober.memory // max(1, cost)) // len(probes))  # rows of each probe per part
    rows = max(int(probe.counts.sum()) for probe in probes)
    if any((probe.masking or prober.masking).stochastic for probe in probes):
        most = rows  # random draws depend on the row index, so the rows stay together
    parts: list[list[Answers]] = []
    for start in range(0, rows, most):
        parts.append((yield [_part(probe, start, start + most) for probe in probes]))
        after(sum(len(answers.logits) for answers in parts[-1]))
    return [_whole(probe, several) for probe, *several in zip(probes, *parts, strict=True)]


def _part(probe: ProbeBatch, start: int, stop: int) -> ProbeBatch:
    """A slice of the rows, which are stored question by question."""
    ends = np.cumsum(probe.counts)
    return replace(
        probe,
        keep=probe.keep[start:stop],
        counts=ends.clip(start, stop) - (ends - probe.counts).clip(start, stop),
        non_unit_keep=None if probe.non_unit_keep is None else probe.non_unit_keep[start:stop],
    )


def _whole(probe: ProbeBatch, parts: Sequence[Answers]) -> Answers:
    """Joins the answers to the parts of a probe."""
    if len(parts) == 1:
        return parts[0]

    def together(values: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        return {name: joined([some[name] for some in values if len(some[name])]) for name in values[0]}

    return replace(
        parts[0],
        counts=probe.counts,
        logits=joined([part.logits for part in parts]),
        units=together([part.units for part in parts]),
        rest=together([part.rest for part in parts]),
        rows=together([part.rows for part in parts]),
    )
