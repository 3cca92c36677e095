"""The specification of each kind of cell: its fields, the function that computes it, and the columns of its stored
rows.

A kind is one dataclass that names its runner. A study adds a kind next to its runner; there is no central list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from troth.store.cells import Cell, canonical

if TYPE_CHECKING:
    from troth.core.units import UnitName
    from troth.models import Segments
    from troth.validity.references import References

EXAMPLES = pa.schema(
    {
        "example_id": pa.string(),
        "text": pa.string(),
        "text_pair": pa.string(),
        "label": pa.string(),  # if the data name their classes
        "label_index": pa.int32(),  # if the data number their classes
        "rationale_starts": pa.list_(pa.int32()),
        "rationale_ends": pa.list_(pa.int32()),
        "group_name": pa.string(),  # only if the user has named groups; `group` is a keyword in SQL
    }
)
EXPLANATIONS = pa.schema(
    {
        "example_id": pa.string(),
        "starts": pa.list_(pa.int32()),  # first character of every unit
        "ends": pa.list_(pa.int32()),
        "segments": pa.list_(pa.int8()),  # 0 = in text, 1 = in text_pair
        "scores": pa.list_(pa.float32()),
        "target": pa.int32(),
        "against": pa.int32(),
        "signed": pa.bool_(),
        "rest": pa.float64(),
        "gap": pa.float64(),
        "truncated": pa.int32(),
        "probabilities": pa.list_(pa.float32()),
        "label": pa.int32(),  # the gold class, if the model has it
        "note": pa.string(),
    }
)
SCORES = pa.schema(
    {
        "example_id": pa.string(),
        "value": pa.float64(),  # null = undefined, with the reason in `why`
        "why": pa.string(),
        "record": pa.string(),  # JSON
    }
)
CHECKS = pa.schema(
    {
        "example_id": pa.string(),
        "ratio": pa.float64(),  # the share of units erased
        "p": pa.float64(),  # the p-value for the hypothesis that the remaining input is in distribution
        "smallest": pa.float64(),  # the smallest possible p-value
        "why": pa.string(),  # in the only row of a check that could not be carried out
    }
)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The base class of every kind; an instance holds everything that decides a cell's result except its parents."""

    kind: ClassVar[str]
    runner: ClassVar[str] = ""  # "package.module:function"; empty if the rows are known when planning

    @classmethod
    def of(cls, cell: Any) -> Self:
        """The specification of a planned or stored cell; fields of other kinds are ignored."""
        return cls.from_dict(cell.specs)

    @classmethod
    def from_dict(cls, specs: Mapping[str, Any]) -> Self:
        return cls(**{name: specs[name] for name in names(cls) if name in specs})

    def to_dict(self) -> dict[str, Any]:
        """Plain values. Fields with their default are left out, so that a field that is added later renames no stored
        cell.
        """
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        changed = {name: value for name, (value, default) in values.items() if default is MISSING or value != default}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}

    def cell(self, *parents: Cell | str) -> Cell:
        """The cell with this specification and these parents."""
        above = tuple(parent if isinstance(parent, str) else parent.name for parent in parents)
        return Cell(self.kind, self.to_dict(), above, self.runner)


def names(spec: type[Spec]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(spec))


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Spec):
    """A model: its name, the options of `load_model`, and the fingerprint of its content.

    "cell:NAME" is the model that was trained by the cell of that name.
    """

    model: str
    model_options: Mapping[str, Any] | None = None
    model_fingerprint: str | None = None

    @property
    def key(self) -> str:
        """The key that distinguishes loaded models."""
        return canonical([self.model, self.model_options or {}, self.model_fingerprint])


@dataclass(frozen=True, kw_only=True)
class SourceSpec(Spec):
    """The examples of a data cell."""

    data: str
    split: str | None
    examples: int | None = None
    data_fingerprint: str


@dataclass(frozen=True, kw_only=True)
class DataSpec(SourceSpec):
    kind = "data"
    columns: ClassVar[pa.Schema] = EXAMPLES

    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ReferencesSpec(Spec):
    """The examples that a check compares with."""

    kind = "references"

    references_fingerprint: str


@dataclass(frozen=True, kw_only=True)
class ExplanationSpec(ModelSpec, SourceSpec):
    """A method is stored as the user wrote it and with all of its options; the result depends on the latter."""

    kind = "explanation"
    runner = "troth.sweep.runners:explain"
    columns: ClassVar[pa.Schema] = EXPLANATIONS

    units: UnitName
    target: str | int
    against: str | int | None
    segments: Segments
    masking: str
    explainer: str
    explainer_full: str
    explainer_code: str | None = None  # fingerprint of a method that does not come with troth
    explainer_files: str | None = None  # hash of the files that the method reads, such as a checkpoint
    seed: int
    first: int | None = None  # only the first examples
    magnitude: bool | None = None  # absolute scores
    over_sum: bool = False  # scores divided by their signed sum
    masking_files: str | None = None  # hash of another model that the masking uses


@dataclass(frozen=True, kw_only=True)
class MetricSpec(ExplanationSpec):
    kind = "metric"
    runner = "troth.sweep.runners:measure"
    columns = SCORES

    metric: str
    metric_full: str
    metric_code: str | None = None
    metric_files: str | None = None  # hash of another model that its masking uses


@dataclass(frozen=True, kw_only=True)
class CheckSpec(ModelSpec, SourceSpec):
    """A test of whether randomly masked inputs are in distribution."""

    kind = "check"
    runner = "troth.sweep.runners:check_masked"
    columns: ClassVar[pa.Schema] = CHECKS

    units: UnitName
    masking: str
    step: float
    seed: int
    references: References
    masking_files: str | None = None  # as for an explanation
