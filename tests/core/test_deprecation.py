"""What docs/reference/stability.md promises: an old name works, and warns once with the new one."""

import warnings
from pathlib import Path

import pytest

import troth
from troth.core import errors

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "stability.md"


@pytest.fixture
def caught(monkeypatch):
    monkeypatch.setattr(errors, "_WARNED", set())
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def test_a_renamed_argument_works_and_warns_once_at_the_caller(caught):
    for _ in range(2):
        assert troth.load_model(model="embedded").labels == ("negative", "positive")
    (warning,) = [one for one in caught if one.category is DeprecationWarning]
    assert str(warning.message) == "load_model(model=…) is now load_model(…), without a name"
    assert warning.filename == __file__


def test_the_new_name_does_not_warn(caught):
    troth.load_model("embedded")
    assert not [one for one in caught if one.category is DeprecationWarning]


def test_the_page_names_what_changed():
    page = PAGE.read_text(encoding="utf-8")
    assert "load_model(model=…) is now load_model(…), without a name" in page
