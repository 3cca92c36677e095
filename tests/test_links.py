"""What pages say of files is true: every path of ours that they name is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMED = re.compile(r"`((?:tests|docs|scripts|src|examples|benchmarks)/[\w/.-]+)`")
# CONTRIBUTING's examples.
MADE_UP = {"tests/explainers/test_shown_alone.py"} | {
    f"src/troth/{name}.py"
    for name in (
        "explainers/shown_alone", "metrics/lost_share", "maskings/average", "data/irony",
        "training/recipes/confidence_penalty", "commands/units",
    )
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_a_page_names_are_there(page):
    named = [name for name in NAMED.findall(page.read_text(encoding="utf-8")) if "NAME" not in name]
    missing = {name for name in named if not (ROOT / name).exists()}
    assert not missing - MADE_UP, f"{page.name} names {sorted(missing - MADE_UP)}"
