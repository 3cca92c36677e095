"""Verdicts on the papers' findings are computed from kept rows, and the pages show what was computed."""

import re
import sys
from pathlib import Path

import pytest

from troth.statistics import CrossedMean

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import findings  # noqa: E402


def comparison(low, high, within=None, *, seeds=5, texts=1):
    return findings.Comparison("a less b", CrossedMean((low + high) / 2, low, high, 0.5, seeds, texts), within, 1)


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (comparison(0.1, 2), True),
        (comparison(-0.1, 2), None),
        (comparison(-2, -0.1), False),
        (comparison(-1, 1, within=2), True),
        (comparison(-3, 1, within=2), None),
        (comparison(2.5, 4, within=2), False),
        (comparison(float("nan"), float("nan")), None),
    ],
)
def test_a_comparison_holds_is_reversed_or_does_not_tell(found, holds):
    assert found.holds is holds


def test_a_finding_needs_all_its_comparisons():
    sure, open_, reversed_ = comparison(1, 2), comparison(-1, 2), comparison(-2, -1)

    def verdict(*comparisons):
        return findings.Finding("claim", "SST", "", comparisons).verdict

    assert verdict(sure, sure) == "confirmed"
    assert verdict(sure, open_) == "undecided"
    assert verdict(sure, open_, reversed_) == "contradicted"
    assert verdict() == "undecided"
    assert str(sure) == "a less b 1.5 [1.0, 2.0]"
    several = [comparison(1, 2, texts=800), comparison(1, 2, seeds=3, texts=1000)]
    assert findings.Finding("claim", "SST", "", several).drawn == "3 to 5 seeds × 800 to 1,000 examples"


def test_rows_are_paired_by_seed_and_example(tmp_path):
    """By hand: b lacks one example of seed 1, so that example counts for no seed."""
    rows = ["name,seed,example_id,value", "a,0,x,1", "a,0,y,3", "a,1,x,2", "a,1,y,5", "b,0,x,0", "b,0,y,1", "b,1,x,1"]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    common = {"rows": "rows.csv", "where": {}, "decimals": 1, "compare": [
        {"label": "a less b", "more": {"name": "a"}, "than": {"name": "b"}},
        {"label": "a less 2", "more": {"name": "a"}, "than": 2, "within": 4},
    ]}  # fmt: skip
    paired, number = findings._comparisons(tmp_path, common)
    assert (paired.found.mean, paired.found.seeds, paired.found.texts) == (1, 2, 1)
    assert (number.found.mean, number.found.texts) == (0.75, 2)


PAGES = [*(findings.RESULTS / f"{page}.md" for page in findings.pages()), findings.OVERVIEW]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_shows_the_verdicts_that_its_rows_give(path):
    text = path.read_text(encoding="utf-8")
    assert findings.BEGIN in text
    assert findings.END in text
    assert findings.up_to_date(path) == text, "run python scripts/findings.py"


NAMES = re.compile(r"`[^`]*`|\]\([^)]*\)|\b(SST-2|bAbI-1|bAbI-2|bAbI-1 and -2|SmolLM2|BERT-base)\b")


@pytest.mark.parametrize("page", ["findings.md", "which.md"])
def test_no_number_stands_in_prose_without_rows_behind_it(page):
    """Numbers are in the generated table, or on the pages of results, where they are checked."""
    before, _, rest = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(findings.BEGIN)
    prose = NAMES.sub("", before + rest.partition(findings.END)[2])
    assert [line for line in prose.splitlines() if re.search(r"\d", line)] == []
