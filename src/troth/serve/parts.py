"""A look of many rows, asked a batch at a time: between batches a job can stop, and tell how far it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from troth.engine.answers import joined
from troth.engine.jobs import distinct
from troth.engine.looks import Answer, Ask, Look
from troth.engine.prober import Prober

_ROWS = 256  # of a model that takes little memory: enough to keep a machine busy


def in_parts(look: Look, prober: Prober, after: Callable[[int], None]) -> Ask[Answer]:
    """The answer to a look; `after` is called after every batch with the number of its rows, and may raise."""
    row = look.want.bytes_per_row(prober.model, look.question.encoding.n_tokens)
    most = max(1, min(_ROWS, prober.memory // max(1, row)))
    if len(look.keep) <= most or (look.masking or prober.masking).stochastic:  # which draws by the number of a row
        answer = yield look
        after(len(look.keep))
        return answer
    once, places = _once(look)
    others = repeat(None) if once.others is None else torch.split(once.others, most)
    answers = []
    for keep, some in zip(torch.split(once.keep, most), others, strict=False):
        answers.append((yield replace(once, keep=keep, others=some)))
        after(len(keep))
    return _whole(answers, places)


def _once(look: Look) -> tuple[Look, Tensor]:
    """The look with each of its rows once, and which of these every row is."""
    if look.distinct or look.others is not None:
        return look, torch.arange(len(look.keep))
    keep = look.keep.detach().to("cpu", torch.float32)
    is_whole = bool(((keep == 0) | (keep == 1)).all())
    rows, places = distinct((keep == 1).numpy() if is_whole else keep.numpy())
    return replace(look, keep=torch.from_numpy(rows).float(), distinct=True), torch.from_numpy(places)


def _whole(answers: Sequence[Answer], places: Tensor) -> Answer:
    """The answers to the parts of a look as that to the look."""
    first = answers[0]
    kinds: dict[str, Any] = {
        kind: {
            name: joined([getattr(answer, kind)[name] for answer in answers])[places] for name in getattr(first, kind)
        }
        for kind in ("units", "rest", "rows")
    }
    return replace(first, logits=joined([answer.logits for answer in answers])[places], **kinds)
