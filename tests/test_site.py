"""The docs site: whole, made of the catalog's files, fetching nothing; the tutorials run and keep what they show."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import troth
from troth.core import catalog

ROOT = Path(__file__).parents[1]
WEBSITE = ROOT / "scripts" / "docs" / "website"
TUTORIALS = sorted((ROOT / "docs" / "guide" / "tutorials").glob("*.ipynb"))
NAV = ROOT / "mkdocs.yml"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


method_pages, notebook_pages = load(WEBSITE / "method_pages.py"), load(WEBSITE / "notebook_pages.py")
shown_blocks, redirects = load(WEBSITE / "shown_blocks.py"), load(WEBSITE / "redirects.py")


def pages_of(nav):
    for entry in nav if isinstance(nav, list) else nav.values():
        yield from [entry] if isinstance(entry, str) else pages_of(entry)


def test_every_page_is_in_the_navigation():
    listed = set(pages_of(yaml.safe_load(NAV.read_text(encoding="utf-8"))["nav"]))
    there = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert there <= listed, f"not in mkdocs.yml: {sorted(there - listed)}"
    assert {f"guide/tutorials/{path.stem}.md" for path in TUTORIALS} <= listed


def test_pages_are_short():
    """At most 150 lines, except appendices and lists that scripts write."""
    written = {f"methods/{kind}.md" for kind in method_pages.KINDS} | {"reference/referee.md"}
    docs = ROOT / "docs"
    pages = {page.relative_to(docs).as_posix(): page for page in docs.rglob("*.md") if page.stem != "appendix"}
    lines = {name: len(page.read_text(encoding="utf-8").splitlines()) for name, page in pages.items()}
    assert {name: count for name, count in lines.items() if count > 150 and name not in written} == {}
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 100


def test_old_addresses_lead_to_pages_that_are_there():
    for old, new in redirects.MOVED.items():
        page = ROOT / "docs" / new.partition("#")[0].replace(".html", ".md")
        assert page.exists(), f"{old} leads to {new}"
        if "#" in new:
            headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
            assert new.partition("#")[2] in {heading.lower().replace(" ", "-") for heading in headings}


def test_stubs_are_written_for_old_addresses(tmp_path):
    built = [*{new.partition("#")[0] for new in redirects.MOVED.values()}, "methods/metrics/sufficiency.html"]
    for page in built:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).write_text("a page")
    redirects.write_stubs(tmp_path)
    assert 'href="../papers/aml/results.html"' in (tmp_path / "results" / "aml.html").read_text()
    assert 'href="../methods/metrics/sufficiency.html"' in (tmp_path / "metrics" / "sufficiency.html").read_text()
    assert all((tmp_path / page).read_text() == "a page" for page in built)
    (tmp_path / "empty").mkdir()
    with pytest.raises(AssertionError, match="which is not a page"):
        redirects.write_stubs(tmp_path / "empty")


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
    assert "if two words say the same" in page
    assert "Li, Jiwei" in page
    shown = re.search(r'<span title="([^"]*)"[^>]*>wonderful</span>', page)
    assert float(shown[1]) == pytest.approx(2.98, abs=0.01)  # as `troth explain` prints it


def test_a_metric_page_measures_the_same_text_under_several_explanations():
    page = method_pages.method_page("metrics", "comprehensiveness")
    values = [float(value) for value in re.findall(r"<td><b>(-?\d\.\d{3})</b>", page)]
    assert len(values) == len(method_pages.SHOWN)
    assert max(values) > values[method_pages.SHOWN.index("random")]


def test_a_masking_page_shows_what_it_does_to_the_same_text():
    pages = {name: method_pages.method_page("maskings", name) for name in ("delete", "mask_token")}
    lost = {name: float(re.search(r"<b>(-?\d\.\d{3})</b> of the probability", page)[1]) for name, page in pages.items()}
    (found,) = troth.explain("embedded", method_pages.TEXT, "leave_one_out", masking="delete", progress=False)
    (score,) = troth.measure("embedded", [found], "comprehensiveness(masking=delete)", progress=False)
    assert lost["delete"] == pytest.approx(score.value, abs=5e-4)
    assert lost["delete"] != lost["mask_token"]
    assert "token i becomes [MASK] where kᵢ = 0" in pages["mask_token"]


def test_what_cannot_be_run_here_shows_what_was_kept_with_its_source():
    page = method_pages.method_page("explainers", "llm_ranking")
    assert "SmolLM2-135M-Instruct" in page
    assert 'class="shown"' in page


def test_blocks_with_a_marker_are_run_and_shown():
    page = "# A\n\n```python\nx = 20\n```\n\n```python\ny = 1\nx = 2\nx + y\n```\n\n<!-- shown -->\n\nEnd"
    shown = shown_blocks.show_blocks(page)
    assert shown == page.replace("<!-- shown -->", '<div class="shown">3</div>')
    with pytest.raises(AssertionError, match="ends with what it shows"):
        shown_blocks.show_blocks("```python\nx = 1\n```\n\n<!-- shown -->")


def test_home_shows_several_methods_with_their_proof():
    shown = shown_blocks.show_blocks((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    assert "<!-- shown -->" not in shown
    proofs = re.findall(r"of \d+ words: ([\d.]+) % → ([\d.]+) %\. Without \d+ random words: (\d+)–\d+ %", shown)
    (_, without, random), (_, of_attention, _) = proofs
    assert float(without) < 5 < float(random)
    assert float(of_attention) >= float(random), "attention's words matter no more than random ones"
    assert "Cannot tell" not in shown


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
    assert kinds, "run python scripts/docs/tutorials.py"
    assert "error" not in kinds
    assert all(cell["execution_count"] == place for place, cell in enumerate(code, start=1)), "run from top to bottom"


@pytest.mark.full
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run(path):
    fresh = load(ROOT / "scripts" / "docs" / "tutorials.py").run(path)
    kept = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for cell, before in zip(fresh.cells, kept, strict=True):
        now = [(output.output_type, sorted(output.get("data", {}))) for output in cell.get("outputs", [])]
        then = [(output["output_type"], sorted(output.get("data", {}))) for output in before.get("outputs", [])]
        assert now == then, f"{before['id']} shows something else now; run python scripts/docs/tutorials.py {path.stem}"


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


# Loaded by the theme's script only for what no page of ours has: a diagram, a browser without ResizeObserver, a
# link to a repository.
KNOWN = ("mermaid", "resize-observer", "api.github.com", "clipboardjs.com")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built as `make docs` builds it, with a proxy that is not there: whoever wants the network fails."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    environment = {**os.environ, **nowhere, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


def addresses(site):
    return {path.relative_to(site).as_posix() for path in site.rglob("*.html")}


@pytest.mark.full
def test_the_site_is_whole(site):
    built = addresses(site)
    methods = {f"methods/{kind}/{name}.html" for kind in method_pages.KINDS for name in catalog.names(kind)}
    assert (
        methods | {f"guide/tutorials/{path.stem}.html" for path in TUTORIALS} | {"index.html", "changelog.html"}
        <= built
    )
    assert redirects.moved(built).keys() <= built
    home = (site / "index.html").read_text(encoding="utf-8")
    assert "wonderful</span>" in home


@pytest.mark.full
def test_no_file_of_the_site_loads_anything_from_outside(site):
    for file in site.rglob("*"):
        if file.suffix in (".html", ".css", ".svg"):
            found = OUTSIDE.search(file.read_text(encoding="utf-8"))
            assert found is None, f"{file.name} fetches {found[0]}"
        elif file.suffix == ".js":
            urls = re.findall(r"""["'`](https?://[\w./@-]+)""", file.read_text(encoding="utf-8"))
            unknown = [url for url in urls if not any(word in url for word in KNOWN)]
            assert not unknown or file.name == "search_index.js", f"{file.name} names {unknown}"  # which holds texts
    assert not [page.name for page in site.rglob("*.html") if 'class="mermaid"' in page.read_text(encoding="utf-8")]


@pytest.mark.full
def test_every_page_opens_in_a_browser_without_an_error_or_a_request(site):
    sync = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium here")
    wrong = []
    with sync.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or wrong.append(request.url))
        page.on("console", lambda line: line.type != "error" or wrong.append(f"{page.url}: {line.text}"))
        page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
        moved = {site / old: site / new for old, new in redirects.moved(addresses(site)).items()}
        for file in sorted(site.rglob("*.html")):
            if file in moved:
                page.goto(f"{file.as_uri()}#a")
                page.wait_for_url(f"{moved[file].as_uri().partition('%23')[0]}#a")
            elif file.name != "404.html":  # its links are those of a server
                page.goto(file.as_uri())
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    wrong.append(f"{file.name} is wider than a phone")
        browser.close()
    assert not wrong, wrong[:10]
