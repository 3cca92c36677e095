import datetime

import pyarrow as pa
import pytest
from tests.sweep.works import cell_of, ladder

from troth.core.errors import TrothError
from troth.store.cells import Cell
from troth.store.query import View, plain_rows, query
from troth.store.store import Store
from troth.sweep.run import run


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Four explanations with two metrics each, compacted, one metric fresh, one cell failed."""
    folder = tmp_path_factory.mktemp("query") / "run"
    store = Store(folder)
    run(ladder(4, 2), store)
    plan = ladder(4, 2)
    parent = next(plan.of("explanation"))
    late = Cell("metric", {"number": 9, "explainer": "method 0", "metric": "late", "target": 1}, (parent.name,))
    store.write(late, store.table(next(plan.of("metric")).name), {"seconds": 2.5})
    store.fail(Cell("metric", {"number": 0, "target": "predicted"}), "it broke", "somewhere")
    return store


def ask(store, sql):
    return query(store, sql).to_pylist()


def test_cells(store):
    assert ask(store, "select kind, count(*) n, count(error) failed from cells group by all order by 1") == [
        {"kind": "explanation", "n": 4, "failed": 0},
        {"kind": "metric", "n": 10, "failed": 1},
    ]
    assert ask(store, "select error from cells where error is not null") == [{"error": "it broke"}]
    assert ask(store, "select seconds, specs->>'metric' m from cells where metric = 'late'") == [
        {"seconds": 2.5, "m": "late"}
    ]
    # A spec that is a number here and a word there is text.
    assert ask(store, "select distinct target from cells order by 1") == [
        {"target": "1"},
        {"target": "predicted"},
        {"target": None},
    ]


def test_scores_carry_the_specs_of_their_cell(store):
    # Explanation n holds n … n + 4, so its metrics hold n + (5 n + 10) + 0 … 4; their mean is 6 n + 12.
    rows = ask(store, "select number, avg(value) v from scores where metric = 'metric 1' group by all order by 1")
    assert rows == [{"number": number, "v": 6.0 * number + 12} for number in range(4)]
    assert ask(store, "select count(*) n from scores where metric = 'late'") == [{"n": 5}]
    assert ask(store, "select count(*) n from explanations") == [{"n": 20}]
    assert ask(store, "select count(*) n from examples") == [{"n": 0}]


def test_views_can_be_looked_at(store):
    names = {row["name"] for row in ask(store, "show tables")}
    assert {"cells", "scores", "explanations", "examples"} <= names
    columns = [row["column_name"] for row in ask(store, "describe scores")]
    assert {"explainer", "metric", "cell", "example_id", "value", "why", "record"} <= set(columns)


@pytest.mark.parametrize(
    "sql",
    [
        "drop view scores",
        "create table mine as select 1",
        "insert into cells values (1)",
        "delete from scores",
        "update scores set value = 1",
        "copy (select 1) to '{folder}/out.csv'",
        "copy scores to '{folder}/out.parquet'",
        "attach '{folder}/mine.db'",
        "export database '{folder}/all'",
        "set enable_external_access = true",
        "pragma database_list",
        "select 1; drop view scores",
        "install httpfs",
        "call pragma_version()",
        "",
    ],
)
def test_sql_that_writes_is_refused(store, sql):
    before = sorted(path for path in store.folder.rglob("*"))
    with pytest.raises(TrothError, match="a run can only be read: write one SELECT, not "):
        query(store, sql.format(folder=store.folder))
    assert sorted(path for path in store.folder.rglob("*")) == before


def test_other_files_cannot_be_read(store, tmp_path):
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with pytest.raises(TrothError, match="Permission Error"):
        query(store, f"select * from read_csv('{tmp_path / 'secret.csv'}')")


def test_a_slip_in_sql_is_one_line(store):
    with pytest.raises(TrothError, match='Binder Error: Referenced column "valu" not found') as caught:
        query(store, "select valu from scores")
    assert "\n" not in str(caught.value)
    with pytest.raises(TrothError, match="Parser Error"):
        query(store, "selec value from scores")
    with pytest.raises(TrothError, match=r"Catalog Error.*score"):
        query(store, "select * from score")


def test_an_empty_run_answers_with_nothing(tmp_path):
    store = Store(tmp_path / "run")
    store.note(command="none yet")
    assert ask(store, "select example_id, value from scores") == []
    assert ask(store, "select count(*) n from cells") == [{"n": 0}]


def test_a_damaged_file_is_left_out_and_named(tmp_path):
    store = Store(tmp_path / "run")
    run(ladder(2, 1), store)
    victim = next((tmp_path / "run" / "segments").glob("metric-*"))
    victim.write_bytes(victim.read_bytes()[:-100])
    again = Store(tmp_path / "run")
    assert ask(again, "select count(*) n from scores") == [{"n": 0}]
    assert [*again.unreadable] == [victim]


def test_other_kinds_have_their_own_views(tmp_path):
    store = Store(tmp_path / "run")
    plan = ladder(0, 0)
    plan.add(cell_of("training", {"number": 3, "recipe": "plain"}))
    run(plan, store)
    assert ask(store, "select recipe, max(value) v from training group by 1") == [{"recipe": "plain", "v": 7.0}]


def test_columns_of_one_name_keep_their_values(store):
    answer = query(store, "select 1 a, 2 a, 3 a_2, 4 a")
    assert answer.column_names == ["a", "a_3", "a_2", "a_4"]
    assert plain_rows(answer) == [[1, 2, 3, 4]]
    joined = query(store, "select * from scores s join scores t using (cell, example_id) limit 1")
    assert len(set(joined.column_names)) == len(joined.column_names)


def test_dates_that_python_does_not_have(store):
    sql = """select 'infinity'::date a, '-infinity'::timestamp b, 'infinity'::timestamptz c, 'infinity'::timestamp_s d,
        ['-infinity'::date, '2020-01-02'::date] e, {'x': 'infinity'::date} f, map {'k': 'infinity'::date} g,
        '5881580-07-10'::date h, '0044-03-15 (BC)'::date i, '2020-01-02'::date j, '12000-01-02 03:04:05'::timestamp k"""
    (row,) = plain_rows(query(store, sql))
    assert row == [
        "infinity", "-infinity", "infinity", "infinity", ["-infinity", datetime.date(2020, 1, 2)], {"x": "infinity"},
        {"k": "infinity"}, "5881580-07-10", "-043-03-15", datetime.date(2020, 1, 2), "12000-01-02 03:04:05.000000",
    ]  # fmt: skip


def test_a_view_that_is_given_is_computed_for_sql_that_names_it(store):
    asked = []

    def rows():
        asked.append(1)
        return pa.table({"value": [1.5]})

    views = {"mine": View(pa.schema({"value": pa.float64()}), rows)}
    assert "mine" in {row["name"] for row in query(store, "show tables", views).to_pylist()}
    assert asked == []
    assert query(store, "select value * 2 v from Mine", views).to_pylist() == [{"v": 3.0}]
    assert asked == [1]
    with pytest.raises(TrothError, match="a run can only be read"):
        query(store, "drop view mine", views)
