"""Keeps what a page of results rests on: the rows of a study's run, small enough to be committed.

    python scripts/studies/keep_rows.py roar runs/roar_sst runs/roar_babi1 docs/papers/roar/results
    python scripts/studies/keep_rows.py saloss runs/study-saloss docs/papers/saloss/results
    python scripts/studies/keep_rows.py soft runs/study-soft docs/papers/soft/results/rows.parquet
    python scripts/studies/keep_rows.py soft_shares docs/papers/soft/results/*.json.gz \\
        docs/papers/soft/results/shares.csv.gz
    python scripts/studies/keep_rows.py aml runs/study-aml docs/papers/aml/results
    python scripts/studies/keep_rows.py fmm runs/study-fmm docs/papers/fmm/results
    python scripts/studies/keep_rows.py fmm_texts runs/fmm_sst2 runs/fmm_babi1 \\
        docs/papers/fmm/results/mlm_600_texts.parquet
    python scripts/studies/keep_rows.py fmm_checks runs/fmm_sst2 docs/papers/fmm/results/mlm_600_checks.csv.gz
    python scripts/studies/keep_rows.py recipes runs/study-recipes docs/papers/recipes/results

RACU and macro-F1 are kept per seed; flip fractions and won comparisons per example and seed (docs/papers/rows.md).
The last argument is a folder (for rows.csv.gz) or a file's name; a .parquet file is several times smaller.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import small_png

from troth.core import catalog
from troth.metrics import formulas
from troth.metrics._erasing import AOPC_RATIOS
from troth.store.store import Store, Stored
from troth.store.tables import table_to_scores
from troth.studies._results import Results
from troth.studies.fmm._experiment import measure_name
from troth.training import recipes as training_recipes
from troth.validity.checking import LEVEL
from troth.validity.masf import data_set_p_value

Rows = Iterator[dict[str, Any]]


def roar(run: Path) -> Rows:
    """RACU in % of every measure and seed, ROAR and Recursive ROAR, and performance with nothing erased."""
    results = json.loads((run / "study.json").read_text())["results"]
    compared = results.get("comparison", {})
    for part in ("comparison", "faithfulness"):
        for data, facts in results.get(part, {}).items():
            ways = {"roar": "roar", "recursive": "recursive"} if part == "comparison" else {"curves": "recursive"}
            for key, way in ways.items() if part == "comparison" or data not in compared else ():
                for curve in facts[key]:
                    about = {"data": data, "model": facts["model"], "way": way}
                    measure = curve["explainer"].partition("(")[0]
                    yield from _by_seed(facts["seeds"], curve["racu_by_seed"], {**about, "measure": measure})
    for data, facts in results.get("performance", {}).items():
        about = {"data": data, "model": facts["model"], "way": "nothing erased", "measure": facts["metric"]}
        yield from _by_seed(facts["seeds"], facts["performance"], about)


def _by_seed(seeds: Iterable[int], values: Iterable[float | None], about: dict[str, Any]) -> Rows:
    for seed, value in zip(seeds, values, strict=True):
        yield {**about, "seed": seed, "example_id": "all", "value": _percent(value)}


def _percent(value: float | None) -> float | None:
    """None: undefined, as RACU where nothing is lost."""
    return None if value is None else round(100 * value, 4)


def saloss(run: Path) -> Rows:
    """The share of tokens erased before a prediction flips, by example; macro-F1 of rationale classifiers, by seed."""
    store = Store(run)
    recipe_of = _recipes(store)

    def about(cell: Stored, **others: str) -> dict[str, Any]:
        _, options = catalog.parse(recipe_of[cell.specs["model"]])
        guided = {"model": options.get("source", "plain"), "lambda": float(options.get("weight", 0))}
        return {"data": cell.specs["data"], **guided, **others}

    for cell in _metrics(store, "decision_flip"):
        erased = "padded" if catalog.parse(cell.specs["metric"])[1].get("masking") == "pad" else "deleted"
        if cell.specs["split"] == "test":
            method = cell.specs["explainer"].partition("(")[0]
            yield from _by_example(store, cell, about(cell, erased=erased, attribution=method))
    for cell in store.cells():
        if cell.kind == "fresh" and not cell.error:
            method = cell.specs["explainer_full"].partition("(")[0]
            named = about(cell, erased=f"all but {cell.specs['thresholder']}", attribution=method)
            yield {**named, **_of_all(cell), "value": round(Results(store).quality(cell), 4)}  # type: ignore[arg-type]


def recipes(run: Path) -> Rows:
    """Accuracy, flips and comprehensiveness by example, RACU and the p-values of its masked inputs by seed."""
    store = Store(run)
    recipe_of = _recipes(store)
    for cell in sorted(store.cells(), key=lambda cell: json.dumps(cell.specs, sort_keys=True)):
        if cell.error or cell.kind not in ("training", "metric", "erased_check"):
            continue
        recipe = cell.specs["recipe"] if cell.kind == "training" else recipe_of[cell.specs["model"]]
        parts = dict(catalog.parse(part.strip()) for part in training_recipes.split(recipe))
        about = {
            "data": cell.specs["data"],
            "recipe": " + ".join(parts),
            "lambda": float(parts.get("salience", {}).get("weight", 0)),
            "explainer": cell.specs.get("explainer", "").partition("(")[0],
        }
        table = store.table(cell.name)
        metric = cell.specs.get("metric", "").partition("(")[0]
        if cell.kind == "training":
            for row in table.to_pylist():
                if row["split"] == "test":
                    named = {**about, "measure": "accuracy", **_of_all(cell), "example_id": row["example_id"]}
                    yield {**named, "value": int(row["label"] == row["predicted"])}
        elif cell.kind == "erased_check":
            test = ("half masked" if "masked" in parts else "whole", "calibrated")
            p_values = [row["p"] for row in table.to_pylist() if (row["references"], row["variant"]) == test]
            for place, p in enumerate(zip(*p_values, strict=True)):
                named = {**about, "measure": f"p at {place}/{len(p_values[0]) - 1}", **_of_all(cell)}
                yield {**named, "value": round(data_set_p_value(p), 6)}
        elif metric == "recursive_erasure":
            summary = catalog.build("metrics", cell.specs["metric_full"]).summarize(table_to_scores(table))
            yield {**about, "measure": "RACU", **_of_all(cell), "value": round(summary.value, 4)}
        else:
            yield from _by_example(store, cell, {**about, "measure": metric})


def soft(run: Path) -> Rows:
    """Whether each metric ranks an explanation above a random one (won, or tied), by example; empty where undefined.

    Both scores are kept for the paper's four metrics, the soft ones with a sigmoid; of other maps and of variants
    (released, Appendix C, retention) only who won: a page's rows must fit in 1 MB.
    """
    store = Store(run)
    values: dict[tuple[str, str, int], dict[str, dict[str, float | None]]] = {}
    for cell in store.cells():
        if cell.kind == "metric" and cell.specs["split"] == "test" and not cell.error:
            key = (cell.specs["data"], cell.specs["metric"], cell.specs["seed"])
            table = store.table(cell.name)
            scores = dict(zip(table.column("example_id").to_pylist(), table.column("value").to_pylist(), strict=True))
            values.setdefault(key, {})[cell.specs["explainer"].partition("(")[0]] = scores
    for (data, metric, seed), by_method in sorted(values.items()):
        for method in sorted(by_method.keys() - {"random"} if "random" in by_method else ()):
            for example, score in by_method[method].items():
                about = {"data": data, "metric": metric, "attribution": method, "seed": seed, "example_id": example}
                yield {**about, **_outcome(score, by_method["random"][example], _scores_are_kept(metric))}


def _outcome(score: float | None, random: float | None, with_scores: bool) -> dict[str, Any]:
    """Who won, decided before the scores are rounded: rounding would make ties."""
    undefined = score is None or random is None or score != score or random != random
    won, tied = (None, None) if undefined else (int(score > random), int(score == random))  # type: ignore[operator]
    scores = [_rounded(value) if with_scores else None for value in (score, random)]
    return {"value": won, "tied": tied, "score": scores[0], "random": scores[1]}


def _rounded(value: float | None) -> float | None:
    """To three significant digits; None: undefined."""
    return None if value is None or value != value else float(f"{value:.3g}")


def soft_shares(study: Path) -> Rows:
    """Every win rate in the study.json.gz of a run of the soft study, with ties and undefined pairs where it has them.

    `example_id` is the attribution: the mean of the rows that differ in nothing else is the mean over attributions.
    """
    with gzip.open(study) as file:
        kept = json.load(file)
    results, run = kept["results"], study.name.partition(".")[0]
    (data, *sizes), *_ = next(section["rows"] for section in kept["sections"] if section["part"] == "data")
    pairs = sizes[2] * len(results["data"][data]["macro_f1"])  # test texts × seeds

    def row(metric: str, how: str, quantity: str, attribution: str, value: float) -> dict[str, Any]:
        about = {"run": run, "metric": metric, "how": how, "quantity": quantity, "seed": "all"}
        return {**about, "example_id": attribution, "value": round(value, 6)}

    for name, each in results["diagnosticity"].items():
        attribution, metric = name.removeprefix(f"{data} ").rsplit(" ", 1)
        yield row(metric, "paper", "won", attribution, each["diagnosticity"])
        yield row(metric, "paper", "tied", attribution, each["ties_won"] - each["diagnosticity"])
        yield row(metric, "paper", "won_or_tied", attribution, each["ties_won"])
        yield row(metric, "paper", "undefined", attribution, each["undefined"] / pairs)
    for name, each in results.get("released", {}).items():
        metric = name.removeprefix(f"{data} ")
        yield row(metric, "released", "won", "all", each["released"])
        yield row(metric, "released", "won_or_tied", "all", each["released, ties won"])
    for name, shares in results.get("lengths", {}).get("diagnosticity", {}).items():
        for ratio, share in zip(AOPC_RATIOS, shares, strict=True):
            yield row(name.removeprefix(f"{data} "), f"{ratio:.0%}", "won", "all", share)
    for part in ("alternatives", "maps", "retention"):
        for name, each in results.get(part, {}).items():
            metric, how = name.removeprefix(f"{data} ").split(" ", 1)
            for attribution, share in each["diagnosticity"].items():
                yield row(metric, f"{part}: {how}", "won", attribution, share)


def aml(run: Path) -> Rows:
    """Every method by example; an attribution model is judged by the metric it was fitted for.

    Where a method was measured on few and on many texts, the many are kept.
    """
    store = Store(run)
    recipes = {cell.name: cell.specs["recipe"] for cell in store.cells() if cell.kind == "attribution_models"}
    kept: dict[tuple[Any, ...], Stored] = {}
    for cell in store.cells():
        if cell.kind != "metric" or cell.error:
            continue
        method, options = catalog.parse(cell.specs["explainer"])
        metric = catalog.parse(cell.specs["metric"])[0]
        if method == "attributive_masking":
            fitted, chosen_by = Path(options["checkpoint"]).parts[-2:]
            if chosen_by != metric and metric != "rationale_agreement":
                continue
            variant = "" if recipes[fitted] == "whole loss" else recipes[fitted]
            method = ("fAML" if options.get("steps") else "pAML") + variant
        key = (Path(cell.specs["data"]).name, method, cell.specs["metric"], cell.specs["seed"])
        if key not in kept or kept[key].specs["examples"] < cell.specs["examples"]:
            kept[key] = cell
    for (data, method, metric, _), cell in sorted(kept.items()):
        yield from _by_example(store, cell, {"data": data, "method": method, "metric": metric})


def fmm(run: Path) -> Rows:
    """ACU and RACU in % of every training, measure and seed, and performance by masking ratio."""
    results = json.loads((run / "study.json").read_text())["results"]
    for name, facts in results["faithfulness"].items():
        data, training, measure = name.split(" ", 2)
        for seed, values in zip(facts["seeds"], facts["by_seed"], strict=True):
            for quantity, value in zip(("acu", "racu"), values, strict=True):
                about = {"data": data, "training": training, "measure": measure, "quantity": quantity}
                yield {**about, "seed": seed, "example_id": "all", "value": _percent(value)}
    for data, facts in results["performance"].items():
        for training in ("plain", "masked", "only_masking") if "majority" in facts else ():
            for seed, curve in enumerate(facts[training]["by_seed"]):
                for place, value in enumerate(curve):
                    about = {"data": data, "training": training, "measure": f"{place}/{len(curve) - 1} masked"}
                    about |= {"quantity": "performance", "seed": seed, "example_id": "all"}
                    yield {**about, "value": _percent(value)}


def fmm_texts(run: Path) -> Rows:
    """What each text adds to ACU, in points, by training, measure and seed; the mean over texts is ACU of accuracy.

    Only of data sets whose performance is accuracy: other scores are not means over texts.
    """
    store = Store(run)
    recipe_of = _recipes(store)
    for cell in _metrics(store, "recursive_erasure"):
        metric = catalog.build("metrics", cell.specs["metric_full"])
        measure = measure_name(cell.specs["explainer"])
        if (metric.performance or "accuracy") != "accuracy" or measure == "Random":
            continue
        about = {"data": cell.specs["data"], "training": _masked_training(recipe_of[cell.specs["model"]])}
        about |= {"measure": measure, "seed": cell.specs["seed"]}
        table = store.table(cell.name)
        ratios = np.array(metric.points) / 10_000
        for example, score in zip(table.column("example_id").to_pylist(), table_to_scores(table), strict=True):
            record = score.record
            explained, random = (np.equal(record[side], record["label"]) for side in ("explained", "random"))
            value = 100 * float(formulas.acu(ratios, explained, random))
            yield {**about, "example_id": example, "value": round(value, 4)}


def fmm_checks(run: Path) -> Rows:
    """Which masked inputs are out of distribution (100, else 0), by training, references, variant of MaSF and seed.

    An input is a measure and a share of masked tokens above 0; completely masked texts count once. Only measures that
    every seed has are kept, so that the inputs are the same for all of them.
    """
    store = Store(run)
    recipe_of = _recipes(store)
    cells: dict[tuple[str, str], dict[int, Stored]] = {}
    for cell in store.cells():
        if cell.kind == "erased_check" and not cell.error:
            key = (_masked_training(recipe_of[cell.specs["model"]]), measure_name(cell.specs["explainer"]))
            cells.setdefault(key, {})[cell.specs["seed"]] = cell
    every = {seed for by_seed in cells.values() for seed in by_seed}
    masked_completely = set()
    for (training, measure), by_seed in sorted(cells.items()):
        for seed, cell in sorted(by_seed.items()) if by_seed.keys() == every else ():
            p_values: dict[tuple[str, str], list[list[float]]] = {}
            for row in store.table(cell.name).to_pylist():
                p_values.setdefault((row["references"], row["variant"]), []).append(row["p"])
            for (references, variant), by_text in sorted(p_values.items()):
                about = {"data": cell.specs["data"], "training": training, "references": references}
                for place, p in enumerate(np.array(by_text).T):
                    once = (training, references, variant, seed)
                    is_last = place == len(by_text[0]) - 1
                    if place == 0 or (is_last and once in masked_completely):
                        continue
                    masked_completely |= {once} if is_last else set()
                    named = "all masked" if is_last else f"{measure}, {place}/{len(by_text[0]) - 1}"
                    found = {"p": round(data_set_p_value(p), 6), **_of_all(cell)}
                    yield {**about, "variant": variant, "input": named, **found, "value": 100 * (found["p"] < LEVEL)}


def _masked_training(recipe: str) -> str:
    """The name of a training of the study of faithfulness measurable models."""
    _, options = catalog.parse(recipe)
    return {"50/50": "masked", "masking": "only_masking", "no": "plain"}[options.get("train", "50/50")]


def _scores_are_kept(metric: str) -> bool:
    """Those of the paper's four metrics, the soft ones with a sigmoid."""
    _, options = catalog.parse(metric)
    return not {"variant", "masking", "retention"} & options.keys() and options.get("scores", "sigmoid") == "sigmoid"


def _metrics(store: Store, name: str) -> Iterable[Stored]:
    cells = [cell for cell in store.cells() if cell.kind == "metric" and cell.specs["metric"].startswith(name)]
    return sorted(cells, key=lambda cell: json.dumps(cell.specs, sort_keys=True))


def _recipes(store: Store) -> dict[str, str]:
    """The recipe of every trained model."""
    return {f"cell:{cell.name}": cell.specs["recipe"] for cell in store.cells() if cell.kind == "training"}


def _of_all(cell: Stored) -> dict[str, Any]:
    """The columns of a number of all examples together."""
    return {"seed": cell.specs["seed"], "example_id": "all"}


def _by_example(store: Store, cell: Stored, about: dict[str, Any]) -> Rows:
    table = store.table(cell.name)
    for example, value in zip(table.column("example_id").to_pylist(), table.column("value").to_pylist(), strict=True):
        rounded = None if value is None else round(value, 4)
        yield {**about, "seed": cell.specs["seed"], "example_id": example, "value": rounded}


STUDIES: dict[str, Callable[[Path], Rows]] = {
    "roar": roar, "saloss": saloss, "soft": soft, "soft_shares": soft_shares, "aml": aml, "fmm": fmm,
    "fmm_texts": fmm_texts, "fmm_checks": fmm_checks, "recipes": recipes,
}  # fmt: skip


def main() -> None:
    name, *runs, out = sys.argv[1], *map(Path, sys.argv[2:])
    file = out if out.suffix in (".gz", ".parquet") else out / "rows.csv.gz"
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [row for run in runs for row in STUDIES[name](run)]
    if file.suffix == ".parquet":
        table = pyarrow.Table.from_pylist(rows)
        names = [name for name in table.column_names if name != "example_id"]  # plain ids repeat, and compress better
        pyarrow.parquet.write_table(table, file, compression="zstd", compression_level=22, use_dictionary=names)
    else:
        _write_csv(file, rows)
    for run in runs:
        for figure in run.glob("*.png"):
            small_png.keep(figure, file.parent / (figure.name if len(runs) == 1 else f"{run.name}-{figure.name}"))
    print(f"{len(rows):,} rows in {file}")


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with gzip.GzipFile(path, "wb", mtime=0) as file:  # no time in it: the same rows, the same file
        file.write(text.getvalue().encode())


if __name__ == "__main__":
    main()
