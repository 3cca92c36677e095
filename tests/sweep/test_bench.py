"""A bench is what explain, measure and summarize give, stored and ranked; nothing is computed twice."""

import dataclasses
import json

import numpy as np
import pytest

import fakes
import troth
from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.data import load_data
from troth.metrics import Summary
from troth.models.encoder import Encoder
from troth.report.board import Leaderboard, leaderboards, mean_rank
from troth.report.board_sheet import as_dict
from troth.report.prices import Prices
from troth.report.run_page import write_report
from troth.report.screen import table
from troth.store.store import Store
from troth.sweep import bench as benching
from troth.sweep.context import Context

EXPLAINERS = ["leave_one_out", "gradient(norm=l1)"]
METRICS = ["comprehensiveness(ratio=0.5)", "sufficiency(ratio=0.5)", "sparsity"]
TEXTS = [*fakes.CORPUS, *(" ".join(line.split()[::-1]) for line in fakes.CORPUS[:5])]
DATA = [Example(f"<b>{number}", text, label=number % 3) for number, text in enumerate(TEXTS)]
NASTY = "<script>alert(1)</script>"


def model(name=NASTY, seed=0):
    return Encoder(fakes.hf_model("bert", seed=seed), fakes.tokenizer_for("bert"), name=name)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return benching.bench(model(), DATA, EXPLAINERS, METRICS, tmp_path_factory.mktemp("bench") / "run")


def spec(kind, written):
    return catalog.spec(catalog.build(kind, written))


def test_the_numbers_are_those_of_measuring_by_hand(finished):
    board = finished.leaderboard
    assert board.examples == 12
    assert set(board.explainers) == {"random", *(spec("explainers", one) for one in EXPLAINERS)}
    assert board.metrics == tuple(spec("metrics", one) for one in METRICS)
    for explainer in ("random", *EXPLAINERS):
        attributions = troth.explain(model(), DATA, explainer)
        for metric in METRICS:
            key = spec("explainers", explainer), spec("metrics", metric)
            scores = troth.measure(model(), attributions, metric)
            np.testing.assert_allclose(board.values[key], [score.value for score in scores], rtol=1e-4, atol=1e-5)
            summary = catalog.build("metrics", metric).summarize(scores)
            assert board.summaries[key].value == pytest.approx(summary.value, rel=1e-4, abs=1e-5)
            assert board.summaries[key].low == pytest.approx(summary.low, rel=1e-3, abs=1e-4)
            assert board.summaries[key].high == pytest.approx(summary.high, rel=1e-3, abs=1e-4)


def test_costs_are_counted(finished):
    board = finished.leaderboard
    words = sum(len(encoding.unit_texts) for encoding in model().encode(DATA))
    assert board.passes["leave_one_out"] == pytest.approx((12 + words) / 12)
    assert board.passes["random"] == 1  # the class is the predicted one
    assert board.passes["gradient(norm='l1')"] == 2  # forward and backward
    assert all(seconds > 0 for seconds in board.seconds.values())


def test_what_is_stored_is_not_computed_again(finished, monkeypatch):
    def never(self, *arguments, **options):
        raise AssertionError("asked the model")

    monkeypatch.setattr(Encoder, "forward", never)
    again = benching.bench(model(), DATA, EXPLAINERS, METRICS, finished.folder)
    assert again.outcome.computed == 0
    assert again.outcome.stored == 1 + 3 + 9  # the data, the explanations, the scores
    assert again.leaderboard.explainers == finished.leaderboard.explainers
    assert again.leaderboard.values.keys() == finished.leaderboard.values.keys()


def test_another_model_of_the_same_name_is_another_bench(finished):
    other = benching.bench(model(seed=4), DATA[:2], ["random"], ["sparsity"], finished.folder)
    assert other.outcome.computed > 0
    boards = leaderboards(Store(finished.folder))
    assert sorted(board.examples for board in boards) == [2, 12]
    folders = {
        benching.default_folder(benching.plan_of(benching.Context(), one, DATA, ["random"], ["sparsity"]))
        for one in (model(), model(seed=4), model())
    }
    assert len(folders) == 2
    assert all(folder.parent.name == "runs" and "/" not in folder.name for folder in folders)


def test_settings_are_never_pooled(tmp_path):
    for units in ("word", "token"):
        benching.bench(model("tiny"), DATA[:3], ["random"], ["sparsity"], tmp_path / "run", units=units)
    benching.bench(model("tiny"), DATA[:3], ["random"], ["sparsity"], tmp_path / "run", masking="delete", target=1)
    boards = leaderboards(Store(tmp_path / "run"))
    assert sorted(board.title for board in boards) == [
        "tiny on 3 examples of memory",
        "tiny on 3 examples of memory (target 1, masking delete)",
        "tiny on 3 examples of memory (units token)",
    ]
    assert {len(board.values["random", "sparsity"]) for board in boards} == {3}


def test_random_is_always_there_and_once():
    def explainers(given):
        plan = benching.plan_of(benching.Context(), model(), DATA[:2], given, ["sparsity"])
        return [cell.specs["explainer"] for cell in plan.of("explanation")]

    assert explainers(["gradient"]) == ["random", "gradient"]
    assert explainers(["gradient", "random"]) == ["gradient", "random"]
    assert explainers(None) == list(benching.EXPLAINERS)


def test_rationales_are_judged_where_all_examples_have_them():
    marked = [dataclasses.replace(example, rationale=((0, 3),)) for example in DATA[:3]]
    for data, there in ((marked, True), ([*marked, DATA[4]], False)):
        plan = benching.plan_of(benching.Context(), model(), data, ["random"], None)
        found = {cell.specs["metric"] for cell in plan.of("metric")}
        assert ("rationale_agreement" in found) == there


def test_several_seeds_are_averaged_per_example(tmp_path):
    board = benching.bench(model(), DATA[:4], ["random"], ["sufficiency"], tmp_path / "run", seeds=(0, 1)).leaderboard
    by_seed = [
        troth.measure(model(), troth.explain(model(), DATA[:4], "random", seed=seed), "sufficiency", seed=seed)
        for seed in (0, 1)
    ]
    values = np.array([[score.value for score in scores] for scores in by_seed])
    np.testing.assert_allclose(board.values["random", "sufficiency"], values.mean(0), atol=1e-5)
    summary = board.summaries["random", "sufficiency"]
    assert (summary.value, summary.count, summary.seeds) == (pytest.approx(values.mean(), abs=1e-5), 4, 2)
    assert summary.spread == pytest.approx(values.mean(1).std(ddof=1), abs=1e-5)


def test_repeated_texts_count_once(tmp_path):
    again = [dataclasses.replace(example, id=f"again {example.id}", text=f"{example.text} ") for example in DATA[:2]]
    for examples, clusters in ((DATA[:4], None), ([*DATA[:4], *again], 4)):
        board = benching.bench(model(), examples, ["random"], ["sparsity"], tmp_path / f"run{clusters}").leaderboard
        assert (board.clusters, board.summaries["random", "sparsity"].count) == (clusters, 4)
        said = [line for line in board.answer() if "equal or nearly equal texts count as one" in line]
        assert [line.partition(":")[0] for line in said] == (["The 6 examples are 4 clusters"] if clusters else [])


# --- what fails


def test_what_fails_is_named_and_the_rest_is_done(tmp_path):
    explainers, metrics = ["leave_one_out", "exact_shapley"], ["sparsity", "rationale_agreement"]
    board = benching.bench(model(), DATA[:7], explainers, metrics, tmp_path / "run").leaderboard
    assert set(board.explainers) == {"leave_one_out", "random"}
    assert "exact_shapley" in board.failures  # a text has more than 12 words
    assert "rationale_agreement compares with human rationales, but example <b>0 has none" in board.failures.values()
    assert "leave_one_out × rationale_agreement" in board.failures
    assert board.metrics == ("sparsity",)
    answer = [line for line in board.answer() if line.startswith("Failed")]
    assert answer[0].startswith("Failed, so not ranked here: exact_shapley. The reason: exact_shapley")
    shapley = board.failures["exact_shapley"]
    assert shapley in answer[0]
    # One sentence for what failed for one reason, whatever the number of explainers.
    assert answer[1] == (
        "Failed, so missing here, or resting on fewer seeds: random × rationale_agreement, leave_one_out × "
        "rationale_agreement. The reason: rationale_agreement compares with human rationales, but example <b>0 has none"
    )
    assert len(answer) == 2
    assert as_dict(board)["answer"] == board.answer()
    page = board._repr_html_()
    assert "example &lt;b&gt;0 has none" in page
    assert "<b>0" not in page


def test_if_nothing_can_be_done_the_reason_is_said(tmp_path):
    with pytest.raises(TrothError, match="no explainer could be run: example <b>7 has no label, so no gold class"):
        benching.bench(
            model(), [dataclasses.replace(DATA[7], label=None)], ["gradient"], ["sparsity"], tmp_path / "r",
            target="gold",
        )  # fmt: skip


# --- shown


def test_everything_shown_is_escaped(finished, tmp_path):
    write_report(Store(finished.folder), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in page
    assert page.count("</script>") == 3  # the page's own
    assert "&lt;script&gt;alert(1)" in page
    assert "<script" not in finished._repr_html_()


def test_a_report_in_the_terminal_and_for_machines(finished):
    from rich.console import Console

    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table(finished.leaderboard, width=200))
    shown = console.export_text()
    best = finished.leaderboard.explainers[0]
    assert shown.index(best) < shown.index(finished.leaderboard.explainers[-1])
    assert NASTY in shown
    plain = json.loads(json.dumps(as_dict(finished.leaderboard), allow_nan=False))
    assert [row["explainer"] for row in plain["rows"]] == list(finished.leaderboard.explainers)
    assert plain["rows"][0]["sparsity"]["examples"] == 12


def board(values, directions):
    """A leaderboard of plain numbers: explainer -> a number for each metric."""
    metrics = tuple(directions)
    summaries = {
        (explainer, metric): Summary(number, number, number, 1)
        for explainer, numbers in values.items()
        for metric, number in zip(metrics, numbers, strict=True)
    }
    found = dict.fromkeys(values, 0.0)
    return Leaderboard("m", "d", 1, tuple(values), metrics, directions, summaries, {}, {}, {}, found, found, {}, None)


def test_places_are_averaged_over_metrics_with_a_direction():
    one = board({"a": [0.9, 0.1, 5], "b": [0.5, 0.1, 6], "c": [0.7, 0.3, 7]}, {"up": True, "down": False, "none": None})
    assert mean_rank(one, "a") == (1 + 1.5) / 2
    assert mean_rank(one, "b") == (3 + 1.5) / 2
    assert mean_rank(one, "c") == (2 + 3) / 2
    assert one.sorted_by("up") == ("a", "c", "b")
    assert one.sorted_by("down") == ("a", "b", "c")
    with pytest.raises(TrothError, match="no metric of this run is called 'upp'; did you mean up"):
        one.sorted_by("upp")


def test_undefined_numbers_come_last():
    one = board({"a": [np.nan], "b": [0.2], "c": [0.3]}, {"up": True})
    assert one.sorted_by("up") == ("c", "b", "a")


def planned(explainers, metrics):
    data = [Example(str(number), "a b c d e f g", label=0) for number in range(40)]
    return benching.plan_of(Context(), model(), data, explainers, metrics)


def test_all_means_all_that_can_just_be_run():
    plan = planned("all", "all")
    explained = {cell.specs["explainer"]: cell.specs for cell in plan.of("explanation")}
    skipped = plan.about["left_out"]
    assert set(explained) | set(skipped) >= set(catalog.names("explainers"))
    assert not set(explained) & set(skipped)
    assert skipped["llm_ranking"] == "needs llm_ranking(model=…)"  # known from the class: no list names it
    assert {cell.specs["metric"].partition("(")[0] for cell in plan.of("metric")} == set(catalog.names("metrics"))
    # 2 · 50 · 7 passes are over 500, 2⁷ are not; explaining five times again, these are, and those are too many.
    assert explained["sequential_integrated_gradients"]["first"] == 30
    assert "first" not in explained["kernel_shap"]
    again = {cell.specs["explainer"]: cell.specs for cell in plan.of("metric") if cell.specs["metric"] == "sensitivity"}
    assert "first" not in again["integrated_gradients"]
    assert again["kernel_shap"]["first"] == 30
    assert "about 3,500 passes" in skipped["sequential_integrated_gradients × sensitivity"]
    assert "sequential_integrated_gradients" not in again


def test_a_metric_that_takes_many_passes_itself_is_given_fewer_examples():
    data = [Example(str(number), "a b c d e f g h i j k l m", label=0) for number in range(40)]
    plan = benching.plan_of(Context(), model(), data, "all", ["normalized_aopc", "comprehensiveness"])
    first = {(cell.specs["explainer"], cell.specs["metric"]): cell.specs.get("first") for cell in plan.of("metric")}
    # 2⁸ of 8 units, but two beams of 5 subsets take about 800 passes on 13.
    assert first["leave_one_out", "normalized_aopc"] == 30
    assert first["leave_one_out", "comprehensiveness"] is None


def test_named_methods_get_every_example():
    plan = planned(["sequential_integrated_gradients"], ["sensitivity"])
    assert len(list(plan.of("metric"))) == 2  # random's, too
    assert not any("first" in cell.specs for cell in plan.cells.values())
    assert "left_out" not in plan.about


def test_a_method_with_fewer_examples_is_compared_on_those(tmp_path, monkeypatch):
    monkeypatch.setattr(benching, "_EXPENSIVE", 30)
    monkeypatch.setattr(benching, "_FEWER", 7)
    metric = "comprehensiveness(ratio=0.5)"
    board = benching.bench(model(), DATA, "all", [metric], tmp_path).leaderboard
    few, many = board.values["integrated_gradients", metric], board.values["gradient", metric]
    assert board.examples == len(many) == len(few) == 12
    assert np.isfinite(few[:7]).all()
    assert np.isnan(few[7:]).all()
    assert np.isfinite(many).all()
    alone = troth.measure(model(), troth.explain(model(), DATA[:7], "integrated_gradients"), metric)
    np.testing.assert_allclose(few[:7], [score.value for score in alone], rtol=1e-4, atol=1e-5)
    assert board.summaries["integrated_gradients", metric].count == 7
    assert {"gradient", "integrated_gradients"} <= set(board.groups[metric])


def test_data_of_any_kind(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("body,stars\n" + "".join(f'"{text}",{number % 3}\n' for number, text in enumerate(TEXTS)))
    found = benching.bench(
        model(),
        str(path),
        ["random"],
        ["sparsity"],
        tmp_path / "run",
        limit=5,
        columns={"text": "body", "label": "stars"},
    )
    assert found.leaderboard.examples == 5
    assert "text: column 'body'" in found.leaderboard.about["data"]["data.csv"]["notes"]
    loaded = load_data(path, text="body", label="stars").sample(5)
    assert benching.bench(model(), loaded, ["random"], ["sparsity"], tmp_path / "run").outcome.computed == 0


@pytest.mark.full
def test_ten_runs_name_the_same_cheapest_method(tmp_path):
    prices = set()
    for repetition in range(10):
        board = troth.bench(
            "embedded", "reviews", ["gradient", "input_x_gradient", "leave_one_out"], ["aopc_comprehensiveness"],
            tmp_path / str(repetition), limit=12, progress=False,
        ).leaderboard  # fmt: skip
        order = Prices(board.seconds, board.passes).order
        real = [name for name in board.explainers if name != "random"]
        prices.add((min(real, key=order), *(board.passes[name] for name in sorted(real))))
    assert len(prices) == 1
