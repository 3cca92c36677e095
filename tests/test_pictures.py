"""Pictures of the README and the docs say what the program prints today, and fetch nothing."""

import html
import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pictures():
    return load("pictures")


def words(text):
    """Its words and marks; a number is a #, for it moves a little with the version of torch."""
    return re.findall(r"[^\W\d]+|[^\w\s]", re.sub(r"[-+]?\d+(\.\d+)?", "#", text))


def texts_of(picture):
    """The lines of a terminal drawn as SVG: pieces of one height, from left to right."""
    lines = {}
    for x, y, piece in re.findall(r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', picture):
        lines.setdefault(float(y), []).append((float(x), html.unescape(piece)))
    return [" ".join(piece for _, piece in sorted(line)) for _, line in sorted(lines.items())]


def test_the_picture_of_explain_is_up_to_date(pictures):
    drawn = "\n".join(texts_of((ROOT / "docs/images/explain.svg").read_text(encoding="utf-8")))
    printed = pictures.explained().export_text()
    title = f'troth explain "{pictures.TEXT[:24]}…"'
    apart = Counter(words(drawn)), Counter(words(f"{title} {printed}"))
    assert apart[0] == apart[1], f"draw it again with scripts/pictures.py: {apart[0] - apart[1]}, {apart[1] - apart[0]}"


def test_the_picture_of_explain_fetches_nothing():
    assert "url(" not in re.sub(r"url\(#", "", (ROOT / "docs/images/explain.svg").read_text(encoding="utf-8"))


def test_the_drawing_of_erasing_has_the_numbers_of_the_embedded_model():
    said = load("drawings").probabilities()
    drawn = re.findall(r">([\d.]+)%<", (ROOT / "docs/images/erasing.svg").read_text(encoding="utf-8"))
    assert [float(number) for number in drawn] == pytest.approx([100 * value for value in said], abs=0.1)
    assert said[1] < said[2] - 0.1


@pytest.mark.full
def test_the_drawing_of_curves_is_up_to_date():
    drawings = load("drawings")
    now = drawings.curve(drawings.curves())
    kept = (ROOT / "docs/images/curve.svg").read_text(encoding="utf-8")
    points = [[float(number) for number in re.findall(r"\d+", picture)] for picture in (kept, now)]
    assert points[0] == pytest.approx(points[1], abs=4), "draw it again with scripts/drawings.py"
