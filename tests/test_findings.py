"""Verdicts on the papers' findings are computed from kept rows, and the pages show what was computed."""

import dataclasses
import re
import sys
from pathlib import Path

import pytest

from troth.statistics import CrossedMean

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts" / "studies"))
import aml_tables  # noqa: E402
import findings  # noqa: E402
import fmm_tables  # noqa: E402
import questions  # noqa: E402


def comparison(low, high, within=None, *, above=0, seeds=5, texts=1):
    mean = CrossedMean((low + high) / 2, low, high, 0.5, seeds, texts)
    return findings.Comparison("a less b", mean, within, 1, above=above)


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (comparison(0.1, 2), True),
        (comparison(-0.1, 2), None),
        (comparison(-2, -0.1), False),
        (comparison(-0.5, 2, above=-1), True),
        (comparison(-3, -2, above=-1), False),
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
    assert findings.Finding("claim", "SST", "", several[:1], examples="data sets").drawn == "5 seeds × 800 data sets"
    together = [comparison(1, 2, seeds=1, texts=6)]
    assert findings.Finding("claim", "SST", "", together, examples="data sets").drawn == "6 data sets"


def test_one_of_many_comparisons_contradicts_only_by_the_corrected_interval(tmp_path):
    """By hand: three seeds at −4, −5 and −6 are below 0 alone, not as one of twenty; confirming is not affected."""
    rows = ["name,seed,example_id,value", *(f"a,{seed},x,{value}" for seed, value in enumerate((-4.0, -5.0, -6.0)))]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    one = {"label": "a", "more": {"name": "a"}}

    def verdict(compare):
        common = {"rows": "rows.csv", "where": {}, "decimals": 1, "compare": compare}
        return findings.Finding("claim", "SST", "", findings._comparisons(tmp_path, common)).verdict

    assert verdict([one]) == "contradicted"
    assert verdict([one] * 20) == "undecided"
    below = {"label": "a", "more": 0, "than": {"name": "a"}}
    assert verdict([below] * 20) == "confirmed"


def test_rows_are_paired_by_seed_and_example(tmp_path):
    """By hand: b lacks one example of seed 1, so that example counts for no seed."""
    rows = [
        "name,seed,example_id,value,other",
        "a,0,x,1,4", "a,0,y,3,4", "a,1,x,2,4", "a,1,y,5,4", "b,0,x,0,4", "b,0,y,1,4", "b,1,x,1,4",
    ]  # fmt: skip
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    common = {"rows": "rows.csv", "where": {}, "decimals": 1, "compare": [
        {"label": "a less b", "more": {"name": "a"}, "than": {"name": "b"}},
        {"label": "a less 2", "more": {"name": "a"}, "than": 2, "within": 4},
        {"label": "2 less a", "more": 2, "than": {"name": "a"}, "above": -9},
        {"label": "a less b, published 0.5", "more": {"name": "a"}, "than": {"name": "b"}, "by": 0.5, "within": 4},
    ]}  # fmt: skip
    paired, number, reversed_, published = findings._comparisons(tmp_path, common)
    others = list(findings._comparisons(tmp_path, {**common, "column": "other"}))
    assert (paired.found.mean, paired.found.seeds, paired.found.texts) == (1, 2, 1)
    assert (number.found.mean, number.found.texts) == (0.75, 2)
    assert (reversed_.found.mean, reversed_.above) == (-0.75, -9)
    assert (published.found.mean, published.within) == (0.5, 4)
    assert [other.found.mean for other in others] == [0, 2, -2, -0.5]


def test_a_page_without_a_paper_heads_its_claims_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr(findings, "PAPERS", tmp_path)
    (tmp_path / "page" / "results").mkdir(parents=True)
    (tmp_path / "page" / "results" / "findings.toml").write_text('heading = "claim"\nfinding = []\n')
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


def test_a_void_comparison_decides_nothing_and_says_why(tmp_path):
    rows = ["name,seed,example_id,value", *(f"a,{seed},x,{5 + seed / 10}" for seed in range(5))]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    about = {"claim": "c", "about": "SST", "rows": "rows.csv", "compare": [{"label": "a", "more": {"name": "a"}}]}
    assert findings._finding(tmp_path, {}, about).verdict == "confirmed"
    void = findings._finding(tmp_path, {}, {**about, "void": "The curve rises", "note": "One data set"})
    assert (void.verdict, void.note) == ("undecided", "One data set. The curve rises")
    of_one = {**about, "compare": [*about["compare"], {"label": "b", "more": {"name": "a"}, "void": "unknown"}]}
    assert findings._finding(tmp_path, {}, of_one).verdict == "undecided"


def test_ties_count_as_the_share_of_a_win_that_is_named(tmp_path):
    """By hand: of four pairs one is won, two are tied and one is undefined."""
    rows = ["seed,example_id,value,tied", "0,a,1,0", "0,b,0,1", "0,c,0,1", "0,d,,"]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    for ties, mean in ((0, 1 / 3), (0.5, 2 / 3), (1, 1.0)):
        common = {"rows": "rows.csv", "where": {}, "decimals": 1, "ties": ties, "compare": [{"label": "a", "more": {}}]}
        (won,) = findings._comparisons(tmp_path, common)
        assert won.found.mean == pytest.approx(mean)


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


@pytest.mark.parametrize("path", findings.written_pages(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_page_shows_the_verdicts_that_its_rows_give(path):
    text = path.read_text(encoding="utf-8")
    assert findings.BEGIN in text
    assert findings.END in text
    assert findings.up_to_date(path) == text, "run python scripts/studies/findings.py"


def test_answers_are_those_of_the_verdicts():
    for path, text in questions.up_to_date():
        assert path.read_text(encoding="utf-8") == text, "run python scripts/studies/questions.py"
    assert not [each.name for each in questions.questions() if re.search(r"\d", NAMES.sub("", each.answer))]
    asked = {each.name for each in questions.questions()}
    assert set(questions.SURE.findall(questions.WHICH.read_text(encoding="utf-8"))) <= asked


@pytest.mark.parametrize(
    ("models", "data", "seeds", "sure"),
    [
        (["MiniLM", "BiLSTM"], ["SST", "IMDB"], 3, "strong"),
        (["MiniLM", "BiLSTM"], ["SST-2", "SST"], 3, "moderate"),
        (["MiniLM", "MiniLM+MLM"], ["SST", "IMDB"], 3, "moderate"),
        (["MiniLM"], ["SST", "IMDB"], 2, "weak"),
    ],
)
def test_how_sure_an_answer_is(models, data, seeds, sure):
    def asked(*comparisons):
        finding = findings.Finding("claim", "", "", comparisons, models=models, data=data)
        return questions.Question("name", "part", "question", "answer", [("page", finding)])

    assert asked(comparison(1, 2, seeds=seeds)).sure == sure
    assert asked(comparison(-1, 2, seeds=seeds)).sure == "open"
    chance = dataclasses.replace(comparison(1, 2, seeds=seeds), corrected=CrossedMean(1.5, -1, 4, 0.5, seeds, 1))
    lower = {"strong": "moderate", "moderate": "weak", "weak": "weak"}
    assert asked(chance).sure == lower[sure]


def test_what_decides_is_the_weakest_comparison():
    sure, weaker, reversed_ = comparison(2, 3), comparison(1, 2), comparison(-2, -1)
    labelled = [dataclasses.replace(each, label=name) for each, name in ((sure, "a"), (weaker, "b"), (reversed_, "c"))]
    assert findings.Finding("claim", "SST", "points", labelled[:2]).decisive == "b 1.5 [1.0, 2.0] points; 2 of 2 hold"
    assert findings.Finding("claim", "SST", "points", labelled).decisive == "c −1.5 [−2.0, −1.0] points; 2 of 3 hold"
    assert findings.Finding("claim", "SST", "points", labelled[:1]).decisive == "a 2.5 [2.0, 3.0] points"


NAMES = re.compile(r"`[^`]*`|\]\([^)]*\)|\b(SST-2|bAbI-1|bAbI-2|bAbI-1 and -2|SmolLM2(?:-135M)?|BERT-base)\b")


@pytest.mark.parametrize("page", ["findings.md", "guide/which.md"])
def test_no_number_stands_in_prose_without_rows_behind_it(page):
    """Numbers are in the generated tables, or on the pages of results, where they are checked."""
    begin, end = questions.MARKS
    before, _, rest = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(begin)
    prose = NAMES.sub("", before + rest.partition(end)[2])
    assert [line for line in prose.splitlines() if re.search(r"\d", line)] == []


def texts(kept):
    """The page of results, and its appendix."""
    pages = (kept.with_suffix(".md"), kept.with_name("appendix.md"))
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def test_the_tables_of_fmm_are_those_of_what_is_kept():
    text = texts(findings.kept("fmm"))
    assert text.count("<!-- /fmm -->") == 9
    assert fmm_tables.filled(text, findings.kept("fmm")) == text, "run python scripts/studies/fmm_tables.py"


def test_models_that_were_trained_twice_are_the_same():
    again = findings._rows(findings.kept("fmm") / "mlm_600_rows.csv.gz").to_pylist()
    assert len(again) == 99  # 9 trainings at 11 shares of masked tokens
    before = findings._rows(findings.kept("fmm") / "mlm_rows.csv.gz").to_pylist()
    assert all(row in before for row in again)


def test_the_tables_of_aml_are_those_of_what_is_kept():
    text = texts(findings.kept("aml"))
    assert text.count("<!-- /aml -->") == 9
    assert aml_tables.filled(text, findings.kept("aml")) == text, "run python scripts/studies/aml_tables.py"


def kept(p, out, *, lowest=0.01, seeds=2):
    """One check of two explainers and Beam at 50 and 100 %, as runs kept it: p by ratio, the mean over seeds."""
    means = {f"plain | whole | {name}": [1, 0.5, p] for name in ("Random", "LOO (sign)")}
    means["plain | whole | Beam"] = [1, 0.5, 0.5]
    found = {"out": out, "of": 3 * 2 * seeds, "lowest": lowest}
    return {"in_distribution": {"d paper": means, "d plain whole paper": found}}


@pytest.mark.parametrize(
    ("parts", "counted"),
    [
        (kept(0.02, 4), (2, 2, 10)),  # both seeds are below 0.05, each was counted for two explainers
        (kept(0.2, 3), (2, 3, 10)),  # one seed may be
        (kept(0.9, 1), (1, 1, 10)),  # none can be
        (kept(0.2, 0, lowest=0.2), (0, 0, 10)),
    ],
)
def test_completely_masked_inputs_count_once(parts, counted):
    assert fmm_tables.distinct(parts, "d", "plain", "whole", "paper") == counted
