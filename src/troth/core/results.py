"""What explain and measure return: plain lists that can leave the tool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from troth.core.display import MOST, Shown, counted, more, some, table
from troth.core.export import Exportable
from troth.core.matrix import Matrix, matrices
from troth.core.sheet import Cell, Sheet, plain_sheet
from troth.core.types import Attribution, Score

_UNIT = ("example", "explainer", "target", "place", "unit", "start", "end", "segment", "score")
_READ = ("example", "explainer", "target", "unit", "score")  # what people need of it
_SCORE = ("example", "metric", "value", "why")


class Attributions(Shown, list[Attribution], Exportable):
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

    def _line(self) -> str:
        return f"of {counted(len({attribution.example.id for attribution in self}), 'text')}"

    def _rows(self) -> Iterator[str]:
        return some([attribution._line() for attribution in self])

    def _parts(self) -> Iterator[str]:
        return _side_by_side([self])


class Explanations(Shown, dict[str, Attributions], Exportable):
    """Those of several methods, by the method's name; a notebook shows each text under all of them, side by side."""

    def sheet(self) -> Sheet:
        return Attributions(chain(*self.values())).sheet()

    def _line(self) -> str:
        return f"by {counted(len(self), 'method')}"

    def _rows(self) -> Iterator[str]:
        return some([attribution._line() for row in _by_text([*self.values()]) for attribution in row])

    def _parts(self) -> Iterator[str]:
        return _side_by_side([*self.values()])


class Scores(Shown, list[Score], Exportable):
    """One score per attribution, and what each is about."""

    def __init__(self, scores: Iterable[Score] = (), metric: str = "", examples: Iterable[str] = ()) -> None:
        super().__init__(scores)
        self.metric = metric
        self.examples = tuple(examples)  # their ids

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Scores(super().__getitem__(place), self.metric, self.examples[place])
        return super().__getitem__(place)

    def _line(self) -> str:
        values = np.array([score.value for score in self], np.float64)
        defined = values[np.isfinite(values)]
        mean = f", mean {defined.mean():.3g}" if len(defined) else ""
        undefined = f", {len(values) - len(defined):,} undefined" if len(defined) < len(values) else ""
        return f"of {counted(len(self), 'explanation')}{f' by {self.metric}' if self.metric else ''}{mean}{undefined}"

    def _rows(self) -> Iterator[str]:
        return some(
            [f"{row['example']}: {Cell(row['value']).text} {row['why']}".rstrip() for row in self.sheet().records]
        )

    def _parts(self) -> Iterator[str]:
        rows = [(row["example"], Cell(row["value"]).text, row["why"]) for row in self.sheet().records]
        yield table(self._line(), ("example", "value", "why"), rows[:MOST])
        yield more(len(rows))

    def sheet(self) -> Sheet:
        from troth.report import figures

        # A list that was changed since has scores that we know no example of.
        examples = self.examples if len(self.examples) == len(self) else (None,) * len(self)
        rows = [
            (example, self.metric, float(score.value), score.why) for example, score in zip(examples, self, strict=True)
        ]
        title = f"Scores by {self.metric}" if self.metric else "Scores"
        return plain_sheet(title, _SCORE, rows, draw=lambda figure: figures.draw_scores(figure, self))


def _by_text(methods: Sequence[Sequence[Attribution]]) -> list[tuple[Attribution, ...]]:
    """Every text's explanations; where the user has changed the lists, so that they do not match, one by one."""
    if len({len(attributions) for attributions in methods}) > 1:
        return [(attribution,) for attribution in chain(*methods)]
    return list(zip(*methods, strict=True))


def _side_by_side(methods: Sequence[Sequence[Attribution]]) -> Iterator[str]:
    """The first texts, each under all methods; what was written token by token, as matrices."""
    from troth.report import explanation, matrix

    if methods and all(each.question.encoding.written and each.target for each in chain(*methods)):
        by_method = [matrices(attributions) for attributions in methods]
        rows = list(zip(*by_method, strict=False))
        yield from matrix.sections(rows[:MOST])
    else:
        rows = _by_text(methods)
        yield from explanation.sections(rows[:MOST])
    yield more(len(rows))


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
