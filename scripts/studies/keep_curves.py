"""Keeps the curves of ROAR runs, also of those that were stopped: performance by measure, share erased and seed.

    python scripts/studies/keep_curves.py docs/papers/roar/results babi1=runs/roar_babi1 \\
        "imdb(as_in=roar):2000=runs/roar_imdb"

Each run is named by its data (and its limit), which TROTH_DATA must have. Of a measure that has not come to 90 %, RACU
is kept up to where all seeds are done, and what the whole RACU would be with the rest as random ("at least") and with
the rest as empty texts ("at most"). Of a run that only has steps of one token, `erased` counts tokens and there is no
RACU.
curves.csv.gz has the rows, curves.png and one_token.png the figures.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from troth.metrics import formulas
from troth.studies._copies import ALL, Counted
from troth.studies._results import Line, draw_lines, over_seeds
from troth.studies.roar._curves import performance
from troth.training import presets
from troth.training.examples import load_three_splits
from troth.training.settings import Metric

FIGURES = {
    "share": ("curves.png", "share of tokens erased", (10, 8)),
    "tokens": ("one_token.png", "tokens erased", (7, 4)),
}

Curves = dict[str, dict[int, dict[int, float]]]  # measure, basis points, seed


def read(run: Path, data: str, limit: int | None) -> tuple[Counted, Curves]:
    """The recursive curves of a run, and the random one; what was erased by none is in all."""
    labeled = load_three_splits(data, hold_out=presets.held_out("roar", data), limit=limit)
    gold = torch.tensor([example.class_index or 0 for example in labeled.others["test"]])
    metric: Metric = "accuracy" if labeled.training[0].text_pair else "macro_f1"
    found: Curves = {}
    every = [json.loads(file.read_text()) for file in sorted(run.glob("files/**/result.json"))]
    shares = any(result["counted"] == "share" and result["trail"] for result in every)
    counted: Counted = "share" if shares else "tokens"
    results = [result for result in every if result["counted"] == counted or not result["trail"]]
    step = min(result["trail"][-1] for result in results if result["trail"])
    for result in results:
        measure, trail = result["by"].partition("(")[0], result["trail"]
        if measure in ("", "random") or step * len(trail) == trail[-1]:  # explained again at every step
            value = performance(metric, result["predicted"], gold, len(labeled.labels))
            found.setdefault(measure, {}).setdefault(trail[-1] if trail else 0, {})[result["seed"]] = value
    ends = found.pop("")
    return counted, {measure: {**ends, **points} for measure, points in sorted(found.items())}


def rows_of(name: str, counted: Counted, curves: Curves) -> Iterator[dict[str, Any]]:
    points = sorted(curves["random"])
    seeds = sorted(curves["random"][0])
    random = np.array([[curves["random"][point][seed] for point in points] for seed in seeds])
    for measure, by_point in curves.items():
        for point, by_seed in sorted(by_point.items()):
            for seed, value in sorted(by_seed.items()):
                yield row(name, measure, "performance", point if counted == "tokens" else point // 100, seed, value)
        if measure == "random" or counted == "tokens":
            continue
        done = [point for point in points if len(by_point.get(point, {})) == len(seeds)]
        last = next((place for place, point in enumerate(points[:-1]) if point not in done), len(points)) - 1
        own = np.array([[by_point[point][seed] for point in points[: last + 1]] for seed in seeds])
        places, begun = [point / ALL for point in points], slice(last + 1)
        empty = np.repeat(random[:, -1:], len(points), axis=1)
        possible = formulas.acu(places[begun], empty[:, begun], random[:, begun])
        quantities = {"racu": formulas.acu(places[begun], own, random[:, begun]) / possible}
        if points[last] < ALL:
            for quantity, rest in (("racu at least", random), ("racu at most", empty)):
                quantities[quantity] = formulas.racu(places, np.hstack([own, rest[:, last + 1 :]]), random)
        for quantity, values in quantities.items():
            for seed, value in zip(seeds, np.atleast_1d(values), strict=True):
                yield row(name, measure, quantity, points[last] // 100, seed, float(value))


def row(name: str, measure: str, quantity: str, erased: int, seed: int, value: float) -> dict[str, Any]:
    about = {"run": name, "measure": measure, "quantity": quantity, "erased": erased, "seed": seed}
    return {**about, "example_id": "all", "value": round(100 * value, 4)}


def lines_of(counted: Counted, curves: Curves) -> dict[str, Line]:
    """Up to the first point that not all seeds have."""
    seeds = len(curves["random"][0])
    lines = {}
    for measure, by_point in curves.items():
        missing = [point for point in curves["random"] if len(by_point.get(point, ())) < seeds]
        points = [point for point in sorted(by_point) if point < min(missing, default=ALL + 1)]
        by_seed = [[by_point[point][seed] for point in points] for seed in sorted(by_point[0])]
        lines[measure] = over_seeds([point if counted == "tokens" else point / ALL for point in points], by_seed)
    return lines


def main() -> None:
    from matplotlib.figure import Figure

    out, runs = Path(sys.argv[1]), [argument.rpartition("=") for argument in sys.argv[2:]]
    rows, panels = [], {"share": {}, "tokens": {}}
    for named, _, run in runs:
        data, _, limit = named.partition(":")
        counted, curves = read(Path(run), data, int(limit) if limit else None)
        name = Path(run).name.removeprefix("roar_")
        rows += rows_of(name, counted, curves)
        panels[counted][name] = lines_of(counted, curves)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with gzip.GzipFile(out / "curves.csv.gz", "wb", mtime=0) as file:
        file.write(text.getvalue().encode())
    for counted, (file, across, size) in FIGURES.items():
        if panels[counted]:
            figure = Figure(figsize=size, dpi=110, layout="constrained")
            draw_lines(
                figure, panels[counted], across, "accuracy (bAbI) or macro-F1", columns=min(2, len(panels[counted]))
            )
            figure.savefig(out / file)
    print(f"{len(rows):,} rows in {out / 'curves.csv.gz'}")


if __name__ == "__main__":
    main()
