"""Every number in the prose of the guide has a source: the code, a test, a measurement, or a reason why it is given.

Numbers of a code block on the same page are backed by that block, which other tests run. For all others, the page ends
with a comment that Markdown does not show, one line for each source:

    <!-- numbers
    8, 64 = troth.serve.requests:EXPLAINERS, PASSAGES
    0.99 = tests/models/test_precision.py
    3.39, 41.8 = measured by scripts/measure/prefix.py
    403 = given: the status codes of HTTP
    -->

The first kind is computed from the code (`default(function, name)` is the default of an argument), the second must
occur in the test, the file of the third must exist.
"""

import importlib
import inspect
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "guide").glob("*.md"))
BLOCK = re.compile(r"```.*?```", re.DOTALL)
SOURCES = re.compile(r"<!-- numbers\n(.*?)\n-->", re.DOTALL)
# Not claims: code, links, comments, numbers of headings and steps, years of citations, versions, names.
LEFT_OUT = re.compile(
    r"```.*?```|<!--.*?-->|`[^`]*`|\]\([^)]*\)|!\[[^\]]*\]|^(?:#+ )?\d+\. "
    r"|(?:et al\.|\b[A-Z][\w-]+),\s(?:19|20)\d\d|\b(?:Python|torch|Ray|bitsandbytes|troth) \d[\d.]*\d|SHA-\d+",
    re.DOTALL | re.MULTILINE,
)
NUMBER = re.compile(r"(?<![\w.-])−?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?![\w])")
SCALE = {"0", "1", "−1"}  # the ends of a scale, or one thing


def numbers(text):
    return [number.removeprefix("−") if number not in SCALE else number for number in NUMBER.findall(text)]


def sources(page):
    """Each number that a page gives a source for, and the source."""
    for block in SOURCES.findall(page):
        for line in block.splitlines():
            given, _, source = line.partition(" = ")
            for place, number in enumerate(given.split(", ")):
                yield number.strip(), place, source.strip()


def default(function, name):
    return inspect.signature(function).parameters[name].default


def fault(number, place, source):
    """What is wrong with the source of a number."""
    if source.startswith("given: "):
        return None
    if source.startswith("measured by "):
        return None if (ROOT / source.removeprefix("measured by ")).is_file() else f"{source}: there is no such file"
    if source.startswith("tests/"):
        there = (ROOT / source).is_file() and re.search(
            rf"(?<![\w.]){re.escape(number.replace(',', ''))}(?![\w.])",
            (ROOT / source).read_text(encoding="utf-8").replace("_", ""),
        )
        return None if there else f"{number} does not occur in {source}"
    module, colon, expression = source.partition(":")
    if not colon:
        return f"{number} has no source: {source!r}"
    names = {**vars(importlib.import_module(module)), "default": default, "math": math}
    found = eval(f"({expression},)", names)  # a page of ours
    value = found[place if len(found) > 1 else 0]
    return None if value == pytest.approx(float(number.replace(",", ""))) else f"{number}, but {source} is {value}"


def wrong(page):
    """Everything that is wrong with the numbers of a page."""
    named = list(sources(page))
    shown = numbers(LEFT_OUT.sub(" ", page))
    in_code = {number for block in BLOCK.findall(page) for number in numbers(block) if len(number) > 1}
    backed = {number for number, _, _ in named}
    faults = [f"{number} has no source" for number in dict.fromkeys(shown) if number not in in_code | backed | SCALE]
    faults += [f"{number} has a source, but is not on the page" for number in backed if number not in shown]
    return faults + [each for each in (fault(*one) for one in named) if each]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_number_of_a_guide_page_has_a_source(page):
    assert wrong(page.read_text(encoding="utf-8")) == []


PAGE = """# A page

## 1. A step

At most {0} passages (Ross et al., 2022), from 0 to 1, in `at=7` of Python 3.12 and SST-2, as here:

```
cite(ratio=0.25)     # 0.25
```

A ratio of 0.25 is usual.
{1}"""


@pytest.mark.parametrize(
    ("number", "source", "faults"),
    [
        ("64", "troth.serve.requests:PASSAGES", []),
        ("65", "troth.serve.requests:PASSAGES", ["65, but troth.serve.requests:PASSAGES is 64"]),
        ("64", "troth.serve.requests:EXPLAINERS, PASSAGES", ["64, but troth.serve.requests:EXPLAINERS, PASSAGES is 8"]),
        ("8", "measured by scripts/measure/prefix.py", []),
        ("8", "measured by scripts/nowhere.py", ["measured by scripts/nowhere.py: there is no such file"]),
        ("31", "tests/test_guide_numbers.py", []),
        ("77.25", "tests/test_links.py", ["77.25 does not occur in tests/test_links.py"]),
        ("8", "given: a joke", []),
        ("8", "", ["8 has no source: ''"]),
    ],
)
def test_a_wrong_number_is_seen(number, source, faults):
    assert wrong(PAGE.format(number, f"\n<!-- numbers\n{number} = {source}\n-->\n")) == faults


def test_a_number_without_a_source_is_seen():
    assert wrong(PAGE.format("64", "")) == ["64 has no source"]
    assert wrong(PAGE.format("1,000 or 0.25", "")) == ["1,000 has no source"]
    assert wrong(PAGE.format("few", "\n<!-- numbers\n64 = given: it was\n-->\n")) == [
        "64 has a source, but is not on the page"
    ]
