"""The rows, tables and figure of docs/papers/truth/appendix.md.

    python scripts/studies/truth_tables.py keep FOLDER...  # keeps the rows of finished studies that the page needs
    python scripts/studies/truth_tables.py                 # writes the page's tables and the guide's figure from them

`keep` reads every Parquet file below the folders: rows of `study truth` (TruthExperiment.rows) and of `study
gaming` (GamingExperiment.rows). The page keeps τ of every text and seed; of other quantities the mean over the texts
of a model.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from matplotlib.figure import Figure

from troth.core import catalog
from troth.statistics import crossed_mean, mean
from troth.studies import Section
from troth.studies._results import with_interval
from troth.studies._trained_study import full_spec
from troth.studies.gaming import HONEST, RANDOM
from troth.studies.gaming._gamed import DETECTORS
from troth.studies.truth import EXPLAINERS
from troth.studies.truth._sections import SECTIONS, KeptRows, draw_metrics

DOCS = Path(__file__).parents[2] / "docs"
KEPT, FIGURE = DOCS / "papers" / "truth" / "results", DOCS / "images" / "truth.png"
PAGE = KEPT.with_name("appendix.md")
GUIDES = (DOCS / "guide" / "which.md", DOCS / "guide" / "truth.md")
BEGIN, END = "<!-- tables: written by scripts/studies/truth_tables.py -->", "<!-- /tables -->"
BELIEVE, BELIEVED = "<!-- believe: written by scripts/studies/truth_tables.py -->", "<!-- /believe -->"
BY_TEXT = ("tau_mixed", "average_precision")
NAMES = {"carried/minilm_mlm": "MiniLM", "minilm_mlm": "MiniLM", "bilstm_attention": "BiLSTM"}
SHORT = {full_spec(spec): spec for spec in EXPLAINERS}
Row = Mapping[str, Any]


def keep(folders: Sequence[str]) -> None:
    """Writes rows.parquet, overall.parquet and gaming.parquet."""
    files = sorted(path for folder in folders for path in Path(folder).rglob("*.parquet"))
    tables = [pa.parquet.read_table(path) for path in files]
    truth = [renamed(row) for table in tables if "shortcut" in table.column_names for row in table.to_pylist()]
    write(list(shortened(truth)), "rows")
    write(list(over_shortcuts(truth)), "overall")
    gamed = [renamed(row) for table in tables if "same_prediction" in table.column_names for row in table.to_pylist()]
    # A text that lacks a seed does not count, so a third seed of one model alone would leave out all others.
    gamed = [row for row in gamed if row["data"] == "sst2" and row["seed"] < 2]
    for row in gamed:
        row["example_id"] = f"{row.pop('data')} {row.pop('base')} {row['example_id']}"
    write(gamed, "gaming")


def renamed(row: Row) -> dict[str, Any]:
    """With the names of the page in place of folders'."""
    return {name: _name(value) if isinstance(value, str) else value for name, value in row.items()}


def _name(text: str) -> str:
    return SHORT.get(text) or NAMES.get(
        text, text.replace("\"infill(model='carried/minilm_mlm', draws=2, rounds=2)\"", "infill")
    )


def shortened(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """What is kept by text as it is; of everything else the mean over the texts of a model."""
    by_model: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in rows:
        if row["quantity"] in BY_TEXT:
            yield dict(row)
        else:
            by_model[tuple(value for name, value in row.items() if name not in ("example_id", "value"))].append(
                row["value"]
            )
    names = ("data", "base", "shortcut", "recipe", "seed", "about", "quantity")
    for key, values in by_model.items():
        yield {**dict(zip(names, key, strict=True)), "example_id": "", "value": mean(np.array(values, np.float64))}


def over_shortcuts(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """τ of each text as the mean over the models of a seed that use their shortcut: a text counts once."""
    found: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in rows:
        if row["quantity"] in ("tau_mixed", "tau_noise") and row["value"] is not None and not np.isnan(row["value"]):
            text = f"{row['data']} {row['example_id']}"
            found[row["recipe"], row["about"], row["quantity"], row["seed"], text].append(row["value"])
    for key, values in found.items():
        names = ("recipe", "about", "quantity", "seed", "example_id")
        yield {**dict(zip(names, key, strict=True)), "value": float(np.mean(values))}


def write(rows: Sequence[dict[str, Any]], name: str) -> None:
    """A small Parquet file: sorted, with values of three decimals."""
    if not rows:
        return
    columns = [column for column in rows[0] if column not in ("seed", "example_id", "value")]
    ordered = sorted(rows, key=lambda row: (*(str(row[column]) for column in columns), row["seed"], row["example_id"]))
    for row in ordered:
        row["value"] = None if row["value"] is None or np.isnan(row["value"]) else round(float(row["value"]), 3)
    table = pa.Table.from_pylist(ordered)
    table = table.set_column(table.column_names.index("value"), "value", table["value"].cast(pa.float32()))
    KEPT.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(table, KEPT / f"{name}.parquet", compression="zstd", compression_level=19)


def rows() -> KeptRows:
    """What the page keeps of the study of shortcuts."""
    return KeptRows(pa.parquet.read_table(KEPT / "rows.parquet").to_pylist())


def gaming() -> Iterator[Section]:
    """A table per explainer: every metric, honest and gamed, over all data sets and bases."""
    found: dict[tuple[str, ...], dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    same = [0, 0]
    for row in pa.parquet.read_table(KEPT / "gaming.parquet").to_pylist():
        value = float("nan") if row["value"] is None else row["value"]
        found[row["explainer"], row["metric"], row["model"]][row["seed"]][row["example_id"]] = value
        same = [same[0] + (not row["same_prediction"]), same[1] + 1]
    for explainer in dict.fromkeys(key[0] for key in found if key[0] != RANDOM):
        table = []
        for metric in dict.fromkeys(key[1] for key in found):
            sign = 1 if catalog.build("metrics", metric.replace("=infill", "=mask_token")).higher_is_better else -1
            cells = []
            for model in (HONEST, *DETECTORS):
                values, random, honest = (
                    matrix(found[key])
                    for key in ((explainer, metric, model), (RANDOM, metric, model), (explainer, metric, HONEST))
                )
                told = np.sign(sign * (values - random)) / 2 + 0.5
                cells += [with_interval(crossed_mean(each)[:3], 2) for each in (values, random, told)]
                if model != HONEST:
                    cells.append(with_interval(crossed_mean(sign * (values - honest))[:3], 2))
            table.append([metric, *cells])
        each = ("explained", "random", "better than random")
        columns = ("metric", *each, *(f"{name}: {what}" for name in DETECTORS for what in (*each, "gain")))
        words = (
            f"Gaming changed {same[0]} of {same[1]:,} predictions on whole texts. The first three columns are for the "
            "honest model, the others for gamed models that see masks, or every erasure. *Explained* and *random* are "
            "the means of the metric for the explainer and for random words. *Better than random* is the share of "
            "texts for which the explainer scores better; a tie counts as one half. *Gain* is the improvement over "
            "the honest model."
        )
        yield Section("gaming", f"Gamed metrics, {explainer}", columns, table, words)


def matrix(by_seed: Mapping[int, Mapping[str, float]]) -> np.ndarray[Any, Any]:
    """[seeds, texts] of the texts that any seed has."""
    texts = sorted({text for values in by_seed.values() for text in values})
    return np.array([[values.get(text, np.nan) for text in texts] for _, values in sorted(by_seed.items())])


def markdown(section: Section) -> str:
    """A section as it stands on the page; the number in its sentence is in its table."""
    words = re.sub(r": τ [-\d.]+ \[[^\]]*\]", "", section.words)
    head = f"| {' | '.join(section.columns)} |\n|{'---|' * len(section.columns)}"
    cells = [[f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row] for row in section.rows]
    lines = [f"| {' | '.join('–' if cell == 'nan' else cell for cell in row)} |" for row in cells]
    return "\n".join([f"### {section.title}\n", words, "", head, *lines])


def means_over_texts() -> dict[str, dict[str, float]]:
    """τ by recipe and metric: of each text the mean over its seeds, then over texts."""
    by_text: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in pa.parquet.read_table(KEPT / "overall.parquet").to_pylist():
        if row["quantity"] == "tau_mixed":
            by_text[row["recipe"], row["about"]][row["example_id"]].append(row["value"])
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for (recipe, metric), values in by_text.items():
        found[recipe][metric] = float(np.mean([np.mean(each) for each in values.values()]))
    return found


def highest() -> str:
    """The three metrics with the highest τ, with a comment from which a test computes each number again."""
    said = []
    for recipe, means in means_over_texts().items():
        best = sorted(means, key=lambda metric: -means[metric])[:3]
        shown = [
            f"`{metric}` {means[metric]:.3f} <!-- check: overall.parquet where recipe={recipe} "
            f'about="{metric}" quantity=tau_mixed value={means[metric]:.3f} -->'
            for metric in best
        ]
        said.append(f"on {recipe} models {', '.join(shown)}")
    return f"Highest mean τ over all shortcuts, texts and seeds: {'; '.join(said)}."


def believe() -> str:
    """Which metric to believe, without a number, for the guide."""
    means = means_over_texts()
    both = {metric: min(of[metric] for of in means.values()) for metric in means["plain"]}
    order = [catalog.parse(metric)[0] for metric in sorted(both, key=lambda metric: -both[metric])]
    best, worst = list(dict.fromkeys(order))[:3], order[-1]
    links = [f"[{name}](../methods/metrics.md#{name})" for name in (*best, worst)]
    return (
        "For models that provably use a planted shortcut, the words that matter are known. The rankings of "
        f"explanations of one text by {', '.join(links[:2])} and {links[2]} agree best with this truth, and those by "
        f"{links[3]} agree least ([truth](../papers/truth/results.md))."
    )


def page() -> str:
    """The text of the page with its tables as the rows have them."""
    kept = rows()
    sections = [section for part in SECTIONS.values() for section in part(kept)]
    sections += gaming() if (KEPT / "gaming.parquet").exists() else ()
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    tables = "\n\n".join(map(markdown, sections))
    return f"{before}{BEGIN}\n\n{highest()}\n\n{tables}\n\n{END}{rest.partition(END)[2]}"


def draw() -> None:
    """τ of every metric, plain and masked models."""
    kept = rows()
    found = {
        f"{recipe} models": {name: kept.mean(name, "tau_mixed", None, recipe) for name in kept.abouts("tau_mixed")}
        for recipe in kept.names(3)
    }
    figure = Figure(figsize=(7, 5), layout="constrained")
    draw_metrics(figure, found)
    figure.savefig(FIGURE, dpi=110)


if __name__ == "__main__":
    if sys.argv[1:2] == ["keep"]:
        keep(sys.argv[2:])
    else:
        PAGE.write_text(page(), encoding="utf-8")
        for guide in GUIDES:
            before, _, rest = guide.read_text(encoding="utf-8").partition(BELIEVE)
            guide.write_text(f"{before}{BELIEVE}{believe()}{BELIEVED}{rest.partition(BELIEVED)[2]}", encoding="utf-8")
        draw()
