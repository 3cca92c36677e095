"""What explain and measure return: plain lists that can leave the tool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from troth.core.export import Exportable
from troth.core.matrix import Matrix, matrices
from troth.core.sheet import Sheet, plain_sheet
from troth.core.types import Attribution, Score

_UNIT = ("example", "explainer", "target", "place", "unit", "start", "end", "segment", "score")
_READ = ("example", "explainer", "target", "unit", "score")  # what people need of it
_SCORE = ("example", "metric", "value", "why")


class Attributions(list[Attribution], Exportable):
    """One attribution per text; as a table, a row per unit."""

    def __getitem__(self, place: Any) -> Any:
        return Attributions(super().__getitem__(place)) if isinstance(place, slice) else super().__getitem__(place)

    def matrices(self) -> list[Matrix]:
        """Those of several targets (target="each") as one matrix per text: targets down, units across."""
        return matrices(self)

    def sheet(self) -> Sheet:
        from troth.report import figures
        from troth.report.board_sheet import short_names

        rows = [row for attribution in self for row in _unit_rows(attribution)]
        names = short_names({attribution.explainer for attribution in self})
        read = [(row[0], names[row[1]], row[2], row[4], row[-1]) for row in rows]
        people = plain_sheet("Attributions", _READ, read)
        whole = plain_sheet("Attributions", _UNIT, rows, draw=lambda figure: figures.draw_attributions(figure, self))
        return replace(whole, columns=people.columns, rows=people.rows)


class Scores(list[Score], Exportable):
    """One score per attribution, and what each is about."""

    def __init__(self, scores: Iterable[Score] = (), metric: str = "", examples: Iterable[str] = ()) -> None:
        super().__init__(scores)
        self.metric = metric
        self.examples = tuple(examples)  # their ids

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Scores(super().__getitem__(place), self.metric, self.examples[place])
        return super().__getitem__(place)

    def sheet(self) -> Sheet:
        from troth.report import figures

        # A list that was changed since has scores that we know no example of.
        examples = self.examples if len(self.examples) == len(self) else (None,) * len(self)
        rows = [
            (example, self.metric, float(score.value), score.why) for example, score in zip(examples, self, strict=True)
        ]
        title = f"Scores by {self.metric}" if self.metric else "Scores"
        return plain_sheet(title, _SCORE, rows, draw=lambda figure: figures.draw_scores(figure, self))


def _unit_rows(attribution: Attribution) -> list[tuple[Any, ...]]:
    about = (attribution.example.id, attribution.explainer, attribution.label(attribution.target))
    units = zip(
        attribution.units, attribution.spans, attribution.question.encoding.unit_segments, attribution.scores,
        strict=True,
    )  # fmt: skip
    return [
        (*about, place, unit, start, end, segment, float(score) if np.isfinite(score) else None)
        for place, (unit, (start, end), segment, score) in enumerate(units)
    ]
