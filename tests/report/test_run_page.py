"""report.html: one file, its data cannot leave their place, and the shipped script is the one that the sources give."""

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.report import page_runs

from troth.core.types import Example
from troth.report.run_page import asset, script_json, write_report

SOURCES = Path(__file__).parents[2] / "page"


def data_of(page, name):
    return re.search(rf'<script type="[a-z/]+" id="{name}">(.*?)</script>', page, re.DOTALL)[1]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    store = page_runs.three(folder / page_runs.HOSTILE.replace("/", "∕"), labels=("bad", page_runs.HOSTILE))
    write_report(store, folder / "report.html")
    return (folder / "report.html").read_text()


def test_hostile_texts_labels_and_names_stay_data(page):
    assert len(re.findall("</script", page)) == 3  # the page's own
    assert "<script>alert" not in page
    report = json.loads(data_of(page, "report-data"))
    assert report["boards"][0]["labels"][1] == page_runs.HOSTILE
    examples = json.loads(gzip.decompress(base64.b64decode(data_of(page, "report-examples"))))
    assert examples[0][2]["text"].startswith(page_runs.HOSTILE)
    assert script_json("<!--</script>") == '"\\u003c!--\\u003c/script>"'


def test_nothing_is_fetched(page):
    assert not re.search(r'\b(src|href)="?(https?:)?//', page)
    assert "url(" not in asset("page.css")
    assert "@import" not in asset("page.css")
    assert "default-src &#x27;none&#x27;" in page


def test_the_same_run_gives_the_same_bytes(tmp_path):
    store = page_runs.three(tmp_path / "run")
    for name in ("one.html", "two.html"):
        write_report(store, tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


@pytest.mark.full
def test_a_thousand_examples_take_less_than_three_megabytes(tmp_path, capsys):
    generator = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(3000)])
    texts = [" ".join(generator.choice(words, 40)) for _ in range(1000)]
    examples = [Example(str(place), text, label=place % 2) for place, text in enumerate(texts)]
    names = ["gradient", "lime", "attention", "deep_lift", "leave_one_out", "kernel_shap", "alti", "random"]
    rows = {
        name: [page_runs.explanation(one, generator.normal(size=40).tolist()) for one in examples] for name in names
    }
    left = generator.uniform(size=(len(names), 1000, 5))
    curves = {
        name: {page_runs.CURVED: [page_runs.erased(0.8, some.tolist(), (0, 2, 4, 8, 20)) for some in left[place]]}
        for place, name in enumerate(names)
    }
    write_report(page_runs.stored(tmp_path / "run", examples, rows, curves), tmp_path / "report.html")
    size = (tmp_path / "report.html").stat().st_size
    print(f"report.html of 1,000 examples: {size / 1e6:.2f} MB")
    assert size < 3_000_000
    shown = gzip.decompress(base64.b64decode(data_of((tmp_path / "report.html").read_text(), "report-examples")))
    assert len(json.loads(shown)[0]) == 1000


@pytest.mark.skipif(not SOURCES.is_dir(), reason="the front end's sources are not in a wheel")
def test_what_is_shipped_was_built_from_the_sources():
    fixed = ("package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")
    files = sorted([*fixed, *(path.relative_to(SOURCES).as_posix() for path in (SOURCES / "src").rglob("*.*"))])
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.encode() + b"\0" + (SOURCES / file).read_bytes() + b"\0")
    assert asset("source.txt").strip() == digest.hexdigest(), "page/ was changed: run make page"
    assert "Preact" in asset("licenses.txt")
    assert "</script" not in asset("page.js").lower()
