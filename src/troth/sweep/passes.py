"""The number of model passes of an explanation or a metric, by the number of units of a text."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.units import spans_of
from troth.explainers import Explainer
from troth.metrics import Metric
from troth.store.specs import ExplanationSpec

_MEASURING = 8  # assumed passes of a metric that does not state them
# Subtracted from the maximum number of explanations, since the last is only needed for the few inputs of another class.
_SELDOM = 0.85


@lru_cache(maxsize=4096)
def methods(explainer: str, metric: str | None) -> tuple[Explainer, Metric | None] | None:
    """The methods that these specs name; None for user-defined methods, whose cost is unknown."""
    try:
        explaining: Explainer = catalog.build("explainers", explainer)
        measuring: Metric | None = None if metric is None else catalog.build("metrics", metric)
        return explaining, None if measuring is None else measuring.for_explainer(explaining)
    except (TrothError, OSError):
        return None


@lru_cache(maxsize=65536)
def passes(explainer: str, metric: str | None, n_units: int) -> int:
    """The model passes of one explanation or one score, for a text with this number of units."""
    found = methods(explainer, metric)
    if found is None:
        return _MEASURING
    explaining = found[0].passes(n_units)
    if found[1] is None:
        return explaining
    again = found[1].explanations()
    return max(_MEASURING, found[1].passes(n_units)) + round(max(0, again - _SELDOM) * explaining)


def passes_of(specs: Mapping[str, Any], n_units: int) -> int:
    """The passes per example of a cell with these specs; 0 if it neither explains nor measures."""
    explainer, metric = specs.get("explainer_full"), specs.get("metric_full")
    return 0 if explainer is None else passes(str(explainer), None if metric is None else str(metric), n_units)


def lengths(specs: Mapping[str, Any], table: pa.Table) -> list[int]:
    """The number of units of each row: stored for explanations, computed from the text for examples."""
    if "starts" in table.column_names:
        return list(pc.list_value_length(table.column("starts")).to_pylist())
    spans = spans_of(str(specs.get("units", "word")))
    return [len(spans(text)) for text in table.column("text").to_pylist()]


def may_be_long(specs: Mapping[str, Any], table: pa.Table, limit: int) -> bool:
    """Whether all rows together may take more passes than the limit, without splitting the texts into units."""
    if "starts" in table.column_names:
        counts = lengths(specs, table)
    else:
        # A word rarely takes fewer than two characters with its blank; other units are fewer than words.
        counts = [1 + len(text) // 2 for text in table.column("text").to_pylist()]
    return sum(passes_of(specs, count) for count in counts) > limit


def is_own(specs: Mapping[str, Any]) -> bool:
    """Whether a cell runs user code."""
    return bool(specs.get("explainer_code") or specs.get("metric_code"))


def explains_or_measures(runner: str) -> bool:
    """Whether a cell is an explanation or a metric of a bench, rather than one of a study."""
    from troth.store.specs import MetricSpec

    return runner in (ExplanationSpec.runner, MetricSpec.runner)
