"""`troth verify RUN`: seals, the chain of cells, and a sample of them computed again; and reports of edited runs."""

import json
import shutil

import pyarrow as pa
import pytest

import fakes
import troth as library
from troth.attribution_model import saving
from troth.core import trust
from troth.core.errors import TrothError
from troth.store import segments
from troth.store.cells import FORMAT_VERSION
from troth.store.compaction import write_segment
from troth.store.segments import Segment, pack
from troth.store.store import Store
from troth.sweep.verify_run import verify_run

ASKED = {"explainers": ["leave_one_out", "gradient"], "metrics": ["comprehensiveness", "sufficiency"]}


def data(start=0):
    texts = enumerate(fakes.CORPUS[start : start + 3])
    return library.data.Data(f"films{start or ''}", [library.Example(str(place), text) for place, text in texts])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, a run of it, and a run of other data."""
    folder = tmp_path_factory.mktemp("place")
    fakes.hf_model().save_pretrained(folder / "model")
    fakes.wordpiece().save_pretrained(folder / "model")
    for name, start in (("run", 0), ("other", 3)):
        library.bench(str(folder / "model"), data(start), out=folder / name, progress=False, **ASKED)
    return folder


@pytest.fixture
def run(place, tmp_path):
    """A copy of the run, whose model lies elsewhere: who verifies it names that folder."""
    with trust.allowing(str(place)):
        yield shutil.copytree(place / "run", tmp_path / "run")


def cells(folder, kind):
    """Every cell of a kind, as (facts, rows)."""
    return [
        (dict(facts), segment.table(position))
        for segment in Store(folder).segments()
        for position, facts in enumerate(segment.facts)
        if facts["kind"] == kind
    ]


def sealed_again(folder, kind, edit):
    """Puts edited cells in the place of those of a kind, in a file whose seal and name fit."""
    found = [edit(facts, rows) for facts, rows in cells(folder, kind)]
    for path in folder.glob(f"segments/{kind}-*.parquet"):
        path.unlink()
    write_segment(folder, found)


def column(rows, name, edit):
    values = [edit(value) for value in rows.column(name).to_pylist()]
    return rows.set_column(rows.column_names.index(name), name, pa.array(values, rows.schema.field(name).type))


def better(name):
    def edit(facts, rows):
        if facts["specs"]["explainer"] != name:
            return facts, rows
        return facts, column(rows, "value", lambda value: value + 0.3)

    return edit


def with_specs(**changes):
    def edit(facts, rows):
        return {**facts, "specs": {**facts["specs"], **changes}}, rows

    return edit


def in_run_file(edit):
    def attack(folder, place):
        about = json.loads((folder / "run.json").read_text())
        edit(about)
        (folder / "run.json").write_text(json.dumps(about))

    return attack


def raw(old, new):
    """Replaces bytes of a file without sealing it again."""

    def attack(folder, place):
        path = next(folder.glob("segments/metric-*.parquet"))
        content = path.read_bytes()
        place_of = {"middle": len(content) // 2, "start": 8, "end": len(content) - 20}[old]
        changed = bytes([content[place_of] ^ 1]) if new is None else new
        path.write_bytes(content[:place_of] + changed + content[place_of + 1 :])

    return attack


def truncated(folder, place):
    path = next(folder.glob("segments/metric-*.parquet"))
    path.write_bytes(path.read_bytes()[:-200])


def resealed(kind, edit):
    return lambda folder, place: sealed_again(folder, kind, edit)


def copied_cell(folder, place):
    """A cell of another run, as it is."""
    source = cells(place / "other", "metric")[0]
    write_fresh(folder, source[0]["name"], *source)


def renamed_cell(folder, place):
    """The rows of another run under the name of one of this run's cells."""
    (facts, rows) = cells(place / "other", "metric")[0]
    own = cells(folder, "metric")[0][0]["name"]
    without(folder, own)
    write_fresh(folder, own, {**facts, "name": own}, rows)


def foreign_rows(folder, place):
    """The facts of this run's cell with the rows of another run's."""
    facts, _ = cells(folder, "metric")[0]
    without(folder, facts["name"])
    write_fresh(folder, facts["name"], facts, cells(place / "other", "metric")[0][1])


def doubled_cell(folder, place):
    """A second version of a cell next to the first."""
    facts, rows = cells(folder, "metric")[0]
    write_segment(folder, [(facts, column(rows, "value", lambda value: value + 0.3))])


def twice_in_a_file(folder, place):
    found = cells(folder, "metric")
    for path in folder.glob("segments/metric-*.parquet"):
        path.unlink()
    write_segment(folder, [*found, found[0]])


def lost_parent(folder, place):
    for path in folder.glob("segments/explanation-*.parquet"):
        path.unlink()


def renamed_file(folder, place):
    path = next(folder.glob("segments/metric-*.parquet"))
    path.rename(path.with_name("metric-" + "0" * 32 + ".parquet"))


def exchanged_rows(folder, place):
    """The column that says whose rows they are names other cells than the footer: SQL would read them so."""
    found = cells(folder, "metric")
    path = next(folder.glob("segments/metric-*.parquet"))
    names = [facts["name"] for facts, _ in found]
    turned = dict(zip(names, [*names[1:], names[0]], strict=True))
    real = segments.pa.repeat

    def repeat(value, count):
        return real(pa.scalar(turned[value.as_py()], pa.string()), count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "pa", type("Arrow", (), {**vars(pa), "repeat": staticmethod(repeat)}))
        content = pack([facts for facts, _ in found], [rows for _, rows in found])
    path.unlink()
    path.with_name(f"metric-{segments.seal_of(content)}.parquet").write_bytes(content)


def without(folder, name):
    """Takes a cell out of its segment."""
    left = [(facts, rows) for facts, rows in cells(folder, "metric") if facts["name"] != name]
    for path in folder.glob("segments/metric-*.parquet"):
        path.unlink()
    write_segment(folder, left)


def write_fresh(folder, name, facts, rows):
    (folder / "cells").mkdir(exist_ok=True)
    (folder / "cells" / f"{name}.parquet").write_bytes(pack([facts], [rows]))


def other_text(facts, rows):
    return facts, column(rows, "text", str.upper)


def other_scores(facts, rows):
    return facts, column(rows, "scores", lambda scores: [-score for score in scores])


def other_probabilities(facts, rows):
    return facts, column(rows, "probabilities", lambda values: values[::-1])


def fewer_rows(facts, rows):
    return {**facts, "rows": rows.num_rows - 1}, rows.slice(1)


def undefined(facts, rows):
    return facts, column(column(rows, "value", lambda _: None), "why", lambda _: "undefined")


ATTACKS = {
    "a byte in the middle": (raw("middle", None), "metric-"),
    "a byte at the start": (raw("start", None), "metric-"),
    "a byte at the end": (raw("end", None), "metric-"),
    "cut off": (truncated, "metric-"),
    "a file renamed": (renamed_file, "it holds another cell than its name says"),
    "better values, sealed": (resealed("metric", better("gradient")), "value was"),
    "undefined values, sealed": (resealed("metric", undefined), "value was None"),
    "other scores, sealed": (resealed("explanation", other_scores), "scores"),
    "other probabilities, sealed": (resealed("explanation", other_probabilities), "probabilities"),
    "other texts, sealed": (resealed("data", other_text), "its examples are not those that its fingerprint names"),
    "fewer rows, sealed": (resealed("metric", fewer_rows), "entries, not 3"),
    "another explainer in the specs": (resealed("metric", with_specs(explainer="mine")), "not what its name says"),
    "another model in the specs": (resealed("metric", with_specs(model_fingerprint="0")), "not what its name says"),
    "a cell of another run": (copied_cell, "which the run does not hold"),
    "a cell of another run, renamed": (renamed_cell, "a cell in it is not what its name says"),
    "rows of another run": (foreign_rows, "example"),
    "a cell in two versions": (doubled_cell, "another version of cell|value was"),
    "a cell twice in a file": (twice_in_a_file, "a cell in it is not what its name says"),
    "rows of other cells": (exchanged_rows, "its rows are not those of its cells"),
    "no explanations": (lost_parent, "which the run does not hold"),
    "another model in run.json": (
        in_run_file(lambda about: next(iter(about["models"].values())).update(fingerprint="0" * 32)),
        "run.json: the model",
    ),
    "other classes in run.json": (
        in_run_file(lambda about: next(iter(about["models"].values())).update(labels=["a", "b", "c"])),
        "run.json says its classes are a, b, c",
    ),
    "no model in run.json": (
        in_run_file(lambda about: about.update(models={"approved": {"fingerprint": "0"}})),
        "run.json does not name its model",
    ),
    "other data in run.json": (
        in_run_file(lambda about: about["data"]["films"].update(fingerprint="0")),
        "run.json: the data films",
    ),
    "another method in run.json": (
        in_run_file(lambda about: about["methods"]["gradient"].update(spec="lime")),
        "run.json: gradient stands for lime",
    ),
}


def test_a_run_holds(run):
    found = verify_run(Store(run), sample=2)
    assert (found.holds, found.faults, found.cells) == (True, (), 10)
    assert 3 <= len(found.computed) <= 4  # two metrics and their explanations
    assert verify_run(Store(run), sample=2).computed == found.computed
    assert verify_run(Store(run), sample=0).computed == ()


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_on_a_run_holds(run, place, name):
    attack, line = ATTACKS[name]
    attack(run, place)
    changed = sorted(path.name for path in run.rglob("*"))
    found = verify_run(Store(run), sample=100)
    assert not found.holds
    assert any(any(part in fault for part in line.split("|")) for fault in found.faults), found.faults
    assert sorted(path.name for path in run.rglob("*")) == changed  # nothing was moved


def test_a_changed_model_does_not_make_the_cells(run, place, tmp_path):
    fakes.hf_model(seed=1).save_pretrained(tmp_path / "model")
    fakes.wordpiece().save_pretrained(tmp_path / "model")
    found = verify_run(Store(run), str(tmp_path / "model"), sample=1)
    assert "the model has changed" in found.faults[0]
    assert verify_run(Store(run), str(place / "model"), sample=1).holds


def test_the_command(run, place, troth, tmp_path):
    code, out, _ = troth("verify", run, "--sample", "1")
    assert code == 0
    assert "the run holds" in out
    assert "A seal (hash) shows whether a file was damaged, not who wrote it." in out
    sealed_again(run, "metric", better("gradient"))
    code, out, _ = troth("verify", run, "--sample", "100", "--json")
    assert code == 1
    assert json.loads(out)["holds"] is False
    assert troth("verify", run, "--sample", "-1")[0] == 2
    assert "--key-file is for records" in troth("verify", run, "--key-file", "key")[2]
    assert "has no run.json" in troth("verify", tmp_path, "--sample", "1")[2]


def test_a_run_of_an_earlier_format_is_neither_verified_nor_continued(run):
    in_run_file(lambda about: about.update(format=FORMAT_VERSION - 1))(run, None)
    with pytest.raises(TrothError, match="an earlier version of troth: it can be read, but not verified"):
        verify_run(Store(run))
    with pytest.raises(TrothError, match="an earlier version of troth: it can be read, but not continued"):
        library.bench(fakes.encoder(), data(), out=run, progress=False, **ASKED)


@pytest.mark.parametrize("source", ["evil.py:predict", "http://localhost:1/v1#m"])
def test_a_run_cannot_name_code_or_an_endpoint(run, tmp_path, monkeypatch, source):
    """Also where its cells fit together under their new names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(
        "open('owned', 'w').close()\ndef predict(texts): return [[0.5, 0.5]] * len(texts)\n"
    )
    renamed = {}

    def edit(facts, rows):
        specs = {**facts["specs"], "model": source}
        changed = {**facts, "specs": specs, "parents": [renamed.get(name, name) for name in facts["parents"]]}
        renamed[facts["name"]] = segments._name(changed)
        return {**changed, "name": renamed[facts["name"]]}, rows

    for kind in ("explanation", "metric"):
        sealed_again(run, kind, edit)
    in_run_file(lambda about: about.update(models={source: next(iter(about["models"].values()))}))(run, None)
    with pytest.raises(TrothError, match=r"is code, which runs only|names the endpoint"):
        verify_run(Store(run), sample=1)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("name", ["a byte in the middle", "a byte at the start", "cut off", "a file renamed"])
@pytest.mark.parametrize("command", [("report", "--format", "csv"), ("report", "--format", "json"), ("diff",)])
def test_an_edited_run_is_not_reported(run, place, troth, name, command):
    ATTACKS[name][0](run, place)
    others = [place / "run"] if command[0] == "diff" else []
    code, out, err = troth(command[0], run, *others, *command[1:])
    assert (code, out) == (2, "")
    assert "is damaged" in err
    assert err.count("\n") == 1


def test_an_edited_run_is_not_queried(run, place, troth):
    ATTACKS["a byte in the middle"][0](run, place)
    assert troth("query", run, "select count(*) from scores")[0] == 2


def test_a_checkpoint_that_was_replaced_makes_other_cells(tmp_path):
    """The attribution model of another fit under the same path is another method."""
    folder, found = tmp_path / "aml", []
    spec = f"attributive_masking(checkpoint={folder})"
    for seed in (0, 1):
        shutil.rmtree(folder, ignore_errors=True)
        saving.save(folder, fakes.attribution_model(seed=seed), {"loss": {}, "metric": "log_odds"})
        asked = {"explainers": [spec], "metrics": ["sufficiency"], "out": tmp_path / "run"}
        found.append(library.bench(fakes.encoder(), data(), progress=False, **asked).leaderboard)
    values = [board.summaries[board.explainers[0], "sufficiency"].value for board in found]
    again = library.bench(fakes.encoder(), data(), [spec], ["sufficiency"], tmp_path / "fresh", progress=False)
    assert values[1] == again.leaderboard.summaries[again.leaderboard.explainers[0], "sufficiency"].value
    assert len(Store(tmp_path / "run").cells()) > len(Store(tmp_path / "fresh").cells())


def test_the_seal_is_that_of_the_whole_file(run):
    for path in run.glob("segments/*.parquet"):
        Segment.open(path).verify()
