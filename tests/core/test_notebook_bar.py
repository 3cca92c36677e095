"""Bars in a notebook without ipywidgets: one picture that is replaced, not too often, and gone in the end."""

import sys
import types
import warnings

import pytest
from tests.core.test_display import Tags

from troth.core import progress
from troth.core.terminal import Console
from troth.training.loop import TrainingBar


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook is given to show, picture by picture; there is no ipywidgets."""
    pictures = []

    class Handle:
        def update(self, shown):
            pictures.append(shown)

    def display(shown, display_id):
        assert display_id is True
        pictures.append(shown)
        return Handle()

    fake = types.ModuleType("IPython.display")
    fake.display, fake.HTML = display, str
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    monkeypatch.setattr(progress, "Console", lambda **options: Console(force_jupyter=True, **options))
    monkeypatch.setattr(progress, "_SOON", -1.0)
    monkeypatch.setattr(progress, "_PAUSE", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield pictures


def test_items_are_counted(notebook, capsys):
    assert list(progress.track(range(3), 3, "<b>count</b>", shown=True)) == [0, 1, 2]
    *shown, last = map(Tags, notebook)
    values = [facts["value"] for page in shown for tag, facts in page.tags if tag == "progress"]
    assert values == ["1", "2", "3"]
    assert "<b>count</b>" in shown[0].text
    assert "2/3" in shown[1].text
    assert last.tags == []  # nothing is left
    assert capsys.readouterr() == ("", "")


def test_pictures_are_not_sent_too_often(notebook, monkeypatch):
    monkeypatch.setattr(progress, "_PAUSE", 60.0)
    list(progress.track(range(1000), 1000, "many", shown=True))
    assert len(notebook) == 2  # the first, and its end


def test_a_run_and_a_training_show_theirs(notebook):
    with progress.run_bar(True) as show:
        show(types.SimpleNamespace(done=1, total=4, left=90, failed=2, stopping=False))
    assert any("1 of 4 cells" in page and "1 min 30 s left, 2 failed" in page for page in notebook)
    with TrainingBar(10, 0, shown=True) as line:
        line.step(1, 2, 0.25)
    assert any("epoch 1/2" in page and "loss 0.2500" in page for page in notebook)


def test_none_where_none_is_wanted(notebook):
    list(progress.track(range(3), 3, "quiet", shown=False))
    with progress.hidden():
        list(progress.track(range(3), 3, "quiet", shown=True))
    assert notebook == []


def test_an_error_leaves_no_bar(notebook):
    def items():
        yield 1
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        list(progress.track(items(), 2, "failing", shown=True))
    assert notebook[-1] == ""
