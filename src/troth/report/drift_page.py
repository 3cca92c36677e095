"""The page of `troth diff --texts`: every text before and after with colored words, sorted by how much it moved."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from troth.report import explanation, export
from troth.report.drift import Drift, TextDrift, decision
from troth.report.page_overview import Explained

_MOST = 200  # texts per explainer
_BESIDE = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22em),1fr));gap:.2em 2em"


def write(path: Path, found: Drift) -> None:
    """Writes one self-contained file, in which all content of the runs is escaped."""
    export.write_page(path, "Which explanations moved?", _sections(found))


def _sections(found: Drift) -> Iterator[str]:
    yield export.html_with_notes(found.sheet())
    for explainer, every in found.texts.items():
        yield f"<h2>{html.escape(explainer)}</h2>"
        for one in every[:_MOST]:
            yield _text(one, found)
        if len(every) > _MOST:
            yield f"<p><small>The other {len(every) - _MOST} texts moved less.</small></p>"


def _text(one: TextDrift, found: Drift) -> str:
    sides = zip((one.before, one.after), found.names, found.labels, strict=True)
    shown = "".join(
        f"<div><small>{html.escape(name)} → <b>{html.escape(decision(side, labels))}</b></small>"
        f'<div style="line-height:1.8">{_colored(side)}</div></div>'
        for side, name, labels in sides
    )
    noise = "noise not known" if math.isnan(one.noise) else f"noise {one.noise:.2f}"
    verdict = {True: "<b>moved</b>, ", False: "within its noise, ", None: ""}[one.moved]
    numbers = f"{verdict}by {one.excess:+.2f} (distance {one.distance:.2f}, {noise})"
    return f'<div style="{_BESIDE}">{shown}</div><p><small>{numbers}</small></p>'


def _colored(one: Explained) -> str:
    largest = float(np.abs(one.scores).max(initial=0.0)) or 1.0
    texts = (one.source.text, one.source.text_pair)
    parts = []
    for segment, text in enumerate(texts):
        if text is None:
            continue
        parts.append(" <b>|</b> " if segment else "")
        cursor = 0
        for (start, end), of, score in zip(one.spans, one.segments, one.scores.tolist(), strict=True):
            if min(of, 1) != segment or end <= cursor:
                continue
            style = explanation.ground(score / largest)
            word = html.escape(text[max(start, cursor) : end])
            parts.append(f'{html.escape(text[cursor:start])}<span title="{score:+.4g}" style="{style}">{word}</span>')
            cursor = end
        parts.append(html.escape(text[cursor:]))
    return "".join(parts)
