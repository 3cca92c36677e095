"""Writes the tables of docs/papers/aml/results.md and appendix.md from the rows kept next to it.

    python scripts/studies/aml_tables.py docs/papers/aml/results

For each run: every method by the five metrics next to the paper's number, with the standard deviation over seeds; then
fAML against every method, paired by text and seed, with 95 % intervals that count both as drawn. The one
seed of a method that draws nothing stands for all; where there is one seed only, the interval holds for that seed.
"""

from __future__ import annotations

import io
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet

from troth.core import catalog
from troth.statistics import crossed_mean
from troth.studies.aml._experiment import BASELINES, METRICS, RELEASED, of_tables

Values = dict[str, dict[str, dict[int, dict[str, float]]]]  # method -> metric -> seed -> example -> value
NAMES = {catalog.parse(spec)[0]: name for name, spec in BASELINES.items()}
DATA = {"lora": "emotion", "smollm2": "sst2", "smollm2_rotten_tomatoes": "rotten_tomatoes"}  # by run, where it differs
DECODERS = ("smollm2", "lora")  # how the names of their files begin; they stand next to Llama 2, others next to BERT


def read(file: Path) -> dict[str, Values]:
    """By data set."""
    found: dict[str, Values] = defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: defaultdict(dict))))
    table = pyarrow.parquet.read_table(file) if file.suffix == ".parquet" else pyarrow.csv.read_csv(file)
    for row in table.to_pylist():
        value = np.nan if row["value"] is None else float(row["value"])
        method = NAMES.get(row["method"], row["method"])
        found[row["data"]][method][row["metric"]][int(row["seed"])][str(row["example_id"])] = value
    return found


def by_example(values: Values, method: str, metric: str) -> dict[str, float]:
    """Each text averaged over the seeds."""
    by_seed = list(values[method].get(metric, {}).values())
    if not by_seed:
        return {}
    return {text: float(np.mean([scores[text] for scores in by_seed])) for text in by_seed[0]}


def shown(values: Values, method: str, metric: str) -> str:
    """The mean over texts, and with several seeds their standard deviation."""
    texts = by_example(values, method, metric)
    if not texts:
        return "–"
    means = [np.nanmean(list(scores.values())) for scores in values[method][metric].values()]
    spread = f" ± {np.std(means, ddof=1):.3f}" if len(means) > 1 else ""
    return f"{np.nanmean(list(texts.values())):.3f}{spread}"


def main_table(data: str, values: Values, beside: str) -> None:
    order = [name for name in ("fAML", "pAML", *BASELINES) if name in values]
    columns = [column for short in METRICS for column in (short, *(["released"] if short in RELEASED else []), "paper")]
    print(f"| method | texts | {' | '.join(columns)} |\n|---|--:|{'--:|' * len(columns)}")
    for method in order:
        cells = [str(len(by_example(values, method, METRICS["comp"])))]
        for short, metric in METRICS.items():
            cells.append(shown(values, method, metric))
            if short in RELEASED:
                cells.append(shown(values, method, RELEASED[short]))
            paper = of_tables(data, beside, method, short)
            cells.append("–" if paper is None else f"{paper:.3f}")
        print(f"| {method} | {' | '.join(cells)} |")
    print()


def differences(values: Values, own: str, others: Sequence[str], metrics: Mapping[str, str]) -> None:
    """How much better `own` is than each other method, by metric: above 0 is better whatever the metric."""
    print(f"| {own} better than | {' | '.join(metrics)} |\n|---|{'--:|' * len(metrics)}")
    for other in others:
        cells = []
        for metric in metrics.values():
            sign = 1 if catalog.find("metrics", catalog.parse(metric)[0]).higher_is_better else -1
            mine, theirs = values[own].get(metric, {}), values[other].get(metric, {})
            once = next(iter(theirs.values())) if len(theirs) == 1 else None
            seeds = [seed for seed in sorted(mine) if once or seed in theirs]
            if not seeds:
                cells.append("–")
                continue
            gains = [
                [sign * (mine[seed][text] - theirs.get(seed, once)[text]) for text in mine[seed]]  # type: ignore[index]
                for seed in seeds
            ]
            gain, low, high, *_ = crossed_mean(gains)
            bold = "**" if low > 0 or high < 0 else ""
            cells.append(f"{bold}{gain:.3f}{bold} [{low:.3f}, {high:.3f}]")
        print(f"| {other} | {' | '.join(cells)} |")
    print()


def main(kept: Path) -> None:
    for page in (kept.with_suffix(".md"), kept.with_name("appendix.md")):
        page.write_text(filled(page.read_text(encoding="utf-8"), kept), encoding="utf-8")


def filled(text: str, kept: Path) -> str:
    """The page with the tables of each run between its marks, <!-- aml:RUN --> and <!-- /aml -->."""

    def written(match: re.Match[str]) -> str:
        return f"<!-- aml:{match[1]} -->\n\n{tables(kept, match[1])}\n\n<!-- /aml -->"

    return re.sub(r"<!-- aml:(\w+) -->.*?<!-- /aml -->", written, text, flags=re.DOTALL)


def tables(kept: Path, run: str) -> str:
    """Every method by the five metrics and fAML against the others; of the ablation, what each changed loss costs."""
    with redirect_stdout(io.StringIO()) as lines:
        if run == "ablation":
            (values,) = read(_file(kept, run)).values()
            metrics = sorted({metric for by_metric in values.values() for metric in by_metric})
            for own in ("fAML", "pAML"):  # compared with its variants, and with what draws nothing
                others = [other for other in values if other != own and other[:4] not in {"fAML", "pAML"} - {own}]
                differences(values, own, others, {metric: metric for metric in metrics})
        else:
            data = run.removesuffix("_mlm") if run.endswith("_mlm") else DATA.get(run, run)
            values = read(_file(kept, run))[data]
            main_table(data, values, "Llama2" if run.startswith(DECODERS) else "BERT")
            others = [other for other in ("pAML", *BASELINES) if other in values]
            differences(values, "fAML", others, METRICS)
    return lines.getvalue().strip()


def _file(kept: Path, run: str) -> Path:
    return next(kept.glob(f"{run}_rows.*"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
