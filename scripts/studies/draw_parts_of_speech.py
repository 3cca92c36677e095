"""Figure 1 of SaLoss for every λ of a sweep: mean importance (α∇α) by part of speech, from the stored explanations.

    TAGGER=... python scripts/studies/draw_parts_of_speech.py RUN rows.csv figure.png

RUN holds `troth study 'saloss(weights=...)' --only weights`; its token scores are summed into words, as an explanation
of words is. The tagger is `perceptron_tagger`.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from perceptron_tagger import tags

from troth.core import catalog
from troth.core.units import word_spans
from troth.statistics import Floats
from troth.store.store import Store
from troth.store.tables import table_to_examples
from troth.studies.saloss._words import share_of_text

FEWEST = 20  # words of a tag


def main() -> None:
    run, rows, picture = map(Path, sys.argv[1:])
    counts, means = by_tag(Store(run))
    shown = [tag for tag, count in counts.most_common() if count >= FEWEST]
    with rows.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["lambda", "tag", "words", "seed", "example_id", "value"])
        for (weight, tag, seed), mean in sorted(means.items()):
            if tag in shown:
                writer.writerow([weight, tag, counts[tag], seed, "all", round(mean, 6)])
    weights = sorted({weight for weight, _, _ in means})
    table = {
        weight: [np.mean([mean for key, mean in means.items() if key[:2] == (weight, tag)]) for tag in shown]
        for weight in weights
    }
    draw(picture, shown, table)
    print("| tag | words |", " | ".join(f"{weight:g}" for weight in weights), "|")
    for place, tag in enumerate(shown):
        print(f"| {tag} | {counts[tag]} |", " | ".join(f"{table[weight][place]:.4f}" for weight in weights), "|")


def by_tag(store: Store) -> tuple[Counter[str], dict[tuple[float, str, int], float]]:
    """Words of each tag; the mean importance by λ, tag and seed."""
    cells = [cell for cell in store.cells() if not cell.error]
    recipes = {f"cell:{cell.name}": cell.specs["recipe"] for cell in cells if cell.kind == "training"}
    (data,) = (cell for cell in cells if cell.kind == "data" and cell.specs["split"] == "test")
    texts = {example.id: example.text for example in table_to_examples(store.table(data.name))}
    spans = {name: word_spans(text) for name, text in texts.items()}
    tagged = {name: tags([texts[name][start:end] for start, end in words]) for name, words in spans.items()}
    found: dict[tuple[float, str, int], list[float]] = defaultdict(list)
    for cell in cells:
        if cell.kind != "explanation" or cell.specs["units"] != "token" or cell.specs["split"] != "test":
            continue
        if not cell.specs["explainer"].startswith("attention_x_gradient"):
            continue
        weight = float(catalog.parse(recipes[cell.specs["model"]])[1].get("weight", 0))
        for row in store.table(cell.name).to_pylist():
            name = row["example_id"]
            for tag, share in zip(tagged[name], share_of_text(of_words(row, spans[name])), strict=True):
                found[weight, tag, cell.specs["seed"]].append(float(share))
    return Counter(tag for names in tagged.values() for tag in names), {
        key: float(np.mean(shares)) for key, shares in found.items()
    }


def of_words(row: dict[str, Any], spans: list[tuple[int, int]]) -> Floats:
    """Token scores summed into words; a token over two words joins the first."""
    scores = np.zeros(len(spans))
    for start, end, score in zip(row["starts"], row["ends"], row["scores"], strict=True):
        scores[next(place for place, (first, last) in enumerate(spans) if start < last and first < end)] += score
    return scores


def draw(path: Path, shown: list[str], table: dict[float, list[Any]]) -> None:
    """What each λ adds to a tag's importance."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    plain, guided = np.array(table[0.0]), {weight: means for weight, means in table.items() if weight}
    width = 0.8 / len(guided)
    for number, (weight, means) in enumerate(guided.items()):
        places = np.arange(len(shown)) + width * number
        axes.bar(places, np.array(means) - plain, width, label=f"λ = {weight:g}")
    axes.set_xticks(np.arange(len(shown)) + 0.4, shown, rotation=60)
    axes.set_ylabel("mean importance (α∇α), guided − plain")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.legend(fontsize=7)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
