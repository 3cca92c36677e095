"""The docs site: whole, made of the catalog's files, fetching nothing; the tutorials run and keep what they show."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from troth.core import catalog

ROOT = Path(__file__).parents[1]
WEBSITE = ROOT / "scripts" / "website"
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
NAV = ROOT / "mkdocs.yml"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


method_pages, notebook_pages = load(WEBSITE / "method_pages.py"), load(WEBSITE / "notebook_pages.py")


def pages_of(nav):
    for entry in nav if isinstance(nav, list) else nav.values():
        yield from [entry] if isinstance(entry, str) else pages_of(entry)


def test_every_page_is_in_the_navigation():
    listed = set(pages_of(yaml.safe_load(NAV.read_text(encoding="utf-8"))["nav"]))
    guides = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert guides <= listed, f"not in mkdocs.yml: {sorted(guides - listed)}"
    assert {f"tutorials/{path.stem}.md" for path in TUTORIALS} <= listed


@pytest.mark.parametrize("kind", method_pages.KINDS)
def test_every_method_says_what_its_page_needs(kind):
    for name in catalog.names(kind):
        found = catalog.find(kind, name)
        assert found.formula, f"{name} has no formula"
        assert found.pitfalls.endswith("."), f"{name}: pitfalls is a sentence"


def test_a_method_page_is_made_of_its_file_and_of_an_example_that_was_run():
    page = method_pages.method_page("explainers", "leave_one_out")
    assert page.startswith("# leave_one_out\n\nHow much the class's value falls when the unit alone is erased.")
    assert "sᵢ = f(x) − f(x without i)" in page
    assert "n + 1" in page
    assert "of two words that say the same" in page
    assert "Li, Jiwei" in page
    shown = re.search(r'<span title="([^"]*)"[^>]*>wonderful</span>', page)
    assert float(shown[1]) == pytest.approx(2.98, abs=0.01)  # as `troth explain` prints it


def test_a_metric_page_measures_the_same_text_under_several_explanations():
    page = method_pages.method_page("metrics", "comprehensiveness")
    values = [float(value) for value in re.findall(r"<b>(-?\d\.\d{3})</b>", page)]
    assert len(values) == len(method_pages.SHOWN)
    assert max(values) > values[method_pages.SHOWN.index("random")]


def test_a_method_that_needs_more_says_what():
    assert "troth fit attributive_masking" in method_pages.method_page("explainers", "attributive_masking")


def test_a_notebook_is_shown_with_text_as_text(tmp_path):
    stream = {"output_type": "stream", "name": "stdout", "text": ["<script>\n", "\x1b[31mred\x1b[0m"]}
    hidden = {"output_type": "stream", "name": "stderr", "text": ["warned"]}
    rich = {"output_type": "execute_result", "data": {"text/html": ["<b>a</b>\n", "\n", "b"], "text/plain": ["no"]}}
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [stream, hidden, rich]},
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    assert notebook_pages.notebook_page(path) == (
        "# Title\n\n```python\n1 + 1\n```\n\n"
        '<pre class="printed">&lt;script&gt;&#10;red</pre>\n\n<div class="shown"><b>a</b>  b</div>\n'
    )


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_keep_what_they_show(path):
    code = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    kinds = [output["output_type"] for cell in code for output in cell["outputs"]]
    assert kinds, "run python scripts/tutorials.py"
    assert "error" not in kinds
    assert all(cell["execution_count"] == place for place, cell in enumerate(code, start=1)), "run from top to bottom"


@pytest.mark.full
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run(path):
    fresh = load(ROOT / "scripts" / "tutorials.py").run(path)
    kept = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for cell, before in zip(fresh.cells, kept, strict=True):
        now = [(output.output_type, sorted(output.get("data", {}))) for output in cell.get("outputs", [])]
        then = [(output["output_type"], sorted(output.get("data", {}))) for output in before.get("outputs", [])]
        assert now == then, f"{before['id']} shows something else now; run python scripts/tutorials.py {path.stem}"


OUTSIDE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=["']?(?:https?:)?//[^>]*>"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preload|preconnect|icon))[^>]*\bhref=["']?(?:https?:)?//[^>]*>"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//""",
    re.IGNORECASE,
)


def test_what_is_fetched_from_outside_is_seen():
    for bad in (
        '<script src="https://unpkg.com/iframe-worker/shim"></script>',
        '<link rel="stylesheet" href="https://fonts.googleapis.com/css">',
        '<link href="//a.b/c.css" rel=stylesheet>',
        "src: url(https://cdnjs.cloudflare.com/a.woff)",
    ):
        assert OUTSIDE.search(bad), bad
    assert not OUTSIDE.search('<a href="https://squidfunk.github.io">x</a><link rel="canonical" href="https://a.b">')


def test_pictures_fetch_nothing():
    for picture in (ROOT / "docs").rglob("*.svg"):
        assert not OUTSIDE.search(picture.read_text(encoding="utf-8")), picture.name


@pytest.mark.full
def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path):
    # A proxy that is not there: whoever wants the network fails.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment = {**os.environ, **nowhere, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    built = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    methods = {f"{kind}/{name}.html" for kind in method_pages.KINDS for name in catalog.names(kind)}
    assert methods | {f"tutorials/{path.stem}.html" for path in TUTORIALS} | {"index.html", "changelog.html"} <= built
    for page in (tmp_path / "site").rglob("*.html"):
        found = OUTSIDE.search(page.read_text(encoding="utf-8"))
        assert found is None, f"{page.name} fetches {found[0]}"
