"""`troth bench --group`: the column is kept with the examples, and the verdict counts its values."""

import json

import pytest
from typer.testing import CliRunner

import troth
from troth.cli import app
from troth.core.errors import TrothError
from troth.store.query import query
from troth.store.store import Store

ROWS = [{"text": f"The number{place} soup was good", "label": place % 2, "page": place // 4} for place in range(12)]
ASKED = ("-e", "random", "--metrics", "sparsity", "--json", "--workers", "1")


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments), *ASKED])


def test_a_column_groups_the_examples(rows, tmp_path):
    found = json.loads(bench("-d", rows, "--group", "page", "--out", tmp_path / "run").stdout)
    assert (found["examples"], found["clusters"]) == (12, 3)
    assert "The 12 examples are 3 clusters: examples of one group, and equal or nearly equal texts, count" in " ".join(
        found["answer"]
    )
    names = query(Store(tmp_path / "run"), "select distinct group_name from examples order by 1").to_pylist()
    assert [row["group_name"] for row in names] == ["0", "1", "2"]
    # In the same folder without groups: other data, so nothing is mixed up.
    alone = json.loads(bench("-d", rows, "--out", tmp_path / "run").stdout)
    assert (alone["examples"], alone["clusters"]) == (12, 12)


@pytest.mark.parametrize(
    ("data", "column", "message"),
    [
        ("rows.jsonl", "document", "rows.jsonl has no column 'document' (--group); columns: text, label, page"),
        ("reviews", "page", "reviews has fixed columns and classes; leave --text, --label and similar options out"),
    ],
)
def test_a_column_that_is_not_there(rows, data, column, message, tmp_path):
    source = rows if data == rows.name else data
    result = bench("-d", source, "--group", column, "--out", tmp_path / "run")
    assert isinstance(result.exception, TrothError)
    assert str(result.exception) == message


def test_in_python(tmp_path):
    result = troth.bench("embedded", ROWS, ["random"], ["sparsity"], tmp_path, group="page", progress=False)
    assert result.leaderboard.clusters == 3
    with pytest.raises(TrothError, match="the data is already loaded; name the group"):
        troth.bench("embedded", troth.load_data(ROWS), ["random"], ["sparsity"], tmp_path, group="page")
