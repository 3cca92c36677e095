"""ROAR and Recursive ROAR on models that are really trained, and what they refuse."""

import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from tests.studies.roar.planted import LOUD, OPTIONS, QUIET, base, splits, texts

from fakes import CORPUS
from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models import load_model
from troth.store.store import Store
from troth.studies import _copies
from troth.studies._copies import Training, erase
from troth.studies.roar._curves import Reader
from troth.studies.roar._plan import plan_for
from troth.studies.roar.once import roar
from troth.studies.roar.recursive import recursive_roar
from troth.sweep.run import run
from troth.verbs.explain import explain

METHOD = "input_x_gradient"
COMMON = {"seeds": (0, 1), "step": "one", "most": 2, **OPTIONS}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Both benchmarks in one folder, and how many copies of what were trained."""
    folder = tmp_path_factory.mktemp("planted")
    counted: Counter = Counter()
    before = _copies.fit_all

    def counting(models, data, seeds, settings, checkpoints=None):
        counted.update(copies=len(models), cells=1)
        return before(models, data, seeds, settings, checkpoints)

    _copies.fit_all = counting
    try:
        start = base(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = roar(splits(), start, [METHOD], folder / "run", **COMMON)
            after_plain = counted["copies"]
            recursive = recursive_roar(splits(), start, [METHOD, "random"], folder / "run", **COMMON)
            planner = plan_for(splits(), start, [METHOD], ("once", "recursive"), **COMMON)
    finally:
        _copies.fit_all = before
    return plain, recursive, counted, after_plain, planner, Store(folder / "run")


def test_recursive_finds_both_words_and_plain_only_one(planted):
    plain, recursive, *_ = planted
    assert plain[METHOD].performance[:, :2].min() > 0.9  # one word gone: the other still tells
    assert plain[METHOD].performance[:, 2].mean() > 0.7
    assert recursive[METHOD].performance[:, 2].mean() < 0.65
    assert recursive[METHOD].performance[:, :2].tolist() == plain[METHOD].performance[:, :2].tolist()
    assert recursive[METHOD].acu.mean() > plain[METHOD].acu.mean() + 0.1


def test_models_that_would_have_learned_more_are_counted(planted):
    *_, planner, store = planted
    reader = Reader(planner, store)
    rows = [row for cell in planner.plan.of("training") for row in store.table(cell.name).to_pylist()]
    assert reader.still_learned == {
        row["training"]: row["best_epoch"] == OPTIONS["epochs"] for row in rows if row["trail"]
    }
    reader.still_learned = {str(number): number == 0 for number in range(10)}
    assert reader.too_short.startswith("1 of 10 models of erased texts were best in their last epoch")
    reader.still_learned["10"] = False
    assert reader.too_short == ""


def test_what_is_erased(planted):
    _, _, _, _, planner, store = planted
    by = catalog.spec(catalog.build("explainers", METHOD), full=True)
    test = planner.subject.sets["test"]
    for way, wanted in (("recursive", True), ("once", False)):
        before = Training(0) if way == "once" else planner.training(by, "recursive", 0, 1)
        cell = planner.importances[before][by]
        left, scores = _copies.importance(store.table(cell.name))
        sizes = [len(row) for row in store.table(cell.name).column("scores").to_pylist()]
        gone = np.split(erase(scores, left, sizes, "tokens", 2), np.cumsum(sizes)[:-1])[-len(test) :]
        words = [[word for word, there in zip(example.text.split(), kept, strict=True) if not there]
                 for example, kept in zip(test, gone, strict=True)]  # fmt: skip
        assert all(len(erased) == 2 for erased in words)
        assert np.mean([bool(set(erased) & set(LOUD)) for erased in words]) > 0.95
        both = np.mean([bool(set(erased) & set(LOUD)) and bool(set(erased) & set(QUIET)) for erased in words])
        assert (both > 0.8) == wanted
        assert wanted or both < 0.5


def test_what_both_need_is_trained_once(planted):
    _, recursive, counted, after_plain, planner, store = planted
    # A seed: 0 %, two random, two plain; then only the second recursive one is new.
    assert after_plain == 2 * 5
    assert counted["copies"] == 2 * 6
    assert planner.plan.about["trainings"] == 2 * 6
    assert counted["cells"] < counted["copies"]  # seeds side by side
    assert recursive.trainings == 2 * 5
    assert len(list((store.folder / "files").glob("*/result.json"))) == 2 * 6


def test_the_importance_is_that_of_the_stored_model_on_the_gold_logit(planted):
    _, _, _, _, planner, store = planted
    by = catalog.spec(catalog.build("explainers", METHOD), full=True)
    model = load_model(str(store.folder / "files" / Training(1).name(planner.common)))
    test = list(planner.subject.sets["test"])
    right = explain(model, test, METHOD, units="token", target="gold")
    rows = store.table(planner.importances[Training(1)][by].name).column("scores").to_pylist()[-len(test) :]
    for attribution, row in zip(right, rows, strict=True):
        np.testing.assert_allclose(np.abs(attribution.scores), row, atol=1e-5)


def test_models_that_are_not_explained_are_not_kept(planted):
    _, _, _, _, planner, store = planted
    by = catalog.spec(catalog.build("explainers", METHOD), full=True)
    kept = {path.parent.name for path in (store.folder / "files").glob("*/model.safetensors")}
    wanted = {
        one.name(planner.common) for seed in (0, 1) for one in (Training(seed), planner.training(by, "once", seed, 1))
    }
    assert kept == wanted


def test_random_masks_are_nested_and_everybody_shares_the_ends(tmp_path):
    planner = plan_for(splits(), base(tmp_path), ["gradient", METHOD], ("recursive", "once"), seeds=(0, 1, 2),
                                step=0.25, stack=100, **OPTIONS)  # fmt: skip
    random = [cell for cell in planner.plan.of("importance") if cell.specs["explainer"] == "random"]
    assert len(random) == 3  # one a seed, for all ratios
    # Two ends, three random, and two measures with three steps in two ways, of which the first is the same.
    assert planner.plan.about["trainings"] == 3 * (2 + 3 + 2 * (3 + 2))
    assert len(list(planner.plan.of("training"))) == 2 + 3 + 2  # 0 %, random with 100 %; a step each; plain, by measure
    specs = [cell.specs for cell in planner.plan.of("training")]
    assert all(copy["keep_model"] == (copy["trail"] in ([], [2500], [2500, 5000]) and "random" not in copy["by"])
               for one in specs for copy in one["copies"])  # fmt: skip
    before = [one.name for one in planner.plan.of("training")]
    planner.add(("recursive",))
    assert [one.name for one in planner.plan.of("training")] == before


def test_shares_end_at_everything_and_the_reader_scores(tmp_path):
    data = {"train": texts(60, 0), "validation": texts(20, 1000), "test": texts(20, 2000)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        planner = plan_for(data, base(tmp_path), [METHOD], ("once",), step=0.5, **{**OPTIONS, "epochs": 2})
        store = Store(tmp_path / "run")
        assert run(planner.plan, store).complete
    reader, (method,) = Reader(planner, store), planner.subject.methods
    found = reader.curve(method, "once")
    assert found.places == [0, 0.5, 1]
    assert found.performance[0, 0] == found.random[0, 0]
    assert found.performance[0, 2] == found.random[0, 2]
    shares = reader.sparsity(method)
    assert shares["by_ratio"].shape == (1, 10)
    assert shares["by_ratio"][0, -1] == pytest.approx(1)
    assert np.all(np.diff(shares["by_top"][0]) >= 0)
    times = reader.times()
    assert times[METHOD]["training"] > 0 < times[METHOD]["importance"]


def test_only_the_first_text_of_a_pair_is_erased(tmp_path):
    data = [Example(str(n), text, "is the film good ?", n % 2) for n, text in enumerate(CORPUS * 4)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        planner = plan_for(data, "bilstm_attention(embedding=4, hidden=3)", ["attention"], ("once",), step=0.5)
        store = Store(tmp_path / "run")
        cells = [cell for cell in planner.plan.of("importance") if cell.specs["explainer"] == "random"]
        planner.plan.cells = {cell.name: cell for cell in [*planner.plan.of("data"), *cells]}
        assert run(planner.plan, store).complete
    table = store.table(cells[0].name)
    examples = [example for part in planner.subject.sets.values() for example in part]
    encodings = planner.subject.model.encode(examples, units="token", segments="first")
    assert table.column("example_id").to_pylist() == [example.id for example in examples]
    assert [len(row) for row in table.column("scores").to_pylist()] == [one.n_units for one in encodings]
    read = _copies.Splits(encodings, np.array([one.n_units for one in encodings]), tuple(
        _copies.Corpus(encodings, [0] * len(encodings)) for _ in range(1)))  # fmt: skip
    corpus = read.corpora[0].erased([torch.zeros(one.n_units) for one in encodings])
    rows = corpus.rows(torch.tensor([0]), torch.zeros(1, dtype=torch.int64), planner.subject.model)
    whole = encodings[0].ids
    mask = planner.subject.model.mask_id
    assert [int(new) == mask for new in rows.ids[0]] == [int(unit) >= 0 for unit in encodings[0].units]
    assert (rows.ids[0][encodings[0].units < 0] == whole[encodings[0].units < 0]).all()


def refused(message, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TrothError, match=message) as error:
            roar(*arguments, **options)
    assert "\n" not in str(error.value)


def test_bad_input_is_told_in_one_line_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(_copies, "fit_all", None)
    start, out = "bilstm_attention(embedding=4, hidden=3)", tmp_path / "run"
    refused(
        "cannot be trained: a benchmark that retrains needs a base", splits(), lambda texts: [[1, 0]], [METHOD], out
    )
    black_box = load_model(lambda texts: np.full((len(texts), 2), 0.5))
    refused("cannot be trained", splits(), black_box, [METHOD], out)
    refused("bilstm_attention", splits(), start, ["decomp_x"], out)
    refused("step must divide 1", splits(), start, [METHOD], out, step=0.3)
    few = {**splits(), "train": [*[one for one in texts(20, 0) if one.label == 0], texts(2, 0)[1]]}
    refused(r"1 of 11 train examples are of class '1'; retraining needs two of each", few, start, [METHOD], out)
    refused(r"1 of 3 train .* raise --limit", splits(), start, [METHOD], out, limit=3)
    refused("no explainer is called 'grad'", splits(), start, ["grad"], out)
    refused("stack=4: .* not zero; use stack=1", splits(), start, [METHOD], out, stack=4, masking="zero")
    refused("seed", splits(), start, [METHOD], out, seeds=())
    assert not out.exists()
