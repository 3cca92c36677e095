"""Every long command killed with -9 at random moments, here and on Ray, ends with what a run left alone comes to.

TROTH_KILLS=3 makes the long tests kill three times each, not twenty.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings

import pytest
from safetensors.torch import load_file
from tests.studies.roar.planted import OPTIONS, base, splits

from kills import begun, command, survives
from troth.attribution_model import saving
from troth.store.query import query
from troth.store.store import Store

KILLS = int(os.environ.get("TROTH_KILLS", "20"))
SCORES = "select explainer, metric, seed, example_id, value from scores order by all"
EXPLAINERS = ["random", "gradient", "leave_one_out", "lime(samples=20)", "integrated_gradients(steps=3)"]
METRICS = ["comprehensiveness", "sparsity", "sufficiency"]
PLAN = f"""models = ["model"]
data = ["data.jsonl"]
explainers = {EXPLAINERS}
metrics = {METRICS}
seeds = [0, 1]
"""
BASE = "scratch(layers=1, hidden=8, heads=2, dropout=0.0)"
FILMS = ["--data", "films", "--base", BASE, "--batch-size", "8"]
COMMANDS = {
    "bench": [
        "bench", "-m", "model", "-d", "data.jsonl", *(part for name in EXPLAINERS for part in ("-e", name)),
        *(part for name in METRICS for part in ("--metrics", name)), "--seed", "0", "--seed", "1", "--workers", "1",
    ],
    "sweep": ["sweep", "plan.toml", "--workers", "2"],
    "train": ["train", "masked", *FILMS, "--epochs", "6"],
    "fit": [
        "fit", "attributive_masking", "-m", "model", "-d", "data.jsonl", "--backbone", "explained", "--search", "sobol",
        "--metric", "comprehensiveness", "--metric", "sufficiency", "--examples", "20", "--validation", "8",
        "--epochs", "1", "--trials", "3", "--trial-examples", "10", "--trial-epochs", "1",
    ],
    "study": [
        "study", "saloss(epochs=1, batch_size=16, examples=6)", "--only", "performance", *FILMS[:4], "--seeds", "2",
        "--workers", "1", "--json",
    ],
    "fresh": ["fresh", *FILMS, "--epochs", "1", "--seeds", "1", "--workers", "1", "--json"],
}  # fmt: skip


@pytest.fixture
def place(tmp_path, models, room):
    """A folder with a model, data in one file and in three splits, and a plan."""
    shutil.copytree(models / "model", tmp_path / "model")  # a link out of the plan's folder would be refused
    (tmp_path / "data.jsonl").write_bytes((room / "data.jsonl").read_bytes())
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "films").mkdir()
    for split, count in (("train", 40), ("validation", 10), ("test", 12)):
        rows = [
            {"id": f"{split}-{n}", "text": f"the film {n} is {('awful', 'great')[n % 2]} in {split}", "label": n % 2}
            for n in range(count)
        ]
        (tmp_path / "films" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def scores(place):
    store = Store(place / "run")
    assert store.repair() + store.check() == []
    return query(store, SCORES).to_pylist()


def trained(place):
    """The weights, the report without its times, and nothing else but a tokenizer."""
    report = json.loads((place / "run" / "train.json").read_text())
    names = sorted(path.name for path in (place / "run").iterdir())
    weights = load_file(place / "run" / "model.safetensors")
    return report["scores"], report["history"], names, {name: value.tolist() for name, value in weights.items()}


def fitted(place):
    found = [sorted(path.name for path in (place / "run").iterdir())]
    for metric in ("comprehensiveness", "sufficiency"):
        facts = saving.facts(place / "run" / metric)
        weights = load_file(place / "run" / metric / "attributive.safetensors")
        found.append({name: facts[name] for name in ("loss", "best_step", "scores", "history", "search", "identity")})
        found.append({name: value.tolist() for name, value in weights.items()})
    return found


def printed(place):
    """What was said, and the rows of all cells but for the time they took."""
    said = json.loads((place / "out").read_text())
    return said, rows(place / "run")


def rows(folder):
    store = Store(folder)
    assert store.repair() + store.check() == []
    timed = ("seconds", "predicted_seconds")
    tables = {name: store.table(name) for name in sorted(store.names())}
    return {
        name: table.drop_columns([column for column in timed if column in table.column_names]).to_pylist()
        for name, table in tables.items()
    }


RESULTS = {"bench": scores, "sweep": scores, "train": trained, "fit": fitted, "study": printed, "fresh": printed}


def check(place, name, kills, *more):
    arguments = [*COMMANDS[name], *more, "--out", "run"]
    survives(lambda: begun(command, arguments, place), place / "run", lambda: RESULTS[name](place), kills)


@pytest.mark.full
@pytest.mark.parametrize("name", ["train", "study"])
def test_two_kills(place, name):
    check(place, name, 2)


@pytest.mark.full
@pytest.mark.parametrize("name", COMMANDS)
def test_many_kills(place, name):
    check(place, name, KILLS)


@pytest.mark.full
@pytest.mark.parametrize("name", ["bench", "sweep"])
def test_many_kills_on_ray(place, name):
    pytest.importorskip("ray")
    check(place, name, KILLS, "--engine", "ray")


def retrain(folder):
    from troth.studies.roar.recursive import recursive_roar

    warnings.simplefilter("ignore")
    recursive_roar(
        splits(60), base(folder), ["input_x_gradient", "attention"], folder / "run", seeds=(0, 1), step=0.25,
        **{**OPTIONS, "epochs": 2},
    )  # fmt: skip


@pytest.mark.full
def test_kills_of_recursive_roar(tmp_path):
    survives(lambda: begun(retrain, tmp_path), tmp_path / "run", lambda: rows(tmp_path / "run"), KILLS)
