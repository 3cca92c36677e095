"""Pages of results are true to the rows they keep: a number of each is computed again from them.

docs/papers/rows.md says how a page names its rows and numbers.
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from troth import seeds, statistics

PAPERS = Path(__file__).parents[1] / "docs" / "papers"
PAGES = sorted([*PAPERS.glob("*/results.md"), *PAPERS.glob("*/appendix.md")])
WITHDRAWN = re.compile(r"These numbers are (withdrawn|being measured again):\**\s+\S")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CHECK = re.compile(r"<!--\s*check:(.*?)-->", re.DOTALL)
LARGEST = 1_000_000  # bytes of rows per page


@dataclass
class Check:
    """One printed number and the rows it comes from."""

    file: str
    where: dict[str, str] = field(default_factory=dict)
    column: str = "value"
    printed: dict[str, str] = field(default_factory=dict)  # value, low, high


def checks_of(page):
    """The checks that a page's comments ask for."""
    checks = []
    for text in CHECK.findall(page):
        file, *words = shlex.split(text)
        check = Check(file)
        for word in words:
            if word == "where":
                continue
            name, equals, value = word.partition("=")
            assert equals, f"{word!r} in the check of {file} is not NAME=VALUE"
            if name in ("value", "low", "high"):
                check.printed[name] = value
            elif name == "column":
                check.column = value
            else:
                check.where[name] = value
        assert "value" in check.printed, f"the check of {file} names no value"
        checks.append(check)
    return checks


def read(path):
    """The columns of a csv (compressed or not) or Parquet file."""
    return (pa.parquet.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path)).to_pydict()


def by_seed(columns, check):
    """[seeds, examples] the values of the rows that the check asks for."""
    for name in ("example_id", "seed", check.column, *check.where):
        assert name in columns, f"{check.file} has no column {name}; there are: {', '.join(columns)}"
    chosen = range(len(columns["seed"]))
    for name, wanted in check.where.items():
        texts = {value: str(value) for value in set(columns[name])}
        chosen = [row for row in chosen if texts.get(columns[name][row]) == wanted]
    rows = [(str(columns["seed"][row]), str(columns["example_id"][row]), columns[check.column][row]) for row in chosen]
    assert rows, f"{check.file} has no rows where {check.where}"
    names, examples = (
        {name: i for i, name in enumerate(dict.fromkeys(row[place] for row in rows))} for place in (0, 1)
    )
    values = np.full((len(names), len(examples)), np.nan)
    seen = set()
    for seed, example, value in rows:
        assert (seed, example) not in seen, f"{check.file}: {check.where} leaves example {example}, seed {seed} twice"
        seen.add((seed, example))
        values[names[seed], examples[example]] = np.nan if value in (None, "") else value
    return values


def computed(columns, check):
    """The number and its interval, by the reduction that ranks explainers."""
    each = seeds.mean_over_seeds(by_seed(columns, check))
    known = each[~np.isnan(each)]
    low, high = statistics.bca_interval(known) if check.printed.keys() & {"low", "high"} else (np.nan, np.nan)
    return {"value": float(known.mean()), "low": low, "high": high}


def as_printed(number, printed):
    """A number with as many decimals as the page prints."""
    plain = printed.replace("−", "-").replace(",", "").removesuffix("%").strip()
    decimals = len(plain.partition(".")[2])
    scaled = number * 100 if printed.endswith("%") else number
    return f"{scaled:.{decimals}f}", f"{float(plain):.{decimals}f}"


def verify(page_path):
    """Fails unless every check of a page holds, or the page says that its numbers do not stand."""
    page = page_path.read_text(encoding="utf-8")
    checks, folder = checks_of(page), page_path.with_suffix("")
    if page_path.stem == "appendix":
        folder = page_path.with_name("results")
    if not checks and page_path.with_name("appendix.md").exists():  # the two pages together check a number
        pages = (page_path.with_name(f"{name}.md") for name in ("results", "appendix"))
        assert any(checks_of(each.read_text(encoding="utf-8")) for each in pages), f"{folder} checks no number"
        return
    if not checks:
        assert not folder.exists(), f"{folder.name}/ has rows, but {page_path.name} checks no number against them"
        assert WITHDRAWN.search(" ".join(page.split("\n## ")[0].split())), (
            f"{page_path.name} keeps no rows: it must say, before its first section, that its numbers are withdrawn or "
            "being measured again (docs/papers/rows.md)"
        )
        return
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size <= LARGEST, f"{folder.name}/ has {size:,} bytes; keep at most {LARGEST:,}"
    shown = COMMENT.sub("", page)
    kept = {file: read(folder / file) for file in {check.file for check in checks}}
    for check in checks:
        numbers = computed(kept[check.file], check)
        for name, printed in check.printed.items():
            again, stated = as_printed(numbers[name], printed)
            assert again == stated, f"{page_path.name}: {check.where} {name} is {again}, the page says {printed}"
            assert printed in shown, f"{page_path.name}: {printed} is checked, but not on the page"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_a_page_is_true_to_its_rows_or_says_that_it_does_not_stand(page):
    verify(page)


# --- the check itself can fail


ROWS = """explainer,metric,seed,example_id,value
lime,suff (x),0,a,0.1
lime,suff (x),1,a,0.3
lime,suff (x),0,b,0.6
lime,suff (x),0,c,
random,suff (x),0,a,0.9
"""
PAGE = """# A page

LIME has 0.40 <!-- check: rows.csv where explainer=lime metric="suff (x)" value={value} --> here, 0.41 elsewhere.
"""


@pytest.fixture
def page(tmp_path):
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "rows.csv").write_text(ROWS)

    def write(text):
        (tmp_path / "page.md").write_text(text)
        return tmp_path / "page.md"

    return write


def test_seeds_are_averaged_before_examples(page):
    verify(page(PAGE.format(value="0.40")))  # (0.2 + 0.6) / 2; a mean of the rows would be 0.33
    verify(page(PAGE.replace("0.40", "40.0%").format(value="40.0%")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PAGE.format(value="0.41"), "value is 0.40, the page says 0.41"),
        (PAGE.replace("0.40", "0.4").format(value="0.400"), "0.400 is checked, but not on the page"),
        (PAGE.replace("explainer=lime", "explainer=shap").format(value="0.40"), "has no rows where"),
        (PAGE.replace("explainer=", "method=").format(value="0.40"), "has no column method; there are: explainer"),
        (PAGE.replace("explainer=lime ", "").format(value="0.40"), "leaves example a, seed 0 twice"),
        ("# A page\n\nNothing is checked: 0.40.\n", "has rows, but page.md checks no number"),
    ],
)
def test_a_page_that_is_not_true_fails(page, text, message):
    with pytest.raises(AssertionError, match=message):
        verify(page(text))


def test_an_interval_is_checked_too(page):
    values = np.random.default_rng(0).normal(size=40)
    path = page("0.1 [{0:.2f}, {1:.2f}]")
    rows = "".join(f"0,{place},{value!r}\n" for place, value in enumerate(map(float, values)))
    (path.with_suffix("") / "rows.csv").write_text("seed,example_id,value\n" + rows)
    low, high = statistics.bca_interval(values)
    text = f"{values.mean():.3f} [{low:.2f}, {high:.2f}] <!-- check: rows.csv value={values.mean():.3f} low={low:.2f} "
    verify(page(f"{text}high={high:.2f} -->"))
    with pytest.raises(AssertionError, match="high is"):
        verify(page(f"{text}high={high + 0.01:.2f} -->"))


def test_a_page_without_rows_says_so(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("# A page\n\nThese numbers are\nwithdrawn: the references were wrong.\n\n## Table\n\n1.0\n")
    verify(path)
    for text in ("# A page\n\n1.0\n", "# A page\n\n## Late\n\nThese numbers are withdrawn: why.\n"):
        path.write_text(text)
        with pytest.raises(AssertionError, match="keeps no rows: it must say"):
            verify(path)


BETWEEN_MARKS = re.compile(r"<!-- (?:findings:|\w+:\w+ -->).*?<!-- /\w+ -->", re.DOTALL)  # what scripts write
NOT_PROSE = re.compile(r"```.*?```|<!--.*?-->|`[^`]*`|\]\([^)]*\)|^\|.*?$", re.DOTALL | re.MULTILINE)
DECIMAL = re.compile(r"(?<![\w.,/=-])[−-]?\d+\.\d+(?!\w|\.\d)")
CHECKED = re.compile(r"\b(?:value|low|high)=(-?\d+\.\d+)")
GIVEN = re.compile(r"<!-- given: ([-\d. ]+): \S.*? -->")


def unbacked(text):
    """Decimals in prose that no check, no part written by a script and no reason for a given number covers."""
    written = " ".join(BETWEEN_MARKS.findall(text))
    backed = {*CHECKED.findall(text), *DECIMAL.findall(written.replace("−", "-"))}
    backed |= {number for numbers in GIVEN.findall(text) for number in numbers.split()}
    prose = NOT_PROSE.sub(" ", BETWEEN_MARKS.sub(" ", text)).replace("−", "-")
    return [number for number in DECIMAL.findall(prose) if not {number, number.removeprefix("-")} & backed]


def test_a_decimal_in_prose_needs_rows_or_a_reason():
    checked = "It is 0.41 <!-- check: rows.csv where a=b value=0.41 -->, and 0.5 <!-- given: 0.5: the level -->."
    assert unbacked(checked) == []
    assert unbacked(checked + " So 0.41 twice, and −0.7 once.") == ["-0.7"]
    table = "<!-- aml:sst2 -->\n\n| a | −0.7 |\n\n<!-- /aml -->\n\nLess: −0.7, not 0.8.\n\n| b | 0.9 |\n"
    assert unbacked(table) == ["0.8"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_decimal_in_prose_has_rows_or_a_reason(path):
    assert unbacked(path.read_text(encoding="utf-8")) == []
