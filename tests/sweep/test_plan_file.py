import pytest

from troth.core.errors import TrothError
from troth.report.board import leaderboards
from troth.store.store import Store
from troth.sweep.bench import plan_of
from troth.sweep.context import Context
from troth.sweep.plan_file import PlanFile
from troth.sweep.run import run

GOOD = """\
models = ["embedded"]
data = ["reviews"]
explainers = [
  "random",
  "leave_one_out",
]
metrics = ["sufficiency"]
"""


def read(tmp_path, text):
    (tmp_path / "plan.toml").write_text(text)
    return PlanFile.read(tmp_path / "plan.toml")


def test_a_plan_file_names_its_folder(tmp_path):
    assert read(tmp_path, GOOD).out == "runs/plan"
    assert read(tmp_path, 'out = "elsewhere"\n' + GOOD).out == "elsewhere"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("metrics =", "metrcs =", r"line 7: no key is called 'metrcs'; did you mean metrics\?"),
        ('"leave_one_out"', '"leave_one_ot"', r"line 5: .* 'leave_one_ot'; did you mean leave_one_out\?"),
        ('"leave_one_out"', '"loo"', r"line 5: no explainer is called 'loo'; did you mean leave_one_out\?"),
        ('"random"', "'integrated_gradients(stepz=3)'", r"line 4: .* 'stepz'; did you mean steps\?"),
        ('"sufficiency"', '"suficiency"', r"line 7: no metric is called 'suficiency'; did you mean sufficiency\?"),
        ("metrics", 'masking = "delet"\nmetrics', r"line 7: no masking is called 'delet'; did you mean delete\?"),
        ("metrics", 'units = "words"\nmetrics', r"line 7: no units is called 'words'; did you mean word\?"),
        ("metrics", 'seeds = ["one"]\nmetrics', r"line 7: seeds\[0\] must be a whole number, not 'one'"),
        ("metrics", "metrics = [\nmetrics", "line 8: "),
        ('data = ["reviews"]', 'data = [{source = "reviews", limt = 3}]', r"line 2: .* 'limt'; did you mean limit\?"),
        ('data = ["reviews"]', "data = [{split = 'test'}]", "line 2: an entry of data has no source"),
        ("metrics", '[[models]]\npath = "x"\nmetrics', "line 7: "),
        ('models = ["embedded"]', "models = [3]", "line 1: models must be names or tables, not 3"),
        ('metrics = ["sufficiency"]', "metrics = []", r'metrics is missing; write metrics = \["…"\]'),
        ('"random"', "7", r"line 3: explainers\[0\] must be text, not 7"),
        ("metrics", "limit = 1.5\nmetrics", "line 7: limit must be a whole number, not 1.5"),
        ("metrics", "limit = 0\nmetrics", "line 7: limit must be at least 1, not 0"),
        ("metrics", "limit = true\nmetrics", "line 7: limit must be a whole number, not True"),
        ("metrics", "out = 3\nmetrics", "line 7: out must be text, not 3"),
        ("metrics", "units = 3\nmetrics", "line 7: units must be text, not 3"),
        ("metrics", "split = [1]\nmetrics", r"line 7: split must be text, not \[1\]"),
        ("metrics", "target = 1.5\nmetrics", "line 7: target must be .*, not 1.5"),
        ("metrics", "masking = {a = 1}\nmetrics", "line 7: masking must be text, not {'a': 1}"),
        ("metrics", "seeds = 1979-05-27\nmetrics", "line 7: seeds must be .*, not datetime.date"),
        ("metrics", "seeds = [nan]\nmetrics", r"line 7: seeds\[0\] must be a whole number, not nan"),
        ('data = ["reviews"]', 'data = [{source = "reviews", limit = "3"}]', "line 2: limit must be a whole"),
        ('data = ["reviews"]', "data = [{source = 3}]", "line 2: source must be text, not 3"),
        ('models = ["embedded"]', "models = {path = [1]}", r"line 1: path must be text, not \[1\]"),
        ('models = ["embedded"]', 'models = [{path = "embedded", max_length = "x"}]', "line 1: max_length must be"),
        ('models = ["embedded"]', "models = 1979-05-27", "line 1: models must be names or tables, not datetime.date"),
    ],
)  # fmt: skip
def test_a_slip_is_told_with_its_line(tmp_path, before, after, told):
    assert before in GOOD
    with pytest.raises(TrothError, match=f"plan.toml(, |: ){told}"):
        read(tmp_path, GOOD.replace(before, after, 1))


def test_files_that_are_no_plan(tmp_path):
    with pytest.raises(TrothError, match="there is no plan file"):
        PlanFile.read(tmp_path / "nowhere.toml")
    with pytest.raises(TrothError, match="is not a plan file"):
        PlanFile.read(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\x80\xff")
    with pytest.raises(TrothError, match="is not a plan file"):
        PlanFile.read(tmp_path / "model.safetensors")


def test_models_and_data_that_are_not_there_are_told_with_their_line(in_workshop):
    from troth.sweep.context import Context

    text = (in_workshop / "plan.toml").read_text()
    (in_workshop / "plan2.toml").write_text(text.replace('"second"', '{path = "./third", max_length = 9}'))
    with pytest.raises(TrothError, match=r"plan2\.toml, line 2: there is no model folder \./third"):
        PlanFile.read("plan2.toml").plan(Context())
    (in_workshop / "plan3.toml").write_text(text.replace("data.jsonl", "data.jsonnl"))
    with pytest.raises(TrothError, match=r"plan3\.toml, line 3: data\.jsonnl: no such file"):
        PlanFile.read("plan3.toml").plan(Context())


def test_tables_say_more_of_models_and_data(in_workshop):
    from troth.sweep.context import Context

    (in_workshop / "tables.toml").write_text(
        """\
explainers = "random"
metrics = "sufficiency"
seeds = 7
limit = 3
target = 1

[[models]]
path = "first"
max_length = 8

[[data]]
source = "data.jsonl"

[[data]]
source = "data.jsonl"
limit = 2
"""
    )
    plan = PlanFile.read("tables.toml").plan(Context())
    specs = [cell.specs for cell in plan.of("metric")]
    assert [spec["examples"] for spec in specs] == [3, 2]
    assert {(spec["seed"], spec["target"], spec["model"]) for spec in specs} == {(7, 1, "first")}
    assert all(spec["model_options"] == {"max_length": 8} for spec in specs)


def test_a_sweep_checks_every_masking_as_a_bench_does(tmp_path):
    metrics = ["comprehensiveness(masking='mask_token')", "sufficiency"]
    (tmp_path / "plan.toml").write_text(
        f'models = "embedded"\ndata = "reviews"\nlimit = 12\nexplainers = "gradient"\nmetrics = {metrics}\n'
    )
    context = Context(tmp_path / "run")
    planned = PlanFile.read(tmp_path / "plan.toml").plan(context)
    benched = plan_of(Context(), "embedded", "reviews", ["gradient"], metrics, limit=12)
    checks = [cell.name for cell in planned.of("check")]
    assert len(checks) == 1
    assert checks == [cell.name for cell in benched.of("check")]
    store = Store(tmp_path / "run")
    assert run(planned, store, context=context).complete
    (board,) = leaderboards(store, planned)
    assert board.stamps[metrics[0]].p is not None
    assert "MaSF says nothing of inputs erased by delete" in board.stamps["sufficiency"].why
