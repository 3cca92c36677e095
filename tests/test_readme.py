"""Every Python block of the README and the guides runs, in order, in one namespace a page."""

import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page):
    text = page.read_text(encoding="utf-8")
    if page.name == "five_minutes.md":  # its last part is run by tests/test_three_kinds_of_work.py
        text = text.partition("\n### ")[0]
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def ids(page):
    return page.relative_to(ROOT).as_posix()


def test_there_is_something_to_run():
    assert blocks(ROOT / "README.md")
    assert blocks(ROOT / "CONTRIBUTING.md")


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=ids)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what a block writes goes here
    if page.name == "rows.md":
        some_run(tmp_path)
    module = types.ModuleType(f"blocks_of_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    for number, block in enumerate(blocks(page), start=1):
        exec(compile(block, f"{page.name}, Python block {number}", "exec"), vars(module))


def some_run(folder):
    """The run that the page on results speaks of."""
    import troth

    (folder / "docs" / "papers" / "NAME" / "results").mkdir(parents=True)
    data = troth.load_data("reviews", limit=2)
    troth.bench("embedded", data, ["random"], ["sufficiency"], out=folder / "runs" / "NAME", progress=False)


def test_the_worked_through_explainer_explains():
    import fakes
    import troth

    module = types.ModuleType("shown_alone")
    sys.modules["shown_alone"] = module
    try:
        exec(blocks(ROOT / "CONTRIBUTING.md")[0], vars(module))
        model = fakes.Lookup({"good film": [0, 2], "[M] [M]": [0, 0], "good [M]": [0, 1], "[M] film": [0, 0]})
        (attribution,) = troth.explain(model, "good film", module.ShownAlone(of="probability"), target=1)
    finally:
        del sys.modules["shown_alone"]
    assert attribution.scores.tolist() == pytest.approx([0.731059 - 0.5, 0], abs=1e-5)
    assert attribution.explainer == "shown_alone(absolute=False, of='probability')"


def test_links_and_pictures_are_there():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) + re.findall(
            r'<(?:img|source)\b.*\bsrc(?:set)?="([^"]+)"', text
        ):
            if not target.startswith(("http:", "https:", "mailto:")):
                assert (page.parent / target).exists(), f"{page.name} points at {target}"
