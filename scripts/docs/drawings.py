"""Draws the pictures of docs/guide/concepts.md whose numbers come from the embedded model.

    python scripts/docs/drawings.py

`tests/test_pictures.py` compares them with what the model says today.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import troth
from troth.core import catalog

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TEXT = "What a wonderful ending"
ERASED = (None, 2, 3)  # in each row of the first picture: nothing, "wonderful", "ending"
METHOD, EXAMPLES = "leave_one_out", 100
_STYLE = (
    "<style>text{font:14px sans-serif;fill:#1f2937}.s{font-size:12px;fill:#4b5563}.m{font:13px monospace}"
    ".l{stroke:#4b5563;stroke-width:1.5;fill:none}.for{fill:#2563eb}.fade{fill:#e5e7eb}"
    ".box{fill:#fff;stroke:#4b5563;stroke-width:1.5}</style>"
    '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#4b5563"/></marker></defs>'
)


def probabilities() -> list[float]:
    """What the model says of the class: of the whole text, and without one word each."""
    (found,) = troth.explain("embedded", TEXT, "leave_one_out(of=probability)", target="positive", progress=False)
    whole = found.probabilities[found.target]
    return [whole if place is None else whole - float(found.scores[place]) for place in ERASED]


def curves() -> dict[str, list[float]]:
    """Accuracy by the share of words masked: in the explanation's order, explained again each step, and at random."""
    model, data = troth.load_model("embedded"), troth.load_data("reviews", limit=EXAMPLES)
    metric = catalog.build("metrics", "recursive_erasure")
    scores = troth.measure(model, troth.explain(model, data, METHOD, progress=False), metric, progress=False)
    extra = metric.summarize(scores).extra
    return {name: extra[name] for name in ("ratios", "explained", "random")}


def erasing(said: Sequence[float]) -> str:
    """The same text three times, with what the model says of each."""
    parts, words = [], TEXT.split()
    for row, (gone, value) in enumerate(zip(ERASED, said, strict=True)):
        top, x = 34 + 44 * row, 20
        for place, word in enumerate(words):
            width = 12 + 8 * len(word)
            kind, shown = ("fade", "···") if place == gone else ("box", word)
            parts.append(f'<rect x="{x}" y="{top}" width="{width}" height="26" rx="4" class="{kind}"/>')
            parts.append(f'<text class="m" x="{x + 6}" y="{top + 18}">{shown}</text>')
            x += width + 6
        bar = 180 * value
        parts.append(f'<path class="l" d="M{x + 4} {top + 13}H322" marker-end="url(#a)"/>')
        parts.append(f'<rect class="box" x="326" y="{top}" width="60" height="26" rx="4"/>')
        parts.append(f'<text x="333" y="{top + 18}">model</text>')
        parts.append(f'<path class="l" d="M388 {top + 13}H416" marker-end="url(#a)"/>')
        parts.append(f'<rect class="for" x="422" y="{top + 4}" width="{bar:.0f}" height="18" rx="3"/>')
        parts.append(f'<text x="{430 + bar:.0f}" y="{top + 18}">{value:.1%}</text>')
    parts.append('<text class="s" x="422" y="22">probability of “positive”</text>')
    title = "One text asked about three times: whole, without “wonderful”, without “ending”"
    return drawing(680, 170, title, parts)


def curve(found: dict[str, list[float]]) -> str:
    """Both curves, the area between them filled."""
    left, bottom, width, height = 50, 210, 400, 180

    def line(name: str, backward: bool = False) -> str:
        points = [
            f"{left + width * ratio:.0f} {bottom - height * value:.0f}"
            for ratio, value in zip(found["ratios"], found[name], strict=True)
        ]
        return "L".join(reversed(points) if backward else points)

    ticks = [
        f'<text class="s" x="{left + width * share:.0f}" y="{bottom + 16}" text-anchor="middle">{share:.0%}</text>'
        f'<text class="s" x="{left - 6}" y="{bottom - height * share + 4:.0f}" text-anchor="end">{share:.0%}</text>'
        for share in (0, 0.5, 1)
    ]
    parts = [
        f'<path d="M{line("random")}L{line("explained", backward=True)}z" fill="#2563eb" opacity=".18"/>',
        f'<path d="M{line("random")}" class="l" stroke-dasharray="6 4"/>',
        f'<path d="M{line("explained")}" fill="none" stroke="#2563eb" stroke-width="2.5"/>',
        f'<path class="l" d="M{left} {bottom - height}V{bottom}H{left + width}"/>',
        *ticks,
        f'<text class="s" x="{left}" y="20">accuracy</text>',
        f'<text class="s" x="{left + width}" y="{bottom + 32}" text-anchor="end">words masked</text>',
        '<path d="M476 44H506" class="l" stroke-dasharray="6 4"/><text x="514" y="49">random words first</text>',
        '<path d="M476 66H506" fill="none" stroke="#2563eb" stroke-width="2.5"/>'
        f'<text x="514" y="71">{METHOD}’s first</text>',
        '<rect x="476" y="80" width="30" height="14" fill="#2563eb" opacity=".18"/>'
        '<text x="514" y="93">between: ACU</text>',
    ]
    title = "Accuracy falls while words are masked: early in the explanation's order, late at random"
    return drawing(690, 250, title, parts)


def drawing(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t">'
        f'<title id="t">{title}</title>{_STYLE}<rect width="{width}" height="{height}" rx="8" fill="#f9fafb"/>'
        f"{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    (IMAGES / "erasing.svg").write_text(erasing(probabilities()), encoding="utf-8")
    (IMAGES / "curve.svg").write_text(curve(curves()), encoding="utf-8")
