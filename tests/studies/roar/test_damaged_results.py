"""A result.json of ROAR that is not what was written is set aside, and its training alone is done again."""

import json
import shutil
import warnings

import pytest
from tests.studies.roar.planted import OPTIONS, base, splits

from troth.studies.roar.once import roar


def run(folder):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = roar(
            splits(40), base(folder), ["input_x_gradient"], folder / "run", seeds=(0,), step=0.25,
            **{**OPTIONS, "epochs": 4},
        )  # fmt: skip
    said = [str(one.message) for one in caught if "set aside" in str(one.message)]
    results = {file: json.loads(file.read_text()) for file in sorted((folder / "run" / "files").glob("*/result.json"))}
    return {file: result["predicted"] for file, result in results.items()}, found.curves[0].performance.tolist(), said


def forget_rows(folder):
    """As if the run had been killed between its trainings' folders and their rows."""
    for name in ("cells", "segments"):
        shutil.rmtree(folder / "run" / name, ignore_errors=True)


def changed(file, **facts):
    file.write_text(json.dumps({**json.loads(file.read_text()), **facts}))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_damaged_results_are_named_and_made_again(tmp_path):
    *right, _ = run(tmp_path)
    before = {file: file.stat().st_mtime_ns for file in right[0]}
    first, second, third, fourth, fifth, *others = before
    assert others
    assert len({str(predicted) for predicted in right[0].values()}) > 1
    first.write_bytes(first.read_bytes()[:40])
    second.write_text("[]")
    changed(third, predicted=json.loads(third.read_text())["predicted"][1:])
    changed(fourth, predicted=[7] * 60)
    changed(fifth, seed=5)
    forget_rows(tmp_path)
    *again, said = run(tmp_path)
    assert again == right
    for file, why in ((first, "not JSON"), (second, "must be a table"), (third, "its predictions"),
                      (fourth, "its predictions"), (fifth, "another training")):  # fmt: skip
        assert any(str(file) in line and why in line for line in said), why
        assert (tmp_path / "run" / "damaged" / file.parent.name).is_dir()
    assert all(file.stat().st_mtime_ns == before[file] for file in others)
