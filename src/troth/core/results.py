"""The return types of explain and measure: lists that can be exported, and matrices for several targets."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

import numpy as np

from troth import core
from troth.core.display import MOST, Shown, counted, more, some, table
from troth.core.sheet import Exportable, Sheet, TableCell
from troth.core.types import Attribution, Score
from troth.core.types import Scores as UnitScores


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(Shown):
    """How much each unit (columns) pushes toward each target (rows), for one method."""

    attributions: tuple[Attribution, ...]  # one per row

    @property
    def scores(self) -> UnitScores:
        """[targets, units]"""
        return np.stack([attribution.scores for attribution in self.attributions])

    @property
    def targets(self) -> tuple[str, ...]:
        """The name of each row: for a continuation, its tokens."""
        return tuple(attribution.label(attribution.target) for attribution in self.attributions)

    @property
    def units(self) -> tuple[str, ...]:
        return self.attributions[0].units

    @property
    def values(self) -> tuple[float, ...]:
        """The model's output for each target on the whole text: for a continuation, the log-probabilities of its
        tokens.
        """
        return tuple(
            attribution.probabilities[attribution.target] if attribution.probabilities else float("nan")
            for attribution in self.attributions
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: shared fields once, and the scores of each row."""
        first = self.attributions[0].to_dict()
        own = ("scores", "target", "target_label", "against", "against_label", "labels", "probabilities", "rest", "gap")
        shared = {name: value for name, value in first.items() if name not in (*own, "proof")}
        return shared | {
            "targets": list(self.targets),
            "values": list(self.values),
            "scores": [attribution.to_dict()["scores"] for attribution in self.attributions],
        }

    def _line(self) -> str:
        first = self.attributions[0]
        size = f"{counted(len(self.targets), 'target')}, {counted(len(self.units), first.question.encoding.unit_kind)}"
        return f"of {first.example.id!r} by {first.explainer.partition('(')[0] or 'imported scores'}: {size}"

    def _parts(self) -> Iterator[str]:
        yield from core.rooms["showing"]().matrix_parts(self)


def matrices(attributions: Iterable[Attribution]) -> list[Matrix]:
    """Groups adjacent explanations of one text by one method."""

    def of(attribution: Attribution) -> tuple[int, str]:
        return id(attribution.question.encoding), attribution.explainer

    held = list(attributions)  # keeps all encodings alive, so that `id` stays unique
    return [Matrix(tuple(rows)) for _, rows in groupby(held, key=of)]


class Attributions(Shown, list[Attribution], Exportable):
    """One attribution per text; exported as a table with one row per unit."""

    def __getitem__(self, place: Any) -> Any:
        return Attributions(super().__getitem__(place)) if isinstance(place, slice) else super().__getitem__(place)

    def matrices(self) -> list[Matrix]:
        """The attributions for several targets (target="each") as one matrix per text: targets as rows, units as
        columns.
        """
        return matrices(self)

    def sheet(self) -> Sheet:
        sheet: Sheet = core.rooms["showing"]().attributions_sheet(self)
        return sheet

    def _line(self) -> str:
        return f"of {counted(len({attribution.example.id for attribution in self}), 'text')}"

    def _rows(self) -> Iterator[str]:
        return some([attribution._line() for attribution in self])

    def _parts(self) -> Iterator[str]:
        yield from core.rooms["showing"]().side_by_side([self])


class Explanations(Shown, dict[str, Attributions], Exportable):
    """The attributions of several methods, by name; notebooks show the methods side by side for each text."""

    def sheet(self) -> Sheet:
        return Attributions(chain(*self.values())).sheet()

    def _line(self) -> str:
        return f"by {counted(len(self), 'method')}"

    def _rows(self) -> Iterator[str]:
        return some([attribution._line() for row in by_text([*self.values()]) for attribution in row])

    def _parts(self) -> Iterator[str]:
        yield from core.rooms["showing"]().side_by_side([*self.values()])


class Scores(Shown, list[Score], Exportable):
    """One score per attribution, and the example of each."""

    def __init__(self, scores: Iterable[Score] = (), metric: str = "", examples: Iterable[str] = ()) -> None:
        super().__init__(scores)
        self.metric = metric
        self.examples = tuple(examples)  # the ids of the examples

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
            [f"{row['example']}: {TableCell(row['value']).text} {row['why']}".rstrip() for row in self.sheet().records]
        )

    def _parts(self) -> Iterator[str]:
        rows = [(row["example"], TableCell(row["value"]).text, row["why"]) for row in self.sheet().records]
        yield table(self._line(), ("example", "value", "why"), rows[:MOST])
        yield more(len(rows))

    def sheet(self) -> Sheet:
        sheet: Sheet = core.rooms["showing"]().scores_sheet(self)
        return sheet


def by_text(methods: Sequence[Sequence[Attribution]]) -> list[tuple[Attribution, ...]]:
    """The explanations of each text together; if the user has changed the lists so that they no longer match, one by
    one.
    """
    if len({len(attributions) for attributions in methods}) > 1:
        return [(attribution,) for attribution in chain(*methods)]
    return list(zip(*methods, strict=True))
