"""A study's folder keeps the sections of earlier calls."""

import json

import pytest

from troth import studies
from troth.core.errors import TrothError
from troth.studies import Section, Setting
from troth.studies.roar import Roar
from troth.studies.saloss import Saloss


def draw(figure):
    figure.subplots().plot([0, 1])


@pytest.fixture
def study(monkeypatch):
    """ROAR whose parts take no time: a table of the data sets, and one of each."""

    def sections(self, part, setting):
        rows = [[name, self.step] for name in setting.data]
        facts = {name: {"step": self.step} for name in setting.data}
        yield Section(part, f"All of {part}", ["data", "step"], rows, "", facts, draw)
        for name in setting.data:
            yield Section(part, f"{part}: {name}", ["x", "y"], [[1, float("nan")]], f"about {name}", {}, None)

    monkeypatch.setattr(Roar, "sections", sections)
    return Roar()


def run(study, folder, only, data, **options):
    return list(studies.carry_out(study, Setting(folder, data, **options), [only]))


def kept(folder):
    return json.loads((folder / "study.json").read_text())


def test_parts_and_data_of_several_calls_stand_in_one_page(study, tmp_path):
    run(study, tmp_path, "comparison", ("sst",))
    run(study, tmp_path, "synthetic", ("sst",))
    run(study, tmp_path, "comparison", ("imdb",))
    titles = [section["title"] for section in kept(tmp_path)["sections"]]
    assert titles == [
        "All of synthetic", "synthetic: sst", "All of comparison", "comparison: sst", "comparison: imdb",
    ]  # fmt: skip
    page = (tmp_path / "study.md").read_text()
    assert [page.index(f"## {title}\n") for title in titles] == sorted(page.index(f"## {title}\n") for title in titles)
    assert "| sst | 0.100 |\n| imdb | 0.100 |" in page
    assert kept(tmp_path)["results"] == {
        "synthetic": {"sst": {"step": 0.1}},
        "comparison": {"sst": {"step": 0.1}, "imdb": {"step": 0.1}},
    }
    # Each keeps its own figure.
    assert "![All of comparison](01-comparison.png)" in page
    assert "![All of synthetic](02-synthetic.png)" in page
    assert {path.name for path in tmp_path.glob("*.png")} == {"01-comparison.png", "02-synthetic.png"}


def test_the_same_again_takes_the_place_of_what_was_there(study, tmp_path):
    for _ in range(2):
        run(study, tmp_path, "comparison", ("sst",))
    assert len(kept(tmp_path)["sections"]) == 2
    assert "seeds" not in (tmp_path / "study.md").read_text()  # all were made in one way


def test_what_was_made_in_another_way_is_not_mixed_and_the_page_says_which_is_which(study, tmp_path):
    run(study, tmp_path / "run", "comparison", ("sst",))
    (tmp_path / "models" / "mine").mkdir(parents=True)
    (tmp_path / "models" / "mine" / "config.json").write_text("{}")
    base = str(tmp_path / "models" / "mine")
    run(Roar(step=0.5), tmp_path / "run", "comparison", ("imdb",), base=base, seeds=(0, 1))
    table = next(section for section in kept(tmp_path / "run")["sections"] if section["title"] == "All of comparison")
    assert table["rows"] == [["imdb", 0.5]]
    page = (tmp_path / "run" / "study.md").read_text()
    assert "## comparison: sst\n\nstudy roar, seeds [0]\n" in page
    assert "## comparison: imdb\n\nstudy roar(step=0.5), base mine, seeds [0, 1]\n" in page


@pytest.mark.parametrize("text", ["", "[]", '{"sections": 3}', '{"sections": [{"part": 1}]}', '{"study": "roar()"'])
def test_a_damaged_page_is_set_aside_and_written_again(study, tmp_path, text):
    run(study, tmp_path, "comparison", ("sst",))
    (tmp_path / "study.json").write_text(text)
    run(study, tmp_path, "synthetic", ("sst",))
    assert (tmp_path / "damaged" / "study.json").read_text() == text
    assert [section["part"] for section in kept(tmp_path)["sections"]] == ["synthetic", "synthetic"]


def test_another_study_and_somebody_elses_folder_are_refused_before_any_work(study, tmp_path):
    run(study, tmp_path / "s", "comparison", ("sst",))
    before = (tmp_path / "s" / "study.json").read_bytes()
    with pytest.raises(TrothError, match="holds the study roar, not saloss; choose another --out"):
        run(Saloss(), tmp_path / "s", "data", ("sst",))
    assert (tmp_path / "s" / "study.json").read_bytes() == before
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").write_text("theirs")
    with pytest.raises(TrothError, match="theirs is not a run"):
        run(study, tmp_path / "theirs", "comparison", ("sst",))
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["thesis.tex"]
    with pytest.raises(TrothError, match="is not a folder; choose another --out"):
        run(study, tmp_path / "theirs" / "thesis.tex", "comparison", ("sst",))
