"""What explain and measure return: plain lists that can leave the tool, and matrices of several targets."""

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
    """How much each unit (columns) pushes toward each target (rows), by one method."""

    attributions: tuple[Attribution, ...]  # one per row

    @property
    def scores(self) -> UnitScores:
        """[targets, units]"""
        return np.stack([attribution.scores for attribution in self.attributions])

    @property
    def targets(self) -> tuple[str, ...]:
        """The name of each row: the tokens of a continuation."""
        return tuple(attribution.label(attribution.target) for attribution in self.attributions)

    @property
    def units(self) -> tuple[str, ...]:
        return self.attributions[0].units

    @property
    def values(self) -> tuple[float, ...]:
        """What the model says of each target on the whole text: of a continuation's tokens their log-probabilities."""
        return tuple(
            attribution.probabilities[attribution.target] if attribution.probabilities else float("nan")
            for attribution in self.attributions
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON: what the rows share, once, and the scores row by row."""
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
    """Explanations of one text by one method that stand next to each other, together."""

    def of(attribution: Attribution) -> tuple[int, str]:
        return id(attribution.question.encoding), attribution.explainer

    held = list(attributions)  # so that no two encodings can have one id
    return [Matrix(tuple(rows)) for _, rows in groupby(held, key=of)]


class Attributions(Shown, list[Attribution], Exportable):
    """One attribution per text; as a table, a row per unit."""

    def __getitem__(self, place: Any) -> Any:
        return Attributions(super().__getitem__(place)) if isinstance(place, slice) else super().__getitem__(place)

    def matrices(self) -> list[Matrix]:
        """Those of several targets (target="each") as one matrix per text: targets down, units across."""
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
    """Those of several methods, by the method's name; a notebook shows each text under all of them, side by side."""

    def sheet(self) -> Sheet:
        return Attributions(chain(*self.values())).sheet()

    def _line(self) -> str:
        return f"by {counted(len(self), 'method')}"

    def _rows(self) -> Iterator[str]:
        return some([attribution._line() for row in by_text([*self.values()]) for attribution in row])

    def _parts(self) -> Iterator[str]:
        yield from core.rooms["showing"]().side_by_side([*self.values()])


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
    """Every text's explanations; where the user has changed the lists, so that they do not match, one by one."""
    if len({len(attributions) for attributions in methods}) > 1:
        return [(attribution,) for attribution in chain(*methods)]
    return list(zip(*methods, strict=True))
