"""Metrics of the user's own as run.json describes them, so that a table can be read again without running their
code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Question, Score
from troth.engine.routines import Routine
from troth.metrics import Erasing, Explain, Metric, Quality


@dataclass(frozen=True)
class NotedMetric(Metric, catalog.SelfNamed):
    """Stored scores are summarized by the mean over examples, as for most metrics."""

    name: str = field(kw_only=True)
    facts: Mapping[str, Any] = field(kw_only=True)

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]  # of each metric its own
        better: bool | None = self.facts["higher_is_better"]
        return better

    @property
    def measures(self) -> Quality:  # type: ignore[override]
        quality: Quality = self.facts["measures"]
        return quality

    @property
    def divides_by(self) -> str:
        return str(self.facts["divides_by"])

    def ask(
        self, questions: Sequence[Question], attributions: Sequence[Attribution], explain: Explain
    ) -> Routine[list[Score]]:
        raise TrothError(
            f"{self.name} is your own code: its scores can be read from the run, but not measured again here"
        )


@dataclass(frozen=True)
class NotedErasing(NotedMetric, Erasing):
    @property
    def masking(self) -> str:  # type: ignore[override]
        return str(self.facts["masking"])

    @property
    def erased(self) -> tuple[float, float]:
        least, most = self.facts["erased"]
        return least, most


def metric_of(spec: str, about: Mapping[str, Any] | None) -> Metric:
    """A metric by its spec: from the catalog, or as the run describes it."""
    facts = ((about or {}).get("metrics") or {}).get(spec)
    if facts is None:
        built: Metric = catalog.build("metrics", spec)
        return built
    return (NotedErasing if facts["masking"] else NotedMetric)(name=spec, facts=facts)
