"""Writes the tables of docs/papers/fmm/results.md and appendix.md from what is kept next to it.

    python scripts/studies/fmm_tables.py docs/papers/fmm/results

The page's marked parts (<!-- fmm:NAME --> … <!-- /fmm -->) are written again; the text between them is not touched.
Also writes facts.csv.gz, the rows that findings over data sets, epochs and in-distribution tests are computed from.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from troth.studies._results import estimate
from troth.studies.fmm._experiment import MARGIN, MEASURES, printed

DATA = ("sst2", "babi1", "babi2", "cola", "mrpc", "rte")
TRAININGS = ("plain", "masked", "only_masking")
REFERENCES = ("whole", "half masked", "all masked")
OTHER_RUNS = {"minilm": ("sst2", "babi1", "mrpc"), "mlm": ("sst2", "babi1", "mrpc")}  # by base
BASES = {"minilm": "MiniLM", "mlm": "MiniLM+MLM"}
LEVEL = 0.05


def main(kept: Path) -> None:
    for page in (kept.with_suffix(".md"), kept.with_name("appendix.md")):
        page.write_text(filled(page.read_text(encoding="utf-8"), kept), encoding="utf-8")
    (kept / "facts.csv.gz").write_bytes(_compressed([*_facts(_every(kept)), *_ablated(_ablation(kept))]))


def filled(text: str, kept: Path) -> str:
    """The page with each table between its marks."""
    results = _read(kept, DATA)
    tables = (performance, epochs, in_distribution, faithfulness, everywhere)
    parts = {table.__name__: _printed(table, results) for table in tables}
    parts["strategies"] = _printed(strategies, _ablation(kept))
    every = _every(kept)
    parts |= {table.__name__: _printed(table, every) for table in (own_references, bases, bases_performance)}

    def written(match: re.Match[str]) -> str:
        return f"<!-- fmm:{match[1]} -->\n\n{parts[match[1]]}\n\n<!-- /fmm -->"

    return re.sub(r"<!-- fmm:(\w+) -->.*?<!-- /fmm -->", written, text, flags=re.DOTALL)


def _every(kept: Path) -> dict[tuple[str, str], Any]:
    """The results of every run by its name and data."""
    main_runs = _read(kept, DATA)
    every = {("main" if data != "rte" else "not converged", data): parts for data, parts in main_runs.items()}
    for run, names in OTHER_RUNS.items():
        found = _read(kept, [f"{run}_{data}" for data in names])
        every |= {(run, data): parts for data, parts in zip(names, found.values(), strict=True)}
    return every


def _printed(table: Callable[[Any], None], results: Any) -> str:
    with redirect_stdout(io.StringIO()) as lines:
        table(results)
    return lines.getvalue().strip()


def _read(kept: Path, names: Sequence[str]) -> dict[str, Any]:
    return {name: json.loads(gzip.decompress((kept / f"{name}.json.gz").read_bytes()))["results"] for name in names}


def _ablation(kept: Path) -> dict[str, Any]:
    return _read(kept, ["mrpc_ablation"])["mrpc_ablation"]["mrpc"]  # type: ignore[no-any-return]


def _compressed(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return gzip.compress(text.getvalue().encode(), mtime=0)


def _facts(every: dict[tuple[str, str], Any]) -> Iterator[dict[str, Any]]:
    """ACU, performance with everything masked, majority, the chosen epoch, and out-of-distribution shares, all in %.

    An example is a data set. Shares are of distinct inputs of all seeds together, the least and the most they can be.
    """
    for (run, data), parts in every.items():
        about = {"run": run, "data": data}
        facts = parts["performance"]
        for training in TRAININGS:
            curves = facts[data][training]["by_seed"]
            for seed, (curve, epoch) in enumerate(zip(curves, facts[f"{data} chosen epochs"][training], strict=True)):
                yield _fact(about, training, "", "all masked", seed, data, 100 * curve[-1])
                yield _fact(about, training, "", "epoch", seed, data, epoch)
                if training == "plain":
                    yield _fact(about, "majority", "", "all masked", seed, data, 100 * facts[data]["majority"])
        for name, found in parts["faithfulness"].items():
            _, training, measure = name.split(" ", 2)
            for seed, (acu, _) in zip(found["seeds"], found["by_seed"], strict=True):
                if run in OTHER_RUNS or seed < 3:  # which all data sets have
                    yield _fact(about, training, measure, "acu", seed, data, 100 * acu)
        for training in ("plain", "masked"):
            for references in REFERENCES:
                for variant in ("paper", "calibrated"):
                    least, most, of = distinct(parts, data, training, references, variant)
                    for bound, out in (("least", least), ("most", most)):
                        yield _fact(about, training, f"{references}, {variant}", bound, "all", data, 100 * out / of)


def _ablated(ablation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, facts in ablation.items():
        training, validation = name.rsplit(" ", 1)
        for seed, curve in enumerate(facts["by_seed"]):
            for measure, place in (("unmasked", 0), ("all masked", -1)):
                about = {"run": "ablation", "data": f"validated {validation}"}
                yield _fact(about, training, measure, "performance", seed, "mrpc", 100 * curve[place])


def _fact(
    about: dict[str, str], training: str, measure: str, quantity: str, seed: int | str, example: str, value: float
) -> dict[str, Any]:
    named = {**about, "training": training, "measure": measure, "quantity": quantity}
    return {**named, "seed": seed, "example_id": example, "value": f"{value:.4f}"}


def distinct(parts: dict[str, Any], data: str, training: str, references: str, variant: str) -> tuple[int, int, int]:
    """How many inputs are out of distribution, at least and at most, and of how many; each input counted once.

    The runs counted completely masked texts once per explainer, and kept their p as the mean over seeds. That mean and
    the count limit how many seeds can be below 0.05.
    """
    checked = parts["in_distribution"]
    found = checked[f"{data} {training} {references} {variant}"]
    if "out_by_seed" in found:
        return found["out"], found["out"], found["of"]
    means = _means(parts, data, training, references, variant)
    same = len(means) - ("Beam" in means)  # Beam was asked about fewer texts
    seeds = found["of"] // (len(means) * (len(means["Random"]) - 1))
    total = means["Random"][-1] * seeds
    below = [
        count for count in range(seeds + 1)
        if (seeds - count) * LEVEL <= total <= count * LEVEL + seeds - count and total >= seeds * found["lowest"]
        and (count == 0 or found["lowest"] < LEVEL) and same * count <= found["out"]
        and same * (seeds - count) <= found["of"] - found["out"]
    ]  # fmt: skip
    extra = same - 1
    return found["out"] - extra * max(below), found["out"] - extra * min(below), found["of"] - extra * seeds


def _means(parts: dict[str, Any], data: str, training: str, references: str, variant: str) -> dict[str, list[float]]:
    """p by masking ratio, the mean over seeds, of every measure."""
    begin = f"{training} | {references} | "
    found = parts["in_distribution"][f"{data} {variant}"]
    return {name.removeprefix(begin): p for name, p in found.items() if name.startswith(begin)}


def performance(results: dict[str, Any]) -> None:
    heading("data", "training", "unmasked %", "20%", "40%", "60%", "80%", "all masked %", "majority", "published")
    for data, parts in results.items():
        facts = parts["performance"]
        for training in TRAININGS:
            curve = facts[f"{data} by ratio"][training]
            masked = [percent(curve[place][0]) for place in (2, 4, 6, 8, 10)]
            theirs = printed("fmm_performance", "value", data, quantity="performance") if training == "masked" else None
            whole = estimate([seed[0] for seed in facts[data][training]["by_seed"]])
            row(data, training, interval(whole), *masked, percent(facts[data]["majority"]), dash(theirs, ".0f"))


def strategies(ablation: dict[str, Any]) -> None:
    heading("training", "validation", "unmasked %", "all masked %")
    for name, facts in ablation.items():
        ends = (estimate([curve[place] for curve in facts["by_seed"]]) for place in (0, -1))
        row(*name.rsplit(" ", 1), *map(interval, ends))


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
                distinct(parts, data, training, references, variant)
                for variant in ("paper", "calibrated")
                for training in ("plain", "masked")
            ]
            row(data, references, str(found[0][2]), *(_range(least, most) for least, most, _ in found))


def own_references(every: dict[tuple[str, str], Any]) -> None:
    heading(
        "run", "data", "plain, paper's test", "masked", "plain, calibrated", "masked", "plain, over seeds", "masked"
    )
    for (run, data), parts in every.items():
        own = (("plain", "whole"), ("masked", "half masked"))
        counts = [distinct(parts, data, *each, variant) for variant in ("paper", "calibrated") for each in own]
        over_seeds = []
        for training, references in own:
            p = _means(parts, data, training, references, "calibrated")
            once = [value for values in p.values() for value in values[1:-1]]
            once += [p[measure][-1] for measure in ("Random", "Beam") if measure in p]
            over_seeds.append(f"{sum(2 * value < LEVEL for value in once)} of {len(once)}")
        row(run, data, *(f"{_range(least, most)} of {of}" for least, most, of in counts), *over_seeds)


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


def faithfulness(results: dict[str, Any]) -> None:
    heading("data", "measure", "ACU %, plain", "ACU %, masked", "published", "RACU %, masked", "published", "R-ROAR")
    for data, parts in results.items():
        for measure, (_, _, explainer) in MEASURES.items():
            plain, masked = (parts["faithfulness"].get(f"{data} {kind} {measure}") for kind in ("plain", "masked"))
            if masked is None or not masked["seeds"]:
                continue
            columns = ("acu", "racu", "rroar")
            theirs = [dash(printed("fmm_faithfulness", column, data, explainer), ".1f") for column in columns]
            acus = [interval(estimate([acu for acu, _ in each["by_seed"]])) for each in (plain, masked)]
            racus = [racu for _, racu in masked["by_seed"]]
            racu = "–" if None in racus or np.isnan(racus).any() else interval(estimate(racus))
            row(data, measure, *acus, theirs[0], racu, *theirs[1:])


def bases(every: dict[tuple[str, str], Any]) -> None:
    """ACU of the runs that differ in the base alone."""
    heading("measure", "data", *(f"{training}, {name}" for name in BASES.values() for training in ("plain", "masked")))
    for measure in MEASURES:
        for data in OTHER_RUNS["mlm"] if measure not in ("Random", "Grad (L1)") else ():
            found = [
                [acu for acu, _ in every[run, data]["faithfulness"][f"{data} {training} {measure}"]["by_seed"]]
                for run in BASES
                for training in ("plain", "masked")
            ]
            cells = (f"{percent(np.mean(acus))} [{percent(min(acus))}, {percent(max(acus))}]" for acus in found)
            row(measure, data, *cells)


def bases_performance(every: dict[tuple[str, str], Any]) -> None:
    heading("data", "training", *BASES.values())
    for data in OTHER_RUNS["mlm"]:
        for training in TRAININGS:
            means = [np.mean(every[run, data]["performance"][data][training]["by_seed"], axis=0) for run in BASES]
            row(data, training, *(", ".join(percent(curve[place]) for place in (0, 2, 5, 8, 10)) for curve in means))


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
    return middle if "–" in (middle, low) else f"{middle} [{low}, {high}]"


def dash(value: float | None, form: str) -> str:
    return "–" if value is None or value != value else format(value, form)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
