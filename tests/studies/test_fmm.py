import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from troth import studies
from troth.core.errors import TrothError
from troth.core.types import Question, Score
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.metrics.recursive_erasure import RecursiveErasure
from troth.models import load_model
from troth.performance import performance
from troth.store.cells import Plan
from troth.store.store import Store
from troth.studies._results import Results, estimate
from troth.studies._trained_study import load
from troth.studies.fmm import Fmm
from troth.studies.fmm._experiment import MARGIN, MEASURES, TRAININGS, areas, curves, measure_name, printed, strategy
from troth.studies.fmm._sections import everywhere
from troth.studies.fmm._works import REFERENCES, left_at, references_of
from troth.validity.checking import VARIANTS, check
from troth.validity.masf import HIDDEN_STATES, data_set_p_value, largest
from troth.verbs.explain import explain
from troth.verbs.measure import measure

BASE = "scratch(layers=1, hidden=16, heads=2, dropout=0.0)"
EXPLAINERS = ("input_x_gradient(absolute=True)", "leave_one_out", "beam_search(width=2)", "random")
STUDY = Fmm(EXPLAINERS, step=0.25, epochs=12, batch_size=16, learning_rate=5e-3, examples=10, beam_examples=4)
POINTS = 5


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    """Short texts with one word that gives the class away, in three files."""
    folder, draw = tmp_path_factory.mktemp("films"), random.Random(0)
    for split, count in (("train", 160), ("validation", 40), ("test", 20)):
        rows = []
        for number in range(count):
            words = [f"w{draw.randrange(20)}" for _ in range(7)]
            words[draw.randrange(7)] = ("awful", "great")[number % 2]
            rows.append({"id": f"{split}-{number}", "text": " ".join(words), "label": number % 2})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return studies.Setting(tmp_path_factory.mktemp("study") / "out", (str(folder),), BASE, (0, 1))


@pytest.fixture(scope="module")
def checked(setting):
    """The sections of in_distribution, the experiment and what is stored of it."""
    sections = list(STUDY.sections("in_distribution", setting))
    (experiment,) = STUDY.experiments(setting, Plan())
    return sections, experiment, Results(Store(setting.out))


def model_of(setting, experiment, training, seed):
    return load_model(str(setting.out / "files" / experiment.train(TRAININGS[training], seed).name))


def p_values(experiment, results, training, explainer, seed):
    rows = results.table(experiment.check(TRAININGS[training], explainer, seed)).to_pylist()
    found = {}
    for row in rows:
        found.setdefault((row["references"], row["variant"]), {})[row["example_id"]] = row["p"]
    return found


def test_p_values_are_those_of_explaining_again(setting, checked):
    """`check` explains the same texts anew and knows nothing of what was measured."""
    _, experiment, results = checked
    splits = experiment.data.splits
    known = references_of(splits["validation"].examples, splits["test"].examples)
    model = model_of(setting, experiment, "masked", 1)
    found = p_values(experiment, results, "masked", EXPLAINERS[0], 1)
    for kind, variant in (("half masked", "calibrated"), ("all masked", "calibrated")):
        again = check(
            model, splits["explained"], replace(splits["validation"], examples=known), [EXPLAINERS[0]], step=0.25,
            seed=1, units="token", references=REFERENCES[kind], variant=variant,
        )  # fmt: skip
        assert not again.not_tested
        np.testing.assert_array_equal(
            [found[kind, variant][name] for name in again.example_ids], again.p_values[EXPLAINERS[0]]
        )
    assert found.keys() == {(kind, variant) for kind in REFERENCES for variant in VARIANTS}


def test_the_inputs_checked_are_the_inputs_measured(setting, checked):
    """One input at a time, from the stored predictions: each erased input predicts what was measured of it."""
    _, experiment, results = checked
    model = model_of(setting, experiment, "plain", 0)
    prober = Prober(model)
    for explainer in EXPLAINERS[1:]:
        cell = experiment.erased(TRAININGS["plain"], explainer, 0)
        ids = results.table(cell).column("example_id").to_pylist()
        texts = {example.id: example for example in experiment.data.splits["test"]}
        for name, score in zip(ids, results.scores(cell), strict=True):
            (encoding,) = model.encode([texts[name]], "token")
            record = score.record
            assert [int(row.sum()) for row in left_at(record["erased_at"], POINTS)] == [
                encoding.n_units - encoding.n_units * point // 4 for point in range(POINTS)
            ]
            for point, left in enumerate(left_at(record["erased_at"], POINTS)):
                question = Question(encoding, target=record["target"])
                logits = prober.ask(_one(Probe(question, left[None]))).logits[0]
                assert float(logits.double().softmax(-1)[record["target"]]) == pytest.approx(
                    record["p_explained"][point], abs=1e-6
                )


def _one(look):
    answer = yield look
    return answer


def test_a_slow_loop_gives_the_same_p_values(setting, checked):
    """MaSF straight from its definition: counts, Simes over hidden units, Fisher over layers, one-sided."""
    _, experiment, results = checked
    splits = experiment.data.splits
    model = model_of(setting, experiment, "plain", 0)
    prober = Prober(model)
    known = references_of(splits["validation"].examples, splits["test"].examples)
    references = [_view(prober, model, example, "both") for example in known]  # whole texts
    found = p_values(experiment, results, "plain", "leave_one_out", 0)["whole", "paper"]
    cell = experiment.erased(TRAININGS["plain"], "leave_one_out", 0)
    records = dict(zip(results.table(cell).column("example_id").to_pylist(), results.scores(cell), strict=True))
    by_layer = [_simes_of_each(layer, references) for layer in range(2)]
    fisher = [_fisher([_two_sided(column, column[place]) for column in by_layer]) for place in range(len(known))]
    for example in splits["explained"].examples[:3]:
        for point, left in enumerate(left_at(records[example.id].record["erased_at"], POINTS)):
            view = _view(prober, model, example, "first", left)
            simes = [_simes(_counts(layer, view, references)) for layer in range(2)]
            value = _fisher([_two_sided(column, one) for column, one in zip(by_layer, simes, strict=True)])
            p = 1 - sum(one < value for one in fisher) / len(known)
            assert found[example.id][point] == pytest.approx(p, abs=1e-12)


def _view(prober, model, example, segments, left=None):
    (encoding,) = model.encode([example], "token", segments)
    left = torch.ones(encoding.n_units) if left is None else left
    answer = prober.ask(_one(Probe(Question(encoding, target=0), left[None], readout=HIDDEN_STATES)))
    return [layer[0] for layer in largest(answer)]


def _two_sided(known, value):
    smaller = sum(one < value for one in known)
    return min(smaller, len(known) - smaller) / len(known)


def _counts(layer, view, references):
    hidden = range(len(view[layer]))
    return [_two_sided([one[layer][unit] for one in references], view[layer][unit]) for unit in hidden]


def _simes(p):
    return min(round(one * 40) * len(p) / rank for rank, one in enumerate(sorted(p), 1))  # 40 references: exact


def _simes_of_each(layer, references):
    return [_simes(_counts(layer, view, references)) for view in references]


def _fisher(p):
    return round(-2 * sum(np.log(np.sort(np.array(p) + 1e-8))), 12)


def test_the_table_counts_cases_over_explainers_ratios_and_seeds(checked):
    """Completely masked texts are one input: that of ten texts for three explainers, that of four for beam search."""
    sections, experiment, results = checked
    facts = sections[-1].facts[f"{experiment.name} masked half masked calibrated"]
    cases, completely = [], {}
    for explainer in EXPLAINERS:
        for seed in (0, 1):
            p = np.array(
                list(p_values(experiment, results, "masked", explainer, seed)["half masked", "calibrated"].values())
            )
            cases += [data_set_p_value(column) for column in p.T[1:-1]]
            assert completely.setdefault((seed, len(p)), data_set_p_value(p.T[-1])) == data_set_p_value(p.T[-1])
    cases += completely.values()
    assert (facts["of"], facts["out"]) == (len(cases), sum(case < 0.05 for case in cases))
    assert facts["of"] == 2 * (4 * 3 + 2)
    assert (len(facts["out_by_seed"]), sum(facts["out_by_seed"])) == (2, facts["out"])
    assert facts["lowest"] == min(cases)
    only = [row for row in sections[-1].rows if row[1] == "only_masking"]
    assert {row[4].split(" of ")[1] for row in only} == {"8"}  # random order alone: 4 ratios, 2 seeds


def test_racu_is_what_measuring_and_summarizing_say(setting, checked):
    (section,) = STUDY.sections("faithfulness", setting)
    _, experiment, results = checked
    metric = RecursiveErasure(step=0.25)
    for training, explainer in (("masked", EXPLAINERS[0]), ("plain", EXPLAINERS[2])):
        converged = experiment.converged(results, TRAININGS[training])
        assert converged, "the planted word was not learned"
        by_seed = []
        for seed in converged:
            model = model_of(setting, experiment, training, seed)
            texts = experiment.data.splits[experiment.split_of(explainer)].examples
            attributions = explain(model, texts, explainer, units="token", target="gold", seed=seed)
            by_seed.append(measure(model, attributions, metric, seed=seed))
        expected = metric.summarize(*by_seed)
        facts = section.facts[f"{experiment.name} {training} {measure_name(explainer)}"]
        assert facts["racu_over_texts"] == pytest.approx((expected.value, expected.low, expected.high), nan_ok=True)
        assert facts["racu"][0] == pytest.approx(expected.value, nan_ok=True)
        assert facts["acu"][0] == pytest.approx(expected.extra["acu"])
        assert facts["texts"] == len(texts)
    assert [len(experiment.data.splits[split]) for split in ("explained", "searched")] == [10, 4]


def test_a_model_that_has_not_learned_has_no_racu(setting):
    lazy = replace(STUDY, explainers=("leave_one_out", "random"), learning_rate=1e-9, epochs=1)
    (section,) = lazy.sections("faithfulness", replace(setting, seeds=(0,)))
    (experiment,) = lazy.experiments(replace(setting, seeds=(0,)), Plan())
    results = Results(Store(setting.out))
    assert experiment.majority == 0.5
    assert experiment.curve(results, TRAININGS["plain"], 0)[0] < 0.5 + MARGIN
    assert "plain: 1 of 1 seeds did not converge and have no RACU." in section.words
    assert [row[2:6] for row in section.rows] == [[0, "–", "–", "–"]] * 2
    # In the mean over data sets it does not count.
    (learned,) = STUDY.experiments(setting, Plan())
    unmasked, masked = everywhere([learned, experiment], results, "masked")
    by_seed = [learned.curve(results, "masked", seed) for seed in (0, 1)]
    assert unmasked == estimate([one[0] for one in by_seed])
    assert masked == estimate([one[-1] for one in by_seed])


def test_the_rule_is_ten_points_over_the_majority_in_the_metric_of_the_data():
    scores = [_score(label, [place < 12, 1], [place < 12, 1]) for place, label in enumerate([True] * 10 + [False] * 10)]
    metric = RecursiveErasure(step=1.0)
    explained, _ = curves(scores, metric)
    assert explained.tolist() == [0.9, 0.5]
    matthews, _ = curves(scores, replace(metric, performance="matthews"))
    table = np.array([[[10, 8], [12, 8], [10, 10]]]) / 20
    # Classes are 0 and 1: hits, predicted, true.
    assert matthews[0] == pytest.approx(float(performance("matthews", table[:, :, ::-1])[0]))
    assert np.isnan(curves([], metric)[0]).all()
    assert areas(scores, metric) == (0.0, 0.0)


def _score(label, explained, random):
    record = {"label": int(label), "explained": [int(one) for one in explained], "random": [int(one) for one in random]}
    return Score(0.0, record)


def test_nothing_is_done_twice_and_parts_share_their_cells(setting, checked):
    before = {path: path.stat().st_mtime_ns for path in (setting.out / "files").iterdir()}
    cells = Store(setting.out).names()
    list(STUDY.sections("in_distribution", setting))
    list(STUDY.sections("performance", setting))
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert Store(setting.out).names() == cells  # performance needs nothing that the chain had not made
    plan = Plan()
    (experiment,) = STUDY.experiments(setting, plan)
    STUDY.add_cells("ablation", experiment)
    trainings = list(plan.of("training"))
    assert len(trainings) == 9 * 2
    assert sum(Store(setting.out).has(cell.name) for cell in trainings) >= 3 * 2  # Table 10: three of the nine


def test_performance_by_ratio_and_by_epoch(setting, checked):
    _, experiment, results = checked
    table, by_ratio, by_epoch = STUDY.sections("performance", setting)
    labels, predicted = results.predicted(experiment.train("masked", 0))
    assert table.facts[experiment.name]["masked"]["by_seed"][0][0] == pytest.approx((labels == predicted).mean())
    assert len(by_ratio.rows[0]) == 1 + POINTS
    history = json.loads((setting.out / "files" / experiment.train("masked", 0).name / "train.json").read_text())
    other = json.loads((setting.out / "files" / experiment.train("masked", 1).name / "train.json").read_text())
    expected = np.mean([one["history"][0]["validation"]["masked"]["accuracy"] for one in (history, other)])
    assert by_epoch.facts[f"{experiment.name} by epoch"]["masked, masked"][0] == pytest.approx(expected)
    assert by_epoch.facts[f"{experiment.name} chosen epochs"]["masked"] == [history["best_epoch"], other["best_epoch"]]
    assert set(by_epoch.facts[f"{experiment.name} by epoch"]) == {
        f"{training}, {inputs}" for training in TRAININGS for inputs in ("unmasked", "masked", "all_masked")
    }


@pytest.mark.full
def test_wall_times_and_figures(setting, checked):
    (section,) = STUDY.sections("wall_time", setting)
    _, experiment, results = checked
    stored = {cell.name: cell for cell in results.store.cells()}
    cells = [experiment.erased("masked", "leave_one_out", seed) for seed in (0, 1)]
    seconds = [stored[cell.name].seconds + stored[cell.parents[0]].seconds for cell in cells]
    assert section.facts[f"{experiment.name} LOO (sign), masked"]["seconds"] == pytest.approx(np.mean(seconds))
    done = list(studies.carry_out(STUDY, setting, ["faithfulness", "in_distribution"]))
    assert len(done) == 4
    drawn = json.loads((setting.out / "study.json").read_text())["sections"]
    assert all((setting.out / one["figure"]).stat().st_size > 10_000 for one in drawn if one["figure"])
    assert sum(bool(one["figure"]) for one in drawn) == 3


def test_published_numbers_and_names():
    assert printed("fmm_faithfulness", "racu", "sst2", "leave_one_out") == 171.3
    assert printed("fmm_faithfulness", "acu", "babi1", "gradient(norm=l1)") == 32.7
    assert printed("fmm_performance", "value", "rte", quantity="performance") == 75
    assert printed("fmm_walltime_importance", "minutes", "mrpc", "beam_search") == 14
    assert printed("fmm_faithfulness", "racu", "my_data", "leave_one_out") is None
    assert [measure_name(spec) for _, _, spec in MEASURES.values()] == list(MEASURES)
    assert strategy("masking", "masking") == TRAININGS["only_masking"]
    assert (strategy("no", "no"), strategy("50/50", "both")) == (TRAININGS["plain"], "masked")


def test_options_that_cannot_be():
    with pytest.raises(TrothError, match="no training is called 'mask'"):
        Fmm(explained=("mask",))
    with pytest.raises(TrothError, match="step must divide 1"):
        Fmm(step=0.3)
    with pytest.raises(TrothError, match="examples and beam_examples"):
        Fmm(examples=-1)


def test_files_have_no_models(setting, checked):
    """What a study says can be said again from its rows alone, where the models are not at hand."""
    files = setting.out / "files"
    away = Path(f"{files}.away")
    files.rename(away)
    try:
        sections, _, _ = checked
        again = list(STUDY.sections("in_distribution", setting))
        assert [section.facts for section in again] == [section.facts for section in sections]
    finally:
        away.rename(files)


def test_data_of_one_split_is_not_trained_on_its_test_texts():
    splits = load("reviews", like="fmm").splits
    texts = {split: {example.text for example in splits[split]} for split in splits}
    assert all(texts.values())
    assert not texts["test"] & (texts["train"] | texts["validation"])
