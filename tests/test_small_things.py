"""What people miss at once: bars that are ours, memory that runs out in any class, time left that can be believed."""

import io

import pytest
import torch
import transformers

import fakes
import troth
from troth.core import progress
from troth.core.errors import TrothError
from troth.core.memory import ran_out
from troth.core.terminal import Console
from troth.models._loading import quiet
from troth.store.cells import Cell
from troth.sweep.pace import Pace, Remaining

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

    with pytest.raises(ValueError, match="planted"), quiet():
        assert not transformers.utils.logging.is_progress_bar_enabled()
        assert not utils.are_progress_bars_disabled()  # a download may take long
        raise ValueError("planted")
    assert loud() == (True, True, True)


@pytest.fixture
def screen(monkeypatch):
    """Standard error as a terminal that shows bars at once."""
    written = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda **options: Console(file=written, force_terminal=True, width=100, **{})
    )
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
    """Cheap methods first, expensive ones last; a pass takes up to 40 % more or less than another."""
    cheap = ["random", "gradient", "input_x_gradient", "leave_one_out", "integrated_gradients"]
    order = [*cheap, "kernel_shap", "lime", "beam_search"]
    passes = {"random": 1, "gradient": 2, "input_x_gradient": 2, "leave_one_out": 25, "integrated_gradients": 41,
              "kernel_shap": 1002, "lime": 895, "beam_search": 2198}  # fmt: skip
    truth = {}
    for seed in range(2):
        for place, explainer in enumerate(order):
            uneven = 1 + 0.4 * (-1) ** (place + seed)
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
        pace=pace, running={one.name: one}, started={one.name: 1_000.0},
        graph=SimpleNamespace(remaining=Remaining([one, other]), open=2),
    )  # fmt: skip
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: 1_090.0)
    assert scheduler.Scheduler._left(state, 1) == pytest.approx(110)  # 10 s of the one, 100 of the other
    assert scheduler.Scheduler._left(state, 2) == pytest.approx(55)
    monkeypatch.setattr(scheduler.time, "monotonic", lambda: 1_010.0)
    assert scheduler.Scheduler._left(state, 8) == pytest.approx(95)
    state.graph.remaining.remove(other)
    assert scheduler.Scheduler._left(state, 8) == pytest.approx(90)  # the last one is waited for
