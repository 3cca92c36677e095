"""Where nobody sees a bar, a line is printed from time to time, also while one item takes long."""

import threading
from types import SimpleNamespace

import pytest

from troth.core import progress
from troth.training.loop import TrainingBar


@pytest.fixture
def told(monkeypatch):
    """The lines so far; `told.wait()` until there is another."""
    came, texts = threading.Event(), []

    def echo(text, *, err):
        assert err
        texts.append(text)
        came.set()

    monkeypatch.setattr(progress, "EVERY", 0.001)
    monkeypatch.setattr(progress.terminal, "echo", echo)

    def wait():
        came.clear()
        assert came.wait(30)
        return texts[-1]

    return SimpleNamespace(wait=wait, texts=texts)


def test_items_are_counted_in_lines(told):
    lines = [told.wait() for _ in progress.track(range(3), 3, "lime", shown=True)]
    assert lines[0].startswith("lime: 1 of 3 after 0 s, about 0 s left")
    assert lines[-1].startswith("lime: 3 of 3 after ")


def test_a_run_says_how_far_it_is(told):
    with progress.run_bar(True) as show:
        assert not told.texts  # what is wrong with a plan is one line
        show(SimpleNamespace(done=3, total=12, left=75.0, failed=1, stopping=False))
        told.wait()
        assert told.wait().startswith("3 of 12 cells (pieces of work), 1 min 15 s left, 1 failed (after ")


def test_a_training_says_how_far_it_is(told):
    bar = TrainingBar(10, 4, shown=True)
    with bar, progress.lines(True, bar.line):
        assert not told.texts  # nothing before the first step
        bar.step(1, 2, 0.25)
        assert told.wait() == "epoch 1/2, 5 of 10 steps, loss 0.2500"
        bar.end_epoch("accuracy", 0.5, 1)
        told.wait()
        assert told.wait() == "epoch 1/2, 5 of 10 steps, loss 0.2500, accuracy 50.0 % (best: epoch 1)"


def test_nothing_is_said_where_it_is_not_wanted(told):
    assert list(progress.track(range(3), 3, "lime", shown=False)) == [0, 1, 2]
    with progress.hidden():
        assert list(progress.track(range(3), 3, "lime", shown=True)) == [0, 1, 2]
    with progress.run_bar(False) as show:
        assert show is None
    assert not told.texts
