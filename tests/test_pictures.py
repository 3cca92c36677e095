"""Pictures of the README and the docs say what the program prints today, and fetch nothing."""

import html
import importlib.util
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from browsing import browser as browser

ROOT = Path(__file__).parents[1]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pictures():
    return load("pictures")


def words(text):
    """Its words and marks; a number is a #, for it moves a little with the version of torch, and so is a version."""
    return re.findall(r"[^\W\d]+|[^\w\s]", re.sub(r"[-+−]?\d+(\.(dev)?\d+)*", "#", text))


def texts_of(picture):
    """The lines of a terminal drawn as SVG: pieces of one height, from left to right."""
    lines = {}
    for x, y, piece in re.findall(r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', picture):
        lines.setdefault(float(y), []).append((float(x), html.unescape(piece)))
    return [" ".join(piece for _, piece in sorted(line)) for _, line in sorted(lines.items())]


@pytest.fixture(scope="module")
def screens():
    pytest.importorskip("playwright.sync_api", reason="needs playwright (the dev extra)")
    return load("screens")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """What `troth bench` stores today."""
    folder = tmp_path_factory.mktemp("pictures") / "bench"
    command = [sys.executable, "-m", "troth", "bench", "--workers", "1", "--out", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def same(drawn, printed, redraw):
    apart = Counter(words(drawn)), Counter(words(printed))
    assert apart[0] == apart[1], f"draw it again with {redraw}: {apart[0] - apart[1]}, {apart[1] - apart[0]}"


def lines_of(name):
    return "\n".join(texts_of((ROOT / "docs/images" / name).read_text(encoding="utf-8")))


def test_the_picture_of_explain_is_up_to_date(pictures):
    same(lines_of("explain.svg"), f"{pictures.TITLE} {pictures.explained().export_text()}", "scripts/docs/pictures.py")


@pytest.mark.full
def test_the_picture_of_bench_is_up_to_date(pictures, bench):
    printed = pictures.benched(str(bench)).export_text()
    same(lines_of("bench.svg"), f"troth bench {printed}", "scripts/docs/pictures.py RUN")


@pytest.mark.full
def test_the_photographs_of_the_pages_are_up_to_date(screens, bench, browser):
    with screens.served() as address:
        pages = {
            "report.png": screens.report(browser, str(bench)),
            "report_dark.png": screens.report(browser, str(bench), "dark"),
            "examples.png": screens.examples(browser, str(bench)),
            "serve.png": screens.serve(browser, address),
        }
        for name, page in pages.items():
            with Image.open(ROOT / "docs/images" / name) as picture:
                same(picture.info[screens.SAYS], screens.seen(page, name), f"scripts/docs/screens.py RUN ({name})")


@pytest.mark.parametrize("name", ["explain.svg", "bench.svg"])
def test_a_picture_fetches_nothing(name):
    assert "url(" not in re.sub(r"url\(#", "", (ROOT / "docs/images" / name).read_text(encoding="utf-8"))


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
    assert points[0] == pytest.approx(points[1], abs=4), "draw it again with scripts/docs/drawings.py"
