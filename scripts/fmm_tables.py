"""The tables of docs/results/fmm.md, from what is kept next to it: `python scripts/fmm_tables.py docs/results/fmm`."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from troth.studies._results import estimate
from troth.studies.fmm._experiment import MARGIN, MEASURES, printed

DATA = ("sst2", "babi1", "babi2", "cola", "mrpc", "rte")
TRAININGS = ("plain", "masked", "only_masking")
REFERENCES = ("whole", "half masked", "all masked")


def main(kept: Path) -> None:
    results = {data: json.loads(gzip.decompress((kept / f"{data}.json.gz").read_bytes()))["results"] for data in DATA}
    ablation = json.loads(gzip.decompress((kept / "mrpc_ablation.json.gz").read_bytes()))["results"]["mrpc"]
    performance(results)
    strategies(ablation)
    epochs(results)
    in_distribution(results)
    faithfulness(results)
    everywhere(results)


def performance(results: dict[str, Any]) -> None:
    heading("data", "training", "unmasked %", "20%", "40%", "60%", "80%", "all masked %", "majority", "published")
    for data, parts in results.items():
        facts = parts["performance"]
        for training in TRAININGS:
            curve = facts[f"{data} by ratio"][training]
            masked = [percent(curve[place][0]) for place in (2, 4, 6, 8, 10)]
            theirs = printed("fmm_performance", "value", data, quantity="performance") if training == "masked" else None
            row(data, training, interval(curve[0]), *masked, percent(facts[data]["majority"]), dash(theirs, ".0f"))


def strategies(ablation: dict[str, Any]) -> None:
    heading("training", "validation", "unmasked %", "all masked %")
    for name, facts in ablation.items():
        row(*name.rsplit(" ", 1), interval(facts["unmasked"]), interval(facts["all masked"]))


def epochs(results: dict[str, Any]) -> None:
    heading("data", "training", "unmasked, first epoch", "last", "masked at random, first", "last", "all masked, last")
    for data, parts in results.items():
        by_epoch = parts["performance"][f"{data} by epoch"]
        for training in TRAININGS:
            whole, some, every = (by_epoch[f"{training}, {kind}"] for kind in ("unmasked", "masked", "all_masked"))
            row(data, training, *map(percent, (whole[0], whole[-1], some[0], some[-1], every[-1])))


def in_distribution(results: dict[str, Any]) -> None:
    heading("data", "references", "cases", "plain, paper's test", "masked", "plain, calibrated", "masked")
    for data, parts in results.items():
        for references in REFERENCES:
            found = [
                parts["in_distribution"][f"{data} {training} {references} {variant}"]
                for variant in ("paper", "calibrated")
                for training in ("plain", "masked")
            ]
            row(data, references, str(found[0]["of"]), *(str(each["out"]) for each in found))


def faithfulness(results: dict[str, Any]) -> None:
    heading("data", "measure", "ACU %, plain", "ACU %, masked", "published", "RACU %, masked", "published", "R-ROAR")
    for data, parts in results.items():
        for measure, (_, _, explainer) in MEASURES.items():
            plain, masked = (parts["faithfulness"].get(f"{data} {kind} {measure}") for kind in ("plain", "masked"))
            if masked is None or not masked["seeds"]:
                continue
            columns = ("acu", "racu", "rroar")
            theirs = [dash(printed("fmm_faithfulness", column, data, explainer), ".1f") for column in columns]
            row(data, measure, interval(plain["acu"]), interval(masked["acu"]), theirs[0], interval(masked["racu"]),
                *theirs[1:])  # fmt: skip


def everywhere(results: dict[str, Any]) -> None:
    """Of seeds 0 to 2, which all data sets have, the mean over data sets; without models that did not converge."""
    heading("measure", "data sets", "ACU %, plain", "ACU %, masked")
    for measure in MEASURES:
        found = {kind: list(_by_data(results, kind, measure)) for kind in ("plain", "masked")}
        if found["masked"]:
            means = [interval(estimate(np.mean(values, axis=0))) for values in found.values()]
            row(measure, str(len(found["masked"])), *means)


def _by_data(results: dict[str, Any], training: str, measure: str) -> Iterable[list[float]]:
    for data, parts in results.items():
        facts = parts["faithfulness"].get(f"{data} {training} {measure}")
        ends = [curve[0] for curve in parts["performance"][data][training]["by_seed"][:3]]
        if facts and min(ends) >= parts["performance"][data]["majority"] + MARGIN:
            yield [acu for acu, _ in facts["by_seed"][:3]]


def heading(*columns: str) -> None:
    print(f"\n| {' | '.join(columns)} |\n|---|{'--:|' * (len(columns) - 1)}")


def row(*cells: str) -> None:
    print(f"| {' | '.join(cell.replace('_', ' ') for cell in cells)} |")


def percent(value: float | Sequence[float] | None) -> str:
    shown = value[0] if isinstance(value, list) else value
    return "–" if shown is None or shown != shown else f"{100 * shown:.1f}".replace("-0.0", "0.0")


def interval(values: Sequence[float | None]) -> str:
    middle, low, high = map(percent, values)
    return middle if middle == "–" else f"{middle} [{low}, {high}]"


def dash(value: float | None, form: str) -> str:
    return "–" if value is None or value != value else format(value, form)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
