"""Verdicts on the papers' findings are computed from kept rows, and the pages show what was computed."""

import dataclasses
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
        {"label": "a less b, published 0.5", "more": {"name": "a"}, "than": {"name": "b"}, "by": 0.5, "within": 4},
    ]}  # fmt: skip
    paired, number, published = findings._comparisons(tmp_path, common)
    assert (paired.found.mean, paired.found.seeds, paired.found.texts) == (1, 2, 1)
    assert (number.found.mean, number.found.texts) == (0.75, 2)
    assert (published.found.mean, published.within) == (0.5, 4)


def test_a_page_without_a_paper_heads_its_claims_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr(findings, "RESULTS", tmp_path)
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "findings.toml").write_text('column = "claim"\nfinding = []\n')
    assert findings.table("page").startswith("| claim | verdict |")


def test_a_claim_about_most_counts_the_comparisons_of_each_label():
    sure, open_, reversed_ = comparison(1, 2), comparison(-1, 2), comparison(-2, -1)

    def of(*comparisons):
        return findings.Finding("claim", "SST", "", comparisons, most=True)

    assert of(sure, sure, reversed_).verdict == "confirmed"
    assert of(sure, sure, reversed_).measured == "a less b 2 of 3 (1 reversed)"
    assert of(sure, open_).verdict == "undecided"
    assert of(sure, reversed_).verdict == "contradicted"
    another = dataclasses.replace(open_, label="c less b")
    assert of(sure, another).verdict == "undecided"
    assert of(sure, another).measured == "a less b 1.5 [1.0, 2.0]; c less b 0.5 [−1.0, 2.0]"


def test_too_few_seeds_decide_nothing():
    found = dataclasses.replace(comparison(1, 2, seeds=1), decides=False)
    assert (found.direction, found.holds) == (True, None)
    assert findings.Finding("claim", "SST", "", [found]).verdict == "undecided"


def test_comparisons_across_files_and_metrics(tmp_path):
    """By hand: b draws nothing, so its one seed stands for both of a; a has less loss, which is better."""
    rows = ["name,metric,seed,example_id,value", *(f"a,loss,{seed},{text},1" for seed in "01" for text in "xy")]
    rows += ["b,loss,0,x,2", "b,loss,0,y,4", "c,loss,0,x,3", "c,loss,0,y,5", "d,loss,0,x,1", "d,loss,0,y,2"]
    for file in ("one.csv", "two.csv"):
        (tmp_path / file).write_text("\n".join([*rows, *(row.replace("loss", "gain") for row in rows[1:])]))
    common = {
        "rows": ["one.csv", "two.csv"], "where": {}, "decimals": 1, "least_seeds": 2,
        "across": {"metric": ["gain", "-loss"]}, "deterministic": {"name": ["b", "c"]},
        "compare": [
            {"label": "a less b", "more": {"name": "a"}, "than": {"name": "b"}},
            {"label": "c less b", "more": {"name": "c"}, "than": {"name": "b"}, "rows": "one.csv"},
            {"label": "d less b", "more": {"name": "d"}, "than": {"name": "b"}, "rows": "one.csv"},
        ],
    }  # fmt: skip
    found = list(findings._comparisons(tmp_path, common))
    assert [each.found.mean for each in found] == [-2, 2, -2, 2, 1, -1, -1.5, 1.5]
    assert [each.found.seeds for each in found] == [2, 2, 2, 2, 1, 1, 1, 1]
    assert [each.decides for each in found] == [True] * 6 + [False] * 2


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
