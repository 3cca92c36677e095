import json

import pytest
import typer
from typer.testing import CliRunner

from troth.commands._options import described
from troth.commands.diff import diff
from troth.commands.query import query
from troth.commands.runs import runs
from troth.commands.sweep import sweep
from troth.core.errors import TrothError


@pytest.fixture
def troth():
    app = typer.Typer(pretty_exceptions_enable=False)
    for command in (diff, query, runs, sweep):
        app.command()(described(command))

    def call(*arguments, code=0):
        result = CliRunner().invoke(app, list(arguments))
        if isinstance(result.exception, TrothError):
            raise result.exception
        assert result.exit_code == code, (result.output, result.exception)
        return result.stdout

    return call


def test_a_sweep_from_the_plan_to_the_answer(troth, in_workshop):
    text = (in_workshop / "plan.toml").read_text()
    (in_workshop / "small.toml").write_text(text.replace('"first", "second"', '"first"').replace("[0, 1]", "[0]"))
    dry = json.loads(troth("sweep", "small.toml", "--dry-run", "--json"))
    assert dry["cells"] == {"data": 1, "explanation": 3, "metric": 6, "check": 1}
    assert dry["to_do"] == 10
    assert "10 to do" in troth("sweep", "small.toml", "--dry-run")
    assert not (in_workshop / "results").exists()

    done = json.loads(troth("sweep", "small.toml", "--workers", "1", "--json"))
    assert (done["computed"], done["found"], done["complete"], done["failed"]) == (10, 1, True, [])
    again = troth("sweep", "small.toml", "--workers", "1")
    assert "results: cells (pieces of work) computed: 0 in " in again
    assert "already stored: 11" in again

    (run,) = json.loads(troth("runs", ".", "--json"))
    assert (run["run"], run["models"], run["data"]) == ("results", ["first"], ["data.jsonl"])
    assert (run["planned"], run["finished"], run["failed"]) == (11, 11, 0)
    assert "11 of 11" in troth("runs", ".")

    sql = "select explainer, count(*) n from scores group by all order by 1"
    assert json.loads(troth("query", "results", sql, "--json")) == [
        {"explainer": "integrated_gradients(steps=3)", "n": 14},
        {"explainer": "leave_one_out", "n": 14},
        {"explainer": "random", "n": 14},
    ]
    shown = troth(
        "query",
        "results",
        "select example_id, value, why, finished from scores join cells on name = cell",
        "--limit",
        "2",
    )
    assert "the first 2 rows; --limit 0 shows all" in shown
    assert (
        json.loads(troth("query", "results", "select 'nan'::double a, current_date d, [1.5] l", "--json"))[0]["a"]
        is None
    )

    troth("sweep", "small.toml", "--workers", "1", "--out", "other")
    told = json.loads(troth("diff", "results", "other", "--json", "--all"))
    assert (told["compared"], told["specs"], len(told["numbers"])) == (6, {}, 6)
    assert all(number["change"] in (0, None) and not number["moved"] for number in told["numbers"])
    assert "0 of 6 numbers moved" in troth("diff", "results", "other")
    assert "leave_one_out · comprehensiveness" in troth("diff", "results", "other", "--all")


def test_failed_cells_are_told_and_change_the_exit_code(troth, in_workshop):
    (in_workshop / "bad.toml").write_text(
        'models = ["first"]\ndata = ["data.jsonl"]\nexplainers = ["random"]\nmetrics = ["rationale_agreement"]\n'
    )
    told = json.loads(troth("sweep", "bad.toml", "--workers", "1", "--json", code=1))
    assert (told["computed"], told["complete"]) == (1, False)
    assert "rationale" in told["failed"][0]["error"]
    assert "failed: 1" in troth("sweep", "bad.toml", "--workers", "1", code=1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["query", "nowhere", "select 1"], "no run is called 'nowhere'"),
        (["diff", "nowhere", "nowhere"], "no run is called 'nowhere'"),
        (["runs", "nowhere"], "there is no folder nowhere"),
        (["sweep", "nowhere.toml"], "there is no plan file nowhere.toml"),
        (["sweep", "plan.toml", "--shard", "2"], "--shard must be NUMBER/COUNT, such as 3/16, not '2'"),
        (["sweep", "plan.toml", "--engine", "spark"], "no engine is called 'spark'"),
    ],
)
def test_bad_input_is_one_line(troth, in_workshop, arguments, told):
    with pytest.raises(TrothError) as caught:
        troth(*arguments)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_runs_that_cannot_be_read_are_listed_with_the_reason(troth, in_workshop):
    (in_workshop / "new").mkdir()
    (in_workshop / "new" / "run.json").write_text('{"format": 99}')
    (run,) = json.loads(troth("runs", ".", "--json"))
    assert "format 99" in run["problem"]
    assert "no runs in" in troth("runs", "first")
