"""How the results of explain and measure are displayed: in notebooks, on one line, as tables and in figures.

`core` gets this module through `core.rooms` (`troth/__init__.py`): the result classes are defined there and may not
import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from troth.core.display import MOST, more
from troth.core.results import Attributions, Matrix, Scores, by_text, matrices
from troth.core.sheet import Sheet, plain_sheet
from troth.core.types import Attribution
from troth.report import decision, explanation, export, figures, matrix
from troth.report.cited_answer import html as cited_html  # noqa: F401
from troth.report.explanation import line as attribution_line  # noqa: F401
from troth.report.export import frame  # noqa: F401
from troth.report.figures import plot  # noqa: F401

_UNIT = ("example", "explainer", "target", "place", "unit", "start", "end", "segment", "score",
         "text", "gold", "predicted", "probability")  # fmt: skip
_READ = ("example", "explainer", "target", "unit", "score")  # the columns that are shown to people
_SCORE = ("example", "metric", "value", "why")


def written(path: export.Place, sheet: Sheet, form: str, **options: Any) -> str:
    """A table in one of the formats, which is also written if a path is given."""
    return export.to(path, export.latex(sheet, **options) if form == "latex" else export.text([sheet], form))


def attribution_parts(attribution: Attribution) -> Iterable[str]:
    """One explanation for a notebook."""
    return explanation.html(attribution), explanation.legend_html([attribution])


def matrix_parts(shown: Matrix) -> Iterable[str]:
    """The explanations of one text for several targets, for a notebook."""
    return matrix.html(shown), explanation.legend_html(shown.attributions)


def side_by_side(methods: Sequence[Sequence[Attribution]]) -> Iterator[str]:
    """The first texts, each with all methods; explanations of a continuation token by token are shown as matrices."""
    if methods and all(each.question.encoding.written and each.target for each in chain(*methods)):
        by_method = [matrices(attributions) for attributions in methods]
        rows = list(zip(*by_method, strict=False))
        yield from matrix.sections(rows[:MOST])
    else:
        rows = by_text(methods)
        yield from explanation.sections(rows[:MOST])
    yield more(len(rows))


def attributions_sheet(attributions: Attributions) -> Sheet:
    """One row per unit."""
    from troth.report.wording import short_names

    rows = [row for attribution in attributions for row in _unit_rows(attribution)]
    names = short_names({attribution.explainer for attribution in attributions})
    read = [(row[0], names[row[1]], row[2], row[4], row[8]) for row in rows]
    people = plain_sheet("Attributions", _READ, read)
    draw = partial(figures.draw_attributions, attributions=attributions)
    units = plain_sheet("Attributions", _UNIT, rows, draw=draw)
    return replace(units, columns=people.columns, rows=people.rows)


def scores_sheet(scores: Scores) -> Sheet:
    """One row per score."""
    # If the list was changed, it is not known which examples its scores belong to.
    examples = scores.examples if len(scores.examples) == len(scores) else (None,) * len(scores)
    rows = [
        (example, scores.metric, float(score.value), score.why) for example, score in zip(examples, scores, strict=True)
    ]
    title = f"Scores by {scores.metric}" if scores.metric else "Scores"
    return plain_sheet(title, _SCORE, rows, draw=lambda figure: figures.draw_scores(figure, scores))


def _unit_rows(attribution: Attribution) -> list[tuple[Any, ...]]:
    about = (attribution.example.id, attribution.explainer, attribution.label(attribution.target))
    units = zip(
        attribution.units, attribution.spans, attribution.question.encoding.unit_segments, attribution.scores,
        strict=True,
    )  # fmt: skip
    probabilities = attribution.probabilities
    decided = (
        attribution.example.text, decision.gold(attribution) or None, decision.predicted(attribution) or None,
        float(probabilities[attribution.target]) if attribution.target < len(probabilities) else None,
    )  # fmt: skip
    return [
        (*about, place, unit, start, end, segment, float(score) if np.isfinite(score) else None, *decided)
        for place, (unit, (start, end), segment, score) in enumerate(units)
    ]
