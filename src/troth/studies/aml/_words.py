"""How the AML study shows results: table cells, facts for machines, sentences."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from troth.core import catalog
from troth.data import Data
from troth.engine.prober import Prober
from troth.studies.aml._cells import Result
from troth.studies.aml._tables import METRICS
from troth.verbs.explain import explain_each


def seconds(model: Any, data: Data, spec: str) -> tuple[float, float]:
    """An example alone and in company, each after one that warms up."""

    def run(examples: Sequence[Any]) -> float:
        begun = time.perf_counter()
        list(explain_each(Prober(model), examples, spec, units="token"))
        return time.perf_counter() - begun

    run(data.examples[:1])
    alone = float(np.mean([run([example]) for example in data.examples]))
    run(data.examples)
    return alone, run(data.examples) / len(data)


def shown(found: Mapping[tuple[str, str], Result], method: str, judge: str) -> float | str | None:
    """A table's cell: the value, and with several seeds their standard deviation."""
    result = found.get((method, judge))
    if result is None:
        return None
    value, spread = result.summary.value, result.spread
    return value if spread is None else f"{value:.3f} ± {spread:.3f}"


def facts_of(found: Mapping[tuple[str, str], Result], method: str, judges: Mapping[str, str]) -> dict[str, Any]:
    """What --json says of a method, by metric."""
    facts: dict[str, Any] = {}
    for short, judge in judges.items():
        result = found.get((method, judge))
        if result is None:
            facts[short] = None
            continue
        summary = result.summary
        facts[short] = {
            "value": summary.value, "low": summary.low, "high": summary.high, "examples": summary.count,
            "by_seed": {str(seed): value for seed, value in result.by_seed.items()}, "spread": result.spread,
        }  # fmt: skip
    return facts


def about_seeds(seeds: Sequence[int]) -> str:
    """How several seeds are put together; nothing for one."""
    if len(seeds) == 1:
        return ""
    return (
        f"{len(seeds)} seeds: each example is averaged over them first, intervals are over examples; ± is the "
        "standard deviation over seeds. A method without ± draws nothing."
    )


def best(found: Mapping[tuple[str, str], Result], methods: Sequence[str]) -> str:
    """Who is first by each metric, and where fAML and pAML stand."""
    parts = []
    for short, metric in METRICS.items():
        sign = -1 if catalog.find("metrics", metric).higher_is_better else 1
        values = {method: sign * found[method, metric].summary.value for method in methods if (method, metric) in found}
        order = sorted(values, key=values.__getitem__)
        places = [f"{method} is {order.index(method) + 1}" for method in ("fAML", "pAML") if method in order]
        if order:
            parts.append(f"{short}: {', '.join([f'{order[0]} is best of {len(order)}', *places])}.")
    return " ".join(parts)
