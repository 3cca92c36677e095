"""Are masked inputs in distribution for models that were fine-tuned with masking, and for their plain twins?

Erases the same texts in the order of several explainers and writes MaSF's p-values as rows: by model, form of
the references (whole, every second masked as in masked fine-tuning, all masked), variant of MaSF, explainer and share
erased. `show_masf.py` recomputes from those rows every number and the figure of `docs/papers/masf/results.md`.

Data sets are read from the folder TROTH_DATA. A model is "embedded" or a folder that `troth train` wrote.

    python scripts/models/embedded/measure_masf.py docs/papers/masf/results/rows.csv --models embedded plain=runs/plain
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import show_masf  # beside this file
from show_masf import FORMS, FRESH_SAME, FRESH_WHOLE, Row

from troth.core import catalog
from troth.core.types import Question
from troth.data import Data, load_data
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.metrics._erasing import recursively_erased
from troth.models import load_model
from troth.training.record import record_of
from troth.validity.checking import LEVEL
from troth.validity.masf import FEWEST, HIDDEN_STATES, MaSF, data_set_p_value, largest, reference_views
from troth.validity.references import MOST, held_out
from troth.verbs.explain import explanation

POINTS = range(0, 10_001, 1000)
EXPLAINERS = (
    "random", "gradient", "input_x_gradient", "integrated_gradients", "deep_lift", "attention", "leave_one_out",
)  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {
    "calibrated": {"over_hidden": "fisher", "self_included": False},  # as troth check does
    "paper": {},
    "left_out": {"self_included": False},
}
COLUMNS = ["model", "trained", "references", "count", "form", "variant", "floor", "explainer", "ratio", "tested", "p",
           "below", "right", "seed", "example_id"]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="csv to write")
    parser.add_argument("--models", nargs="+", default=["embedded"], help="embedded, or name=FOLDER")
    parser.add_argument("--tested", default="sst2:validation", help="data:split whose texts are erased")
    parser.add_argument(
        "--references",
        nargs="+",
        default=["held_out"],
        help="held_out (of each model's own training) or data:split; the first with all explainers, others with random",
    )
    parser.add_argument("--limit", type=int, default=None, help="test at most so many texts")
    parser.add_argument("--most", type=int, default=MOST, help="references at most")
    parser.add_argument("--explainers", nargs="+", default=EXPLAINERS)
    parser.add_argument("--device", default=None)
    options = parser.parse_args()
    measure(options)
    print(show_masf.forms(show_masf.read(options.rows)))


def measure(options: argparse.Namespace) -> None:
    """One model after another; the rows are written after every explainer."""
    tested = load(options.tested, options.limit)
    rows: list[Row] = []
    for named in options.models:
        name, _, source = named.rpartition("=")
        model = load_model(source, device=options.device)
        about = {"model": name or source, "trained": trained(model)}
        fitted = list(fits(model, options, tested, about, rows))
        encodings = model.encode(tested)
        gold = np.array([example.label for example in tested])
        for spec in options.explainers:
            start = time.time()
            layers, answers = seen(model, spec, encodings)
            right = (answers == gold[:, None]).sum(0)
            for told, one in fitted:
                if spec != "random" and (told["references"] != options.references[0] or told["variant"] == "left_out"):
                    continue
                p = one.p_values_of(layers).reshape(len(tested), -1)
                for place, point in enumerate(POINTS):
                    cell = {"explainer": spec, "ratio": point / 10_000, "right": int(right[place])}
                    rows.append({**told, **cell, **outcome(p[:, place])})
            write(options.rows, rows)
            print(f"{about['model']} {spec}: {time.time() - start:.0f} s", flush=True)


def fits(model: Any, options: argparse.Namespace, tested: Data, about: Row, rows: list[Row]) -> Iterator[Any]:
    """MaSF of every source and form of references and every variant; rows of fresh texts come first."""
    for source in options.references:
        known, fresh = drawn(model, source, tested, options.most)
        encodings, others = (model.encode(part, "token", "both") for part in (known, fresh))
        prober = Prober(model, about["trained"].partition(" ")[2] or "mask_token")
        whole = reference_views(prober, others, 0.0) if len(fresh) else []
        for form, share in FORMS.items():
            references = reference_views(prober, encodings, share)
            same = reference_views(prober, others, share) if len(fresh) else []
            for variant, chosen in VARIANTS.items():
                fitted = MaSF.fit_layers(references, **chosen)
                told = {**about, "references": source, "count": len(known), "form": form, "variant": variant,
                        "floor": fitted.smallest}  # fmt: skip
                for kind, layers in ((FRESH_WHOLE, whole), (FRESH_SAME, same)):
                    if len(fresh):
                        rows.append({**told, "explainer": kind, "ratio": 0.0, **outcome(fitted.p_values_of(layers))})
                yield told, fitted


def drawn(model: Any, source: str, tested: Data, most: int) -> tuple[Data, Data]:
    """References, and as many fresh texts of their kind, none of them among the tested ones."""
    if source == "held_out":
        own, why = held_out(model)
        if own is None:
            raise SystemExit(f"{why or model.name + ' has no train.json'}; pass --references data:split")
    else:
        own = load(source)
    texts = {(example.text, example.text_pair) for example in tested}
    others = [example for example in own if (example.text, example.text_pair) not in texts]
    if len(others) < FEWEST:
        raise SystemExit(f"{len(others)} texts of {source} are not among the tested ones, MaSF needs {FEWEST}: for "
                         f"{model.name}, choose other --references, or train it with --hold-out 0.05")  # fmt: skip
    order = np.random.default_rng(0).permutation(len(others))
    most = min(most, len(others))
    pick = [[others[int(place)] for place in part] for part in (order[:most], order[most : 2 * most])]
    return replace(own, examples=pick[0]), replace(own, examples=pick[1])


def trained(model: Any) -> str:
    """The form of its training examples and the masking of it: "half mask_token", "whole"."""
    record = record_of(model)
    share = record.masked_share if record is not None else 0.0
    form = next(form for form, known in FORMS.items() if known == share)
    return f"{form} {record.masking}" if record is not None and share else form


def seen(model: Any, spec: str, encodings: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Hidden states [texts × points, hidden] per layer, and answers [texts, points], as texts are erased."""
    prober = Prober(model)
    explainer = catalog.build("explainers", spec).prepare(prober, encodings)

    def ask(encoding: Any) -> Any:
        attribution = yield from explanation(model, explainer, encoding, target="predicted", seed=0)
        question: Question = attribution.question
        left = yield from recursively_erased(
            question, attribution, explainer.ask, prober.masking, POINTS, not explainer.recursive
        )
        answer = yield Probe(question, left, readout=HIDDEN_STATES)
        return largest(answer), answer.predicted.numpy()

    found = list(prober.run(ask(encoding) for encoding in encodings))
    layers = [np.concatenate(layer) for layer in zip(*(view for view, _ in found), strict=True)]
    return layers, np.stack([answers for _, answers in found])


def outcome(p: np.ndarray) -> Row:
    return {"tested": len(p), "p": data_set_p_value(p), "below": int((p < LEVEL).sum())}


def load(source: str, limit: int | None = None) -> Data:
    name, _, split = source.partition(":")
    return load_data(name, split=split or None, limit=limit)


def write(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            plain = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
            writer.writerow({**plain, "seed": 0, "example_id": "all"})  # a p-value is of all texts together


if __name__ == "__main__":
    main()
