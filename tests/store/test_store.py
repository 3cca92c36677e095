import errno
import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from troth.core import files
from troth.core.errors import TrothError
from troth.core.files import CannotWriteError
from troth.store import compaction, segments
from troth.store.cells import FORMAT_VERSION, Cell
from troth.store.query import query
from troth.store.specs import EXPLANATIONS
from troth.store.store import Store, open_run


def metric(number: int) -> Cell:
    return Cell("metric", {"metric": "sufficiency", "seed": number}, ("parent",))


def rows(number: int, count: int = 3) -> pa.Table:
    return pa.table(
        {"example_id": [str(row) for row in range(count)], "value": [number + row / 8 for row in range(count)]}
    )


def filled(folder, count=12) -> Store:
    store = Store(folder)
    store.note(command="test")
    for number in range(count):
        store.write(metric(number), rows(number), {"seconds": 0.5, "forward": 7, "backward": 2})
    return store


def values(store: Store) -> dict[int, list[float]]:
    return {cell.specs["seed"]: store.table(cell.name).column("value").to_pylist() for cell in store.cells()}


EXPECTED = {number: [number, number + 0.125, number + 0.25] for number in range(12)}


def test_what_is_written_is_read_back(tmp_path):
    store = Store(tmp_path / "run")
    cell = metric(4)
    assert not store.has(cell.name)
    store.write(cell, rows(4), {"seconds": 1.5, "forward": 10, "backward": 4})
    for seen in (store, Store(tmp_path / "run")):
        assert seen.has(cell.name)
        (stored,) = seen.cells()
        assert (stored.name, stored.kind, stored.specs, stored.parents) == (
            cell.name,
            "metric",
            cell.specs,
            ("parent",),
        )
        assert (stored.rows, stored.seconds, stored.forward, stored.backward, stored.error) == (3, 1.5, 10, 4, "")
        assert seen.table(cell.name).equals(rows(4))


def test_failed_cells_keep_their_error_until_they_succeed(tmp_path):
    store = Store(tmp_path / "run")
    store.fail(metric(1), "it broke", "line 1\nline 2", {"seconds": 0.25})
    (failed,) = Store(tmp_path / "run").cells()
    assert (failed.error, failed.traceback, failed.seconds, failed.specs["seed"]) == (
        "it broke",
        "line 1\nline 2",
        0.25,
        1,
    )
    assert not store.has(metric(1).name)
    store.write(metric(1), rows(1))
    (stored,) = store.cells()
    assert stored.error == ""
    assert store.failed() == []


def test_compacting_changes_nothing_but_the_files(tmp_path):
    store = filled(tmp_path / "run")
    store.write(Cell("training", {"recipe": "plain"}), pa.table({"epoch": [1], "loss": [0.5]}))
    store.write(Cell("check", {"empty": True}), pa.table({"p": pa.array([], pa.float64())}))
    before = sorted(store.cells(), key=lambda cell: cell.name)
    store.compact()
    assert not list((tmp_path / "run" / "cells").glob("*.parquet"))
    assert len(list((tmp_path / "run" / "segments").glob("*.parquet"))) == 3
    for seen in (store, Store(tmp_path / "run")):
        assert sorted(seen.cells(), key=lambda cell: cell.name) == before
        assert values_of_metrics(seen) == EXPECTED
    assert store.table(Cell("check", {"empty": True}).name).num_rows == 0
    assert store.table(Cell("training", {"recipe": "plain"}).name).column("loss").to_pylist() == [0.5]


def values_of_metrics(store):
    cells = [cell for cell in store.cells() if cell.kind == "metric"]
    return {cell.specs["seed"]: store.table(cell.name).column("value").to_pylist() for cell in cells}


def test_small_segments_are_joined_and_large_ones_left(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "MAX_CELLS", 10)
    store = filled(tmp_path / "run", count=3)
    store.compact()
    for number in range(3, 12):
        store.write(metric(number), rows(number))
        if number % 2:
            store.compact()
    assert values(Store(tmp_path / "run")) == EXPECTED
    counts = sorted(len(segment.facts) for segment in store.segments())
    assert sum(counts) == 12
    assert all(count <= 10 for count in counts)
    assert len(counts) <= 3


def test_cells_across_row_groups_are_cut_right(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "_ROWS", 5)
    store = filled(tmp_path / "run")
    store.compact()
    assert values(store) == EXPECTED


def test_killed_between_joining_and_tidying_counts_nothing_twice(tmp_path):
    store = filled(tmp_path / "run")
    shutil.copytree(tmp_path / "run" / "cells", tmp_path / "kept")
    store.compact()
    for file in (tmp_path / "kept").glob("*.parquet"):
        shutil.copy(file, tmp_path / "run" / "cells")
    again = Store(tmp_path / "run")
    assert len(again.cells()) == 12
    assert query(again, "select count(*) n from scores").to_pylist() == [{"n": 36}]
    again.compact()
    assert query(again, "select count(*) n, sum(value) s from scores").to_pylist() == [{"n": 36, "s": 202.5}]


def test_two_segments_with_the_same_cell_count_it_once(tmp_path):
    store = filled(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    store.compact()
    other = Store(tmp_path / "other")
    other.write(metric(12), rows(12))
    other.compact()
    for file in (tmp_path / "other" / "segments").iterdir():
        shutil.copy(file, tmp_path / "run" / "segments")
    both = Store(tmp_path / "run")
    assert len(both.segments()) == 2
    assert len(both.cells()) == 13
    assert query(both, "select count(*) n from scores").to_pylist() == [{"n": 39}]


def test_another_process_may_compact_meanwhile(tmp_path):
    stale = filled(tmp_path / "run")
    stale.cells()
    Store(tmp_path / "run").compact()
    assert stale.table(metric(5).name).equals(rows(5))
    assert values(stale) == EXPECTED
    late = Store(tmp_path / "run")
    late.write(metric(12), rows(12))
    late.compact()  # merges the segment that `stale` knows
    assert stale.table(metric(6).name).equals(rows(6))
    assert stale.has_now(metric(12).name)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-200])


def cut_to_nothing(path):
    path.write_bytes(b"")


def flipped(path):
    data = bytearray(path.read_bytes())
    data[20] ^= 0x40  # in the first data page
    path.write_bytes(bytes(data))


def foreign(path):
    pq.write_table(pa.table({"somebody": ["else's"]}), path)


def text(path):
    path.write_text("not Parquet at all")


def misnamed(path):
    twin = next(other for other in path.parent.iterdir() if other != path)
    shutil.copy(twin, path)


@pytest.mark.parametrize("harm", [truncated, cut_to_nothing, flipped, foreign, text, misnamed])
def test_a_damaged_cell_is_named_and_missing(tmp_path, harm):
    store = filled(tmp_path / "run")
    victim = tmp_path / "run" / "cells" / f"{metric(7).name}.parquet"
    harm(victim)
    again = Store(tmp_path / "run")
    (note,) = again.check()
    assert str(victim) in note
    assert "computed again" in note
    assert not again.has(metric(7).name)
    assert values(again) == {number: value for number, value in EXPECTED.items() if number != 7}
    assert [file.name for file in (tmp_path / "run" / "damaged").iterdir()] == [victim.name]
    assert again.check() == []
    del store


@pytest.mark.parametrize("harm", [truncated, cut_to_nothing, flipped, foreign, text])
def test_a_damaged_segment_is_named_and_missing(tmp_path, harm):
    store = filled(tmp_path / "run")
    store.compact()
    (victim,) = (tmp_path / "run" / "segments").iterdir()
    harm(victim)
    again = Store(tmp_path / "run")
    (note,) = again.check()
    assert str(victim) in note
    assert again.cells() == []


def test_one_repair_and_one_check_leave_nothing_damaged(tmp_path):
    """An error noted of a cell that is there counts once the cell is found damaged, and may be damaged itself."""
    store = filled(tmp_path / "run", count=2)
    store.compact()
    store.fail(metric(0), "it broke")
    (segment,) = (tmp_path / "run" / "segments").iterdir()
    (noted,) = (tmp_path / "run" / "failed").iterdir()
    flipped(segment)
    noted.write_text("not JSON")
    again = Store(tmp_path / "run")
    assert len(again.repair() + again.check()) == 2
    assert Store(tmp_path / "run").repair() + Store(tmp_path / "run").check() == []


def test_one_check_finds_both_of_a_cell_that_lies_twice(tmp_path):
    store = filled(tmp_path / "run", count=1)
    store.compact()
    (segment,) = (tmp_path / "run" / "segments").iterdir()
    store.write(metric(0), rows(0))
    flipped(segment)
    flipped(tmp_path / "run" / "cells" / f"{metric(0).name}.parquet")
    assert len(Store(tmp_path / "run").check()) == 2
    assert Store(tmp_path / "run").check() == []


def test_a_cell_written_again_is_read_before_its_damaged_segment_is_set_aside(tmp_path):
    store = filled(tmp_path / "run", count=1)
    store.compact()
    (segment,) = (tmp_path / "run" / "segments").iterdir()
    flipped(segment)
    again = Store(tmp_path / "run")
    again.write(metric(0), rows(0))
    assert again.table(metric(0).name).column("value").to_pylist() == EXPECTED[0]


def test_sound_cells_of_a_damaged_segment_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "_ROWS", 9)  # three cells a row group
    store = filled(tmp_path / "run")
    store.compact()
    (victim,) = (tmp_path / "run" / "segments").iterdir()
    flipped(victim)
    (note,) = Store(tmp_path / "run").check()
    assert "9 of its cells are sound and kept, 3 cells are computed again" in note
    again = Store(tmp_path / "run")
    assert len(again.cells()) == 9
    assert all(EXPECTED[number] == value for number, value in values(again).items())


def test_every_flipped_bit_of_a_file_is_noticed(tmp_path):
    filled(tmp_path / "run", count=2)
    path = tmp_path / "run" / "cells" / f"{metric(1).name}.parquet"
    whole = path.read_bytes()
    unnoticed = []
    for position in range(0, len(whole), 7):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        store = Store(tmp_path / "run")
        if not store.check():
            unnoticed.append(position)
    assert unnoticed == []


def test_reading_a_damaged_file_says_which(tmp_path):
    store = filled(tmp_path / "run")
    store.compact()
    (victim,) = (tmp_path / "run" / "segments").iterdir()
    flipped(victim)
    with pytest.raises(TrothError, match=f"{victim.name} is damaged .* run the same command again"):
        store.table(metric(0).name)


def test_a_full_disk_loses_nothing_finished(tmp_path, monkeypatch):
    store = filled(tmp_path / "run")

    def full(_handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(CannotWriteError, match="the disk is full \\(No space left on device\\)"):
        store.write(metric(12), rows(12))
    with pytest.raises(CannotWriteError):
        store.compact()
    monkeypatch.undo()
    again = Store(tmp_path / "run")
    assert values(again) == EXPECTED
    assert not list((tmp_path / "run").rglob(".*"))
    again.compact()
    assert values(again) == EXPECTED


def test_litter_of_killed_processes_is_removed_when_it_is_old(tmp_path):
    store = filled(tmp_path / "run")
    old, new = (tmp_path / "run" / "cells" / name for name in (".old.parquet.1", ".new.parquet.2"))
    for path in (old, new):
        path.write_bytes(b"half a fi")
    os.utime(old, (1, 1))
    store.compact()
    assert not old.exists()
    assert new.exists()


def test_ten_thousand_explanations_of_thirty_words_are_small(tmp_path):
    generator = np.random.default_rng(0)
    ends = [np.cumsum(generator.integers(2, 10, 30)) for _ in range(10_000)]
    table = pa.table(
        {
            "example_id": [f"example-{number}" for number in range(10_000)],
            "starts": [end - 1 for end in ends],
            "ends": ends,
            "segments": [np.zeros(30, np.int8)] * 10_000,
            "scores": [generator.normal(size=30).astype(np.float32) for _ in range(10_000)],
            "target": generator.integers(0, 2, 10_000),
            "against": [None] * 10_000,
            "signed": [True] * 10_000,
            "rest": generator.normal(size=10_000),
            "gap": generator.normal(size=10_000),
            "truncated": [0] * 10_000,
            "probabilities": [generator.random(2) for _ in range(10_000)],
            "label": generator.integers(0, 2, 10_000),
            "note": [""] * 10_000,
        },
        schema=EXPLANATIONS,
    )
    store = Store(tmp_path / "run")
    store.write(Cell("explanation", {"explainer": "lime"}), table)
    store.compact()
    size = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*.parquet"))
    assert size < 20e6
    assert store.table(Cell("explanation", {"explainer": "lime"}).name).equals(table)


def test_run_json_grows(tmp_path):
    store = Store(tmp_path / "run")
    assert store.about() is None
    store.note(models={"a": {"fingerprint": "1"}}, seeds=[0, 1], command="one")
    store.note(models={"b": {"fingerprint": "2"}}, seeds=[1, 2], command="two")
    about = Store(tmp_path / "run").about()
    assert about.pop("created")
    models = {"a": {"fingerprint": "1"}, "b": {"fingerprint": "2"}}
    assert about == {"format": FORMAT_VERSION, "models": models, "seeds": [0, 1, 2], "command": "two"}


def test_a_newer_format_is_refused(tmp_path):
    filled(tmp_path / "run", 1)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**about, "format": FORMAT_VERSION + 1}))
    with pytest.raises(TrothError, match=f"format {FORMAT_VERSION + 1}, of a newer version of troth.*update troth"):
        Store(tmp_path / "run")


def test_a_folder_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "photographs").mkdir()
    (tmp_path / "photographs" / "one.jpg").write_text("")
    with pytest.raises(TrothError, match="is not a run"):
        Store(tmp_path / "photographs")
    with pytest.raises(TrothError, match="is a file"):
        Store(tmp_path / "photographs" / "one.jpg")


def test_an_unknown_run_is_told_with_the_nearest(tmp_path):
    filled(tmp_path / "runs" / "reviews", 1)
    filled(tmp_path / "runs" / "boolq", 1)
    assert open_run("reviews", tmp_path / "runs").has(metric(0).name)
    assert open_run(tmp_path / "runs" / "reviews").has(metric(0).name)
    with pytest.raises(
        TrothError, match="no run is called 'reveiws'; did you mean reviews\\? there are: boolq, reviews"
    ):
        open_run("reveiws", tmp_path / "runs")


def test_a_damaged_run_json_is_one_line_and_hides_no_results(tmp_path):
    filled(tmp_path / "run", 1)
    (tmp_path / "run" / "run.json").write_text('{"format": 1')
    store = Store(tmp_path / "run")
    assert values(store) == {0: EXPECTED[0]}
    with pytest.raises(TrothError, match=r"run\.json is damaged \(not JSON: .*run the same command again"):
        store.about()


def test_a_run_json_of_somebody_elses_is_left_alone(tmp_path):
    (tmp_path / "run.json").write_text('{"name": "a project"}')
    with pytest.raises(
        TrothError, match=r"is not a run: its run\.json is not troth's \(format is missing\); name a new"
    ):
        Store(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_run_of_an_earlier_format_is_read_but_not_continued(tmp_path):
    store = Store(tmp_path / "run")
    store.note(seeds=[0])
    file = tmp_path / "run" / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": FORMAT_VERSION - 1}))
    before = file.read_bytes()
    assert Store(tmp_path / "run").about()["seeds"] == [0]
    with pytest.raises(
        TrothError, match="an earlier version of troth: it can be read, but not continued; choose a new folder"
    ):
        Store(tmp_path / "run").note(seeds=[1])
    assert file.read_bytes() == before
