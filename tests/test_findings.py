"""Verdicts on the papers' findings are computed from kept rows, and the pages show what was computed."""

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


def test_undefined_pairs_and_ties_stand_next_to_a_win_rate(tmp_path):
    """By hand: of two attributions, example y is undefined with seed 1, and two of the six defined pairs are ties."""
    rows = """name,seed,example_id,value,tied
a,0,x,1,0
a,0,y,0,1
a,1,x,1,0
a,1,y,,
b,0,x,0,1
b,0,y,1,0
b,1,x,1,0
b,1,y,,
"""
    (tmp_path / "rows.csv").write_text(rows)
    compare = [{"label": "won", "more": {}, "than": 0.25}]
    common = {"rows": "rows.csv", "where": {}, "decimals": 2, "over": "name", "compare": compare}
    (won,) = findings._comparisons(tmp_path, common)
    assert (won.found.mean, won.found.seeds, won.found.texts, won.undefined) == (0.5, 2, 1, 0.25)
    assert won.tied == (pytest.approx(1 / 3),)
    assert str(won).endswith("] (33.3 % tied)")
    finding = findings.Finding("claim", "SST", "", [won])
    assert finding.drawn == "2 seeds (25.0 % of pairs undefined)"
    with pytest.raises(SystemExit, match="several rows for one example"):
        findings._values(tmp_path / "rows.csv", {})


@pytest.mark.parametrize("page", findings.pages())
def test_a_page_shows_the_verdicts_that_its_rows_give(page):
    text = (findings.RESULTS / f"{page}.md").read_text(encoding="utf-8")
    assert findings.BEGIN in text
    assert findings.END in text
    assert findings.with_table(page, text) == text, "run python scripts/findings.py"
