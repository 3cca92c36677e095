"""What people miss at once: bars that are ours, memory that runs out in any class, time left that can be believed."""

import io

import numpy as np
import pytest
import torch
import transformers

import fakes
import troth
from troth.core import catalog, progress, spec_text
from troth.core.errors import TrothError
from troth.core.memory import free, ran_out
from troth.core.terminal import Console
from troth.models._loading import quiet
from troth.store.cells import Cell
from troth.sweep.estimate import Pace, Remaining

# --- bars


@pytest.fixture
def loud():
    """A user who lets transformers print all it has."""
    from huggingface_hub import utils

    logging = transformers.utils.logging
    before = logging.get_verbosity()
    logging.enable_progress_bar()
    logging.set_verbosity_info()
    yield lambda: (
        logging.is_progress_bar_enabled(),
        logging.get_verbosity() == logging.INFO,
        not utils.are_progress_bars_disabled(),
    )
    logging.set_verbosity(before)
    logging.disable_progress_bar()


def test_training_and_loading_print_no_bars_of_transformers(loud, tmp_path, capfd, films):
    fakes.hf_model(classes=3).save_pretrained(tmp_path / "base")  # a head for other classes: a LOAD REPORT
    fakes.tokenizer_for("bert").save_pretrained(tmp_path / "base")
    capfd.readouterr()
    transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base")
    assert "Loading weights" in capfd.readouterr().err  # which is what transformers does by itself
    data = troth.load_data(films(8))
    trained = troth.train("plain", data, str(tmp_path / "base"), tmp_path / "new", epochs=1, hold_out=0.25, cpu=True)
    troth.explain(str(trained.folder), "a fine film", "random")
    said = capfd.readouterr()
    assert "Loading weights" not in said.err + said.out
    assert "Writing model shards" not in said.err + said.out
    assert "LOAD REPORT" not in said.err + said.out
    assert loud() == (True, True, True)


def test_settings_of_transformers_are_put_back_after_an_error(loud):
    from huggingface_hub import utils

    @quiet()
    def fail():
        assert not transformers.utils.logging.is_progress_bar_enabled()
        assert not utils.are_progress_bars_disabled()  # a download may take long
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        fail()
    assert loud() == (True, True, True)


@pytest.fixture
def screen(monkeypatch):
    """Standard error as a terminal that shows bars at once."""
    written = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda **options: Console(file=written, force_terminal=True, width=100))
    monkeypatch.setattr(progress, "_SOON", -1.0)
    return written


def test_the_python_api_shows_its_own_bar_and_can_be_told_not_to(screen, tmp_path):
    texts = ["a good film", "a bad film"]
    found = troth.explain("embedded", texts, "leave_one_out", progress=False)
    troth.measure("embedded", found, "comprehensiveness", progress=False)
    bench = {"limit": 2, "metrics": ["comprehensiveness"]}
    troth.bench("embedded", "reviews", ["random"], out=tmp_path / "one", progress=False, **bench)
    assert screen.getvalue() == ""
    troth.explain("embedded", texts, "leave_one_out")
    assert "leave_one_out" in screen.getvalue()
    assert "2/2" in screen.getvalue()
    troth.measure("embedded", found, "comprehensiveness")
    assert "comprehensiveness" in screen.getvalue()
    troth.bench("embedded", "reviews", ["random"], out=tmp_path / "two", **bench)
    assert "cells" in screen.getvalue()


def test_what_is_done_in_a_moment_needs_no_bar(screen, monkeypatch):
    monkeypatch.setattr(progress, "_SOON", 60.0)
    assert list(progress.track(range(3), 3, "counting", shown=True)) == [0, 1, 2]
    assert screen.getvalue() == ""


def test_cells_show_no_bars_of_their_own(screen):
    with progress.hidden():
        list(progress.track(range(3), 3, "counting", shown=True))
    assert screen.getvalue() == ""
    list(progress.track(range(3), 3, "counting", shown=True))
    assert "counting" in screen.getvalue()


# --- memory


def accelerator_error(text):
    """As torch 2.11 and later raise it: not an OutOfMemoryError."""
    kind = getattr(torch, "AcceleratorError", RuntimeError)
    error = kind.__new__(kind)
    error.args = (text,)
    return error


def test_memory_that_runs_out_is_told_whatever_the_class():
    assert ran_out(accelerator_error("CUDA error: out of memory"))
    assert ran_out(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    assert ran_out(RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory"))
    assert ran_out(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    assert not ran_out(accelerator_error("CUDA error: an illegal memory access was encountered"))


def test_what_torch_keeps_to_use_again_counts_as_free(monkeypatch):
    """Else every explanation of a long run would get smaller batches than the one before."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10 << 30, 80 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 60 << 30)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 5 << 30)
    assert free(torch.device("cuda")) == 65 << 30


def test_a_training_says_what_to_do_where_an_accelerator_has_no_memory(monkeypatch, tmp_path, films):
    from troth.models.encoder import Encoder

    def full(*arguments, **options):
        raise accelerator_error("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported")

    monkeypatch.setattr(Encoder, "_call", full)
    monkeypatch.setattr(transformers.BertModel, "forward", full)
    data = troth.load_data(films(8))
    base = "scratch(layers=1, hidden=16)"
    with pytest.raises(TrothError, match=r"rows do not fit into memory at once; pass --rows-per-pass \d"):
        troth.train("plain", data, base, tmp_path / "new", epochs=1, hold_out=0.25, cpu=True)


# --- time left

SECONDS = 0.002  # a pass


def explanation(explainer, number):
    specs = {"explainer": explainer, "explainer_full": explainer, "examples": 50, "model": "m", "seed": number}
    return Cell("explanation", specs)


def metric(explainer, name, number):
    specs = {**explanation(explainer, number).specs, "metric": name, "metric_full": name}
    return Cell("metric", specs)


@pytest.mark.parametrize("overhead", [0.002, 0.02], ids=["fast model", "slow around it"])
def test_time_left_is_within_a_factor_of_two_after_the_first_tenth(overhead):
    """Cheap methods first, expensive ones last; a pass takes up to 25 % more or less than another."""
    cheap = ["random", "gradient", "input_x_gradient", "leave_one_out", "integrated_gradients"]
    order = [*cheap, "kernel_shap", "lime", "beam_search"]
    passes = {"random": 1, "gradient": 2, "input_x_gradient": 2, "leave_one_out": 25, "integrated_gradients": 41,
              "kernel_shap": 1002, "lime": 895, "beam_search": 2198}  # fmt: skip
    truth = {}
    for seed in range(2):
        for place, explainer in enumerate(order):
            uneven = 1 + 0.25 * (-1) ** (place + seed)
            cell = explanation(explainer, seed)
            truth[cell.name] = (cell, 50 * (overhead + uneven * SECONDS * passes[explainer]))
            for name in ("comprehensiveness", "aopc_sufficiency", "recursive_erasure"):
                cell = metric(explainer, name, seed)
                again = 0.15 if explainer == "beam_search" else 8.15  # 15 % are explained for another class first
                asked = {"comprehensiveness": 2, "aopc_sufficiency": 6}.get(name, 20 + again * passes[explainer])
                truth[cell.name] = (cell, 50 * (overhead + uneven * SECONDS * asked))
    cells = sorted(truth.values(), key=lambda item: order.index(item[0].specs["explainer"]))
    pace, remaining = Pace(), Remaining(cell for cell, _ in cells)
    left = sum(seconds for _, seconds in cells)
    for done, (cell, seconds) in enumerate(cells, start=1):
        pace.learn(cell.kind, cell.specs, seconds)
        remaining.remove(cell)
        left -= seconds
        if len(cells) / 10 <= done < len(cells):
            assert left / 2 <= remaining.seconds(pace) <= 2 * left, (done, cell.specs)


def test_what_is_being_worked_on_counts_as_done_in_part(monkeypatch):
    from types import SimpleNamespace

    from troth.sweep import scheduler

    pace, cell = Pace(), explanation("lime", 0)
    pace.learn("explanation", cell.specs, 100.0)
    one, other = explanation("lime", 1), explanation("lime", 2)
    state = SimpleNamespace(
        pace=pace, running={one.name: one}, started={one.name: 1_000.0}, cut={},
        graph=SimpleNamespace(remaining=Remaining([one, other]), open=2),
    )  # fmt: skip
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: 1_090.0)
    assert scheduler.Scheduler._left(state, 1) == pytest.approx(110)  # 10 s of the one, 100 of the other
    assert scheduler.Scheduler._left(state, 2) == pytest.approx(55)
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: 1_010.0)
    assert scheduler.Scheduler._left(state, 8) == pytest.approx(95)
    state.graph.remaining.remove(other)
    assert scheduler.Scheduler._left(state, 8) == pytest.approx(90)  # the last one is waited for


# --- wrong kinds of arguments


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: troth.explain("embedded", 5, "lime"), "texts must be a text, .* not 5 (int)"),
        (lambda: troth.explain("embedded", "x", 5), "explainer must be a name, an object, or a list"),
        (lambda: troth.explain("embedded", "x", [5]), "5 is not an explainer; give a name such as leave_one_out"),
        (lambda: troth.explain("embedded", "x", "random", target=None), 'target must be "predicted"'),
        (lambda: troth.explain("embedded", "x", "random", seed="a"), "seed must be a whole number, not 'a' (str)"),
        (lambda: troth.explain("embedded", "x", "random", masking=5), "masking must be a name such as delete"),
        (lambda: troth.measure("embedded", "x", "sufficiency"), "attributions must be what explain gives"),
        (lambda: troth.measure("embedded", None, "sufficiency"), "attributions must be what explain gives"),
        (lambda: troth.measure("embedded", [], 5), "metric must be a name"),
        (lambda: troth.bench("embedded", "reviews", explainers=5), 'explainers must be a list such as ["random", …]'),
        (lambda: troth.bench("embedded", "reviews", ["random"], 5), "metrics must be a list"),
        (lambda: troth.bench("embedded", "reviews", seeds=5), "seeds must be a list of whole numbers, not 5 (int)"),
        (lambda: troth.bench("embedded", "reviews", out=5), "out must be a folder, not 5 (int)"),
        (lambda: troth.bench("embedded", "reviews", limit="a"), "limit must be a whole number, not 'a' (str)"),
        (lambda: troth.load_model("embedded", max_length="x"), "max_length must be a whole number, not 'x' (str)"),
        (lambda: troth.load_data("reviews", split=5), "split must be the name of a split, not 5 (int)"),
        (lambda: troth.train(5, "reviews", "embedded", "new"), 'recipe must be a name such as "plain"'),
        (lambda: troth.train("plain", "reviews", 5, "new"), "base must be a folder, a hub name, or a Base"),
        (lambda: troth.check("embedded", "reviews", explainers=5), "explainers must be a list"),
    ],
)  # fmt: skip
def test_a_wrong_kind_of_argument_is_one_clear_line(call, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TrothError) as caught:
        call()
    first, _, second = line.partition(".*")
    assert str(caught.value).startswith(first.strip()), str(caught.value)
    assert second.strip() in str(caught.value)


def test_whole_numbers_of_numpy_are_numbers_and_one_attribution_is_a_list():
    seed = np.int64(3)
    (found,) = troth.explain("embedded", "a fine film", "random", target=np.int64(1), seed=seed)
    assert found.target == 1
    assert troth.measure("embedded", found, "sufficiency", seed=seed)[0].value == pytest.approx(
        troth.measure("embedded", [found], "sufficiency")[0].value
    )


# --- names


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("intgrated_gradeints", "integrated_gradients"),  # slips
        ("integrated", "integrated_gradients"),  # a beginning
        ("loo", "leave_one_out"),  # initials
        ("shap", "exact_shapley, gradient_shap or kernel_shap"),  # a word of several
        ("lime_text", "lime"),  # more than there is
        ("atention", "attention"),
    ],
)
def test_what_was_meant_is_found_by_distance_and_beginning(name, meant):
    with pytest.raises(TrothError, match=rf"no explainer is called '{name}'; did you mean {meant}\?"):
        troth.explain("embedded", "x", name)


def test_nothing_is_guessed_where_nothing_is_near():
    with pytest.raises(TrothError, match=r"no explainer is called 'qqqqqq'; there are: "):
        troth.explain("embedded", "x", "qqqqqq")


def test_paths_in_specs_need_no_quotes():
    assert catalog.parse("attributive_masking(checkpoint=runs/g)")[1] == {"checkpoint": "runs/g"}
    read = catalog.parse("attributive_masking(checkpoint=~/my-runs/g.1, steps=10)")[1]
    assert read == {"checkpoint": "~/my-runs/g.1", "steps": 10}
    assert catalog.parse("a(b=./x,c='d=e/f, g',h=1e-5,i=-2)")[1] == {"b": "./x", "c": "d=e/f, g", "h": 1e-5, "i": -2}
    assert catalog.parse("a(b=C:\\runs\\g)")[1] == {"b": "C:\\runs\\g"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("random,leave_one_out", ["random", "leave_one_out"]),
        ("lime(samples=50, ridge=2),random", ["lime(samples=50, ridge=2)", "random"]),
        ("a(b=(1,2),c='x),y'),d", ["a(b=(1,2),c='x),y')", "d"]),
        (" a , b,", ["a", "b"]),
        ("lime(samples=5", ["lime(samples=5"]),
    ],
)
def test_lists_are_cut_at_commas_outside_brackets_and_quotes(text, parts):
    assert spec_text.split(text) == parts
