"""A run can be written up: every method has its paper, and every paper an entry."""

import json
import re

import pytest
import typer
from tests.report.boards import board, stored
from tests.test_seeds import board_of
from typer.testing import CliRunner

from troth.commands._options import described
from troth.commands.cite import cite
from troth.core import catalog
from troth.report import citing
from troth.validity.stamp import Stamp


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ("explainers", "metrics", "data") for name in catalog.names(kind)]
)
def test_every_method_names_a_paper_that_has_an_entry(kind, name):
    keys = [reference.key for reference in citing.references(kind, name)]
    assert bool(keys) is (name not in ("random", "reviews"))
    assert set(keys) <= citing.entries().keys()


def test_entries_are_whole_and_sorted():
    entries = citing.entries()
    assert list(entries) == sorted(entries)
    for key, entry in entries.items():
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", entry, re.MULTILINE))
        assert {"title", "author", "year"} <= fields.keys()
        assert {"booktitle", "journal", "howpublished"} & fields.keys()
        assert entry.count("{") == entry.count("}")
        assert fields["year"] == re.search(r"\d{4}", key)[0]
        surname = re.sub(r"\W", "", fields["author"].partition(",")[0].split()[-1]).lower()
        assert key.startswith(surname)


def test_the_paragraph_of_a_run(tmp_path):
    store = stored(tmp_path / "run")
    one = board_of(store)
    text = citing.paragraph(one)
    assert "Predictions of m on 10 examples of d were explained with" in text
    assert "lime(samples=9) (Ribeiro et al., 2016)" in text
    assert "and compared with random scores." in text
    assert "sufficiency(ratio=0.1) (DeYoung et al., 2020)" in text
    assert "recursive_erasure (Madsen et al., 2024)" in text
    assert "MaSF" not in text
    app = typer.Typer()
    app.command()(described(cite))
    result = CliRunner().invoke(app, [str(store.folder), "--format", "latex"])
    assert result.exit_code == 0
    written, _, bibtex = result.stdout.partition("\n\n")
    cited = {key for keys in re.findall(r"\\citep\{(.*?)\}", written) for key in keys.split(",")}
    assert cited == set(re.findall(r"^@\w+\{(\w+),", bibtex, re.MULTILINE))
    assert {"ribeiro2016", "deyoung2020", "madsen2024", "efron1987", "holm1979", "troth"} == cited
    assert r"recursive\_erasure \citep{madsen2024}" in written
    plain = json.loads(CliRunner().invoke(app, [str(store.folder), "--json"]).stdout)
    assert plain["methods"] == [text]
    assert plain["without_reference"] == []


def test_methods_of_ones_own_have_no_reference():
    one = board({"mine": [0.5, 0.5], "random": [0.1, 0.1]}, {"rationale_agreement(top=5)": True, "theirs": True},
                stamps={"theirs": Stamp(0.5)}, plausible=("rationale_agreement(top=5)",))  # fmt: skip
    text = citing.paragraph(one)
    assert "explained with mine and compared" in text
    assert "measured with theirs." in text
    assert "Agreement with human rationales was measured with rationale_agreement(top=5) (DeYoung" in text
    assert "MaSF (Haroush et al., 2022; Madsen et al., 2024)" in text
    assert citing.unreferenced([one]) == ["mine", "theirs"]
    assert "haroush2022" in citing.bibtex([one])
