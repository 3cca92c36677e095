"""A small run, stored without asking a model: what a report shows of it can be worked out by hand."""

import itertools

import numpy as np
from tests.test_seeds import SETTING, run

from troth.core import catalog
from troth.core.types import Example, Score
from troth.store.cells import Cell
from troth.store.specs import CHECKS, EXPLANATIONS
from troth.store.tables import examples_to_table, scores_to_table

CURVED = "aopc_comprehensiveness"
HOSTILE = "</script><script>alert(1)</script>"


def spans(text):
    """Every run of letters is a unit."""
    starts, cursor = [], 0
    for word in text.split(" "):
        starts.append((cursor, cursor + len(word)))
        cursor += len(word) + 1
    return starts


def explanation(example, scores, probabilities=(0.2, 0.8), target=1, label=None, signed=True):
    placed = spans(example.text)
    return {
        "example_id": example.id, "starts": [start for start, _ in placed], "ends": [end for _, end in placed],
        "segments": [0] * len(placed), "scores": scores, "target": target, "signed": signed, "truncated": 0,
        "probabilities": probabilities, "label": example.label if label is None else label, "note": "",
    }  # fmt: skip


def stored(
    folder, examples, by_explainer, curves=None, p_values=None, labels=("bad", "good"), seeds=(0,), lower=0.1, **facts
):
    """`by_explainer`: rows of explanations; `curves`: explainer -> a score per example, whose last probability each
    further seed has `lower`."""
    store = run(folder, models={"m": {"fingerprint": "f", "labels": list(labels)}})
    data = Cell("data", {"data": "d", "data_fingerprint": "g"})
    store.write(data, examples_to_table(examples))
    for seed, (explainer, rows) in itertools.product(seeds, by_explainer.items()):
        specs = {**SETTING, "explainer": explainer, "seed": seed}
        cell = Cell("explanation", specs, (data.name,))
        store.write(cell, EXPLANATIONS.empty_table().from_pylist(rows, schema=EXPLANATIONS), facts or None)
        for metric, scores in (curves or {}).get(explainer, {}).items():
            full = catalog.spec(catalog.build("metrics", metric), full=True)
            measured = Cell("metric", {**specs, "metric": metric, "metric_full": full}, (cell.name,))
            own = scores if seed == seeds[0] else [_lowered(score, lower * seed) for score in scores]
            store.write(measured, scores_to_table([example.id for example in examples], own))
    if p_values is not None:
        about = {key: SETTING[key] for key in ("model", "model_fingerprint", "data", "data_fingerprint", "units")}
        rows = [
            {"example_id": example.id, "ratio": ratio, "p": p, "smallest": 0.001, "why": ""}
            for example, by_ratio in zip(examples, p_values, strict=True)
            for ratio, p in by_ratio.items()
        ]
        check = Cell("check", {**about, "masking": "mask_token", "step": 0.5, "seed": 0}, (data.name,))
        store.write(check, CHECKS.empty_table().from_pylist(rows, schema=CHECKS))
    return store


def _lowered(score, by):
    record = score.record
    return erased(record["p_full"], [*record["p_erased"][:-1], record["p_erased"][-1] - by], record["counts"])


def erased(full, left, counts=(0, 0, 0, 1, 2)):
    """What aopc_comprehensiveness keeps of one example."""
    record = {"ratios": [0.01, 0.05, 0.1, 0.2, 0.5], "counts": list(counts), "p_full": full, "p_erased": left}
    return Score(float(np.mean(full - np.array(left))), record)


def three(folder, **options):
    """Three texts, two explainers that agree on two of them, and random."""
    examples = [
        Example("a", "great old film 🎬 indeed", label=1),
        Example("b", "awful plot again here now", label=0),
        Example("c", f"{HOSTILE} one two three four", label=1),
    ]
    ordered, turned = [5.0, 1.0, 2.0, -3.0, 0.5], [0.5, 4.0, 1.0, 2.0, 3.0]
    wrong = {"probabilities": (0.2, 0.8), "target": 1}  # of b, whose class is 0
    by_explainer = {
        "gradient": [explanation(one, ordered, **wrong) for one in examples],
        "lime": [explanation(one, turned if one.id == "c" else ordered, **wrong) for one in examples],
        "random": [explanation(one, [0.1, 0.2, 0.3, 0.4, 0.5], **wrong, signed=False) for one in examples],
    }
    strong = [erased(0.8, [0.8, 0.8, 0.8, 0.4, 0.2]) for _ in examples]
    weak = [erased(0.8, [0.8, 0.8, 0.8, 0.8, 0.6]) for _ in examples]
    curves = {"gradient": {CURVED: strong}, "lime": {CURVED: strong}, "random": {CURVED: weak}}
    p_values = [{0.0: 0.9, 0.5: 0.8}, {0.0: 0.01, 0.5: 0.02}, {0.0: 0.5, 0.5: 0.5}]
    return stored(folder, examples, by_explainer, curves, p_values, **options)
