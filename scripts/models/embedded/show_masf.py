"""The numbers and the figure of docs/papers/masf/results.md and its appendix, from the rows of `measure_masf.py`.

The pages' marked parts (<!-- masf:NAME --> … <!-- /masf -->) are written again; the text between them is not touched.

    python scripts/models/embedded/show_masf.py docs/papers/masf/results/rows.csv
"""

from __future__ import annotations

import argparse
import csv
import re
from pathlib import Path
from typing import Any

PAGES = [Path("docs/papers/masf") / name for name in ("results.md", "appendix.md")]
LEVEL = 0.05
FORMS = {"whole": 0.0, "half": 0.5, "all": 1.0}  # share of the references that is masked
VARIANTS = ("calibrated", "paper", "left_out")
# Not erased by an explainer: other texts of the references' kind, whole and in the references' form.
FRESH_WHOLE, FRESH_SAME = "fresh whole", "fresh same"
NUMBERS = {"count": int, "floor": float, "ratio": float, "tested": int, "p": float, "below": int, "right": int}
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--pages", type=Path, nargs="+", default=PAGES)
    parser.add_argument("--figure", type=Path, default=Path("docs/images/masf.png"))
    options = parser.parse_args()
    rows = read(options.rows)
    for page in options.pages:
        page.write_text(filled(page.read_text(), parts(rows)))
    plot(rows, options.figure)
    print(forms(rows))


def read(path: Path) -> list[Row]:
    """The rows, numbers as numbers."""
    with path.open(newline="") as file:
        return [
            {name: NUMBERS[name](value) if name in NUMBERS and value else value for name, value in row.items()}
            for row in csv.DictReader(file)
        ]


def parts(rows: list[Row]) -> dict[str, str]:
    """The page's tables by the name of their place in it."""
    tables = (setting, forms, by_form, by_explainer, variants, calibration, performance)
    figure = "![p-values by share of words masked](../../images/masf.png)"
    return {"figure": figure, **{table.__name__: table(rows) for table in tables}}


def setting(rows: list[Row]) -> str:
    """What was tested against what."""
    lines = [f"{erased(rows)[0]['tested']} texts were tested."]
    for name in models(rows):
        own = [row for row in rows if row["model"] == name]
        counts = {row["references"]: row["count"] for row in own}
        of = ", ".join(f"{source.replace('_', ' ')} ({count})" for source, count in counts.items())
        lines.append(f"{name}: form of its training examples: {own[0]['trained']}; references: {of}.")
    return "\n".join(f"- {line}" for line in lines)


def forms(rows: list[Row]) -> str:
    """How many distinct inputs (explainer × share erased) are called out of distribution, by form of the references."""
    body = []
    for name in models(rows):
        for variant in ("calibrated", "paper"):
            cells = []
            for form in FORMS:
                cases = distinct(erased(rows, model=name, variant=variant, form=form))
                lowest = min(cases, key=lambda row: row["p"])
                outside = f"{sum(row['p'] < LEVEL for row in cases)} of {len(cases)}"
                outside = f"**{outside}**" if form == as_trained(rows, name) else outside
                where = f"{lowest['explainer']}, " if 0 < lowest["ratio"] < 1 else ""
                cells.append(f"{outside} (lowest p {lowest['p']:.3f}: {where}{lowest['ratio']:.0%})")
            body.append([name, variant, *cells])
    return table(["model", "variant", *(f"references {form}" for form in FORMS)], body)


def by_form(rows: list[Row]) -> str:
    """p-values of inputs erased at random, by model and form."""
    heads = [(name, form) for name in models(rows) for form in FORMS]
    columns = [erased(rows, model=name, form=form, variant="calibrated", explainer="random") for name, form in heads]
    return by_ratio([f"{name}, {form}" for name, form in heads], columns)


def by_explainer(rows: list[Row]) -> str:
    """p-values with the references in the form of the training, a table per model."""
    tables = []
    for name in models(rows):
        own = erased(rows, model=name, form=as_trained(rows, name), variant="calibrated")
        specs = list(dict.fromkeys(row["explainer"] for row in own))
        tables.append(f"{name}:\n\n{by_ratio(specs, [erased(own, explainer=spec) for spec in specs])}")
    return "\n\n".join(tables)


def by_ratio(heads: list[str], columns: list[list[Row]]) -> str:
    body = [[f"{line[0]['ratio']:.0%}", *(number(row["p"]) for row in line)] for line in zip(*columns, strict=True)]
    return table(["erased", *heads], body)


def variants(rows: list[Row]) -> str:
    """Three ways to join the p-values, on the same hidden states, erased at random."""
    body = []
    for name in models(rows):
        for variant in VARIANTS:
            own = erased(rows, model=name, form=as_trained(rows, name), variant=variant, explainer="random")
            cells = [number(row["p"]) for row in own if row["ratio"] in (0.0, 0.5, 0.9, 1.0)]
            body.append([name, variant, f"{own[0]['floor']:.3f}", *cells, share(own[0])])
    heads = ["smallest p there can be", "p at 0 %", "50 %", "90 %", "100 %", "whole tested texts below 0.05"]
    return table(["model", "variant", *heads], body)


def calibration(rows: list[Row]) -> str:
    """How many fresh texts of the references' own kind fall below 0.05."""
    body: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row["explainer"] in (FRESH_SAME, FRESH_WHOLE):
            body.setdefault((row["model"], row["references"].replace("_", " "), row["variant"]), []).append(share(row))
    heads = [f"references {form}: {kind}" for form in FORMS for kind in ("texts whole", "texts in the same form")]
    return table(["model", "references", "variant", *heads], [[*key, *cells] for key, cells in body.items()])


def performance(rows: list[Row]) -> str:
    """Accuracy of each model on texts erased at random."""
    columns = [erased(rows, model=name, form="whole", variant="paper", explainer="random") for name in models(rows)]
    body = [
        [f"{line[0]['ratio']:.0%}", *(f"{100 * row['right'] / row['tested']:.1f} %" for row in line)]
        for line in zip(*columns, strict=True)
    ]
    return table(["erased", *models(rows)], body)


def filled(text: str, found: dict[str, str]) -> str:
    """The page with each part between its marks."""

    def written(match: re.Match[str]) -> str:
        return f"<!-- masf:{match[1]} -->\n\n{found[match[1]]}\n\n<!-- /masf -->"

    return re.sub(r"<!-- masf:(\w+) -->.*?<!-- /masf -->", written, text, flags=re.DOTALL)


def plot(rows: list[Row], out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = models(rows)
    figure, axes = pyplot.subplots(
        len(names), len(FORMS), figsize=(12, 3.1 * len(names)), sharex=True, sharey=True, squeeze=False
    )
    for line, name in zip(axes, names, strict=True):
        for axis, form in zip(line, FORMS, strict=True):
            own = erased(rows, model=name, form=form, variant="calibrated")
            for spec in dict.fromkeys(row["explainer"] for row in own):
                curve = [(row["ratio"], row["p"]) for row in own if row["explainer"] == spec]
                axis.plot(*zip(*curve, strict=True), label=spec, marker=".", linewidth=1.2)
            axis.axhline(LEVEL, color="black", linestyle="dashed", linewidth=0.8)
            trained = " (as trained)" if form == as_trained(rows, name) else ""
            axis.set_title(f"{name}, references: {form}{trained}", fontsize=10)
            axis.set_yscale("log")
            axis.set_ylim(0.0005, 1.5)
            axis.grid(alpha=0.3)
        line[0].set_ylabel("p-value of the data set")
    for axis in axes[-1]:
        axis.set_xlabel("share of words masked")
    axes[0][0].legend(fontsize=7, loc="lower left")
    figure.tight_layout()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)


def models(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in rows))


def erased(rows: list[Row], **wanted: str) -> list[Row]:
    """Rows of texts that were erased, compared with the first kind of references, of what is wanted."""
    return [
        row
        for row in rows
        if row["explainer"] not in (FRESH_WHOLE, FRESH_SAME)
        and row["references"] == rows[0]["references"]
        and all(row[name] == value for name, value in wanted.items())
    ]


def distinct(cases: list[Row]) -> list[Row]:
    """Whole and completely masked texts are one input each, whichever explainer chose the order."""
    return list({(row["ratio"], row["explainer"] if 0 < row["ratio"] < 1 else ""): row for row in cases}.values())


def as_trained(rows: list[Row], name: str) -> str:
    """The form of the references that is the training's own."""
    trained: str = next(row["trained"] for row in rows if row["model"] == name)
    return trained.partition(" ")[0]


def number(p: float) -> str:
    return f"**{p:.3f}**" if p < LEVEL else f"{p:.3f}"


def share(row: Row) -> str:
    return f"{100 * row['below'] / row['tested']:.1f} %"


def table(heads: list[str], body: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
