"""The verdict on every finding of a paper, computed from the rows that its page of results keeps.

    python scripts/studies/findings.py            # writes the tables into the pages under docs/papers/
    python scripts/studies/findings.py --check    # fails where a page is not up to date

A page of results has a short table (claim, verdict, the comparison that decides), its appendix all comparisons, and
`docs/papers/verdicts.md` the number of each verdict per page. `questions.py` answers questions from the same verdicts.

`docs/papers/NAME/results/findings.toml` has a row per finding: what the paper claims, and comparisons that must hold
for it. A comparison takes the rows of `more` less those of `than` (either may be a number), on the same examples and
seeds, and asks whether the difference is above 0 (or `above`), or, with `within`, smaller than that many units either
way. The values' column may have another name (`column`), and examples be other things than texts (`examples`: say, data
sets). `by` is a published difference that is taken off first. Means and intervals are those of
`troth.statistics.crossed_mean`: examples and seeds both count as drawn. A finding is confirmed where every comparison
holds at the 95 % level, contradicted where one of them is reversed, and undecided otherwise. Since one of many may be
reversed by chance, the interval that reverses one of k comparisons has the level 1 − 0.05 / k (Bonferroni); all of them
holding by chance is no more probable than one, so that needs no correction. `heading` is that of a page's claims, by
default "the paper says".

For claims about many metrics and data sets: `rows` may be a list of files, and `across` names the values of a column
that are compared one by one ("-sufficiency": lower is better). Comparisons of one label are shown as a count. With
`most`, more than half of each label must hold, and the claim is contradicted where half or more of one are reversed.
`name`, `models` and `data` are for `questions.py`. `deterministic` names what draws nothing: its one seed stands for
all. Any other comparison with fewer seeds than `least_seeds` decides nothing.

With `over = "attribution"` the rows of one example and seed are averaged over that column. The share of pairs of an
example and a seed that are undefined is shown; so is that of ties, where the rows have a column `tied`. A tie counts as
`ties` of a win (by default 0).

A comparison with `void` decides nothing, whatever its interval, for the reason that it names.
"""

from __future__ import annotations

import itertools
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from troth.statistics import CrossedMean, crossed_mean

DOCS = Path(__file__).parents[2] / "docs"
PAPERS = DOCS / "papers"
OVERVIEW = PAPERS / "verdicts.md"
BEGIN, END = "<!-- findings: written by scripts/studies/findings.py -->", "<!-- /findings -->"


@dataclass(frozen=True)
class Comparison:
    """One difference that a finding rests on."""

    label: str
    found: CrossedMean
    within: float | None  # the largest difference that counts as none; None: it must be above `above`
    decimals: int
    decides: bool = True  # False: too few seeds
    undefined: float = 0.0  # share of the pairs of a seed and an example
    tied: tuple[float, ...] = ()  # share of ties in each side's win rate, where the rows tell
    above: float = 0
    corrected: CrossedMean | None = None  # the interval for all comparisons of the finding together

    @property
    def holds(self) -> bool | None:
        """None: the interval does not tell, or there are too few seeds."""
        return self.direction if self.decides else None

    @property
    def direction(self) -> bool | None:
        """What the interval says, however few the seeds."""
        return self._side(self.found)

    @property
    def is_reversed(self) -> bool:
        """Whether it is, by the interval that is corrected for the number of comparisons."""
        return self.decides and self._side(self.corrected or self.found) is False

    @property
    def margin(self) -> float:
        """How far the interval lies on the claim's side."""
        if self.within is None:
            return self.found.low - self.above
        return self.within - max(abs(self.found.low), abs(self.found.high))

    def _side(self, found: CrossedMean) -> bool | None:
        low, high = found.low, found.high
        if np.isnan(low):
            return None
        if self.within is None:
            return True if low > self.above else False if high < self.above else None
        inside, outside = -self.within < low and high < self.within, low > self.within or high < -self.within
        return True if inside else False if outside else None

    def __str__(self) -> str:
        mean, low, high = (f"{number:.{self.decimals}f}".replace("-", "−") for number in self.found[:3])
        if np.isnan(self.found.low):
            return f"{self.label} {mean} (one value)"
        ties = f" ({' and '.join(f'{100 * share:.1f}' for share in self.tied)} % tied)" if self.tied else ""
        return f"{self.label} {mean} [{low}, {high}]{ties}"


@dataclass(frozen=True)
class Finding:
    """What a paper claims, and the comparisons that decide it."""

    claim: str
    about: str  # data and models
    unit: str
    comparisons: Sequence[Comparison]
    note: str = ""
    name: str = ""  # by which questions refer to it
    models: Sequence[str] = ()  # named where `about` and the labels do not name them
    data: Sequence[str] = ()
    most: bool = False  # more than half of the comparisons of each label must hold, in place of all
    examples: str = "examples"  # what is drawn besides seeds, or instead where seeds are taken together

    @property
    def corrected(self) -> Finding:
        """The same with intervals that are corrected for the number of comparisons, also where they confirm."""
        comparisons = [replace(each, found=each.corrected or each.found) for each in self.comparisons]
        return replace(self, comparisons=comparisons)

    @property
    def groups(self) -> dict[str, list[Comparison]]:
        """The comparisons by label."""
        labels = dict.fromkeys(comparison.label for comparison in self.comparisons)
        return {label: [each for each in self.comparisons if each.label == label] for label in labels}

    @property
    def verdict(self) -> str:
        if self.most:
            groups = [[comparison.holds for comparison in group] for group in self.groups.values()]
            if any(2 * group.count(False) >= len(group) for group in groups):
                return "contradicted"
            return "confirmed" if all(2 * group.count(True) > len(group) for group in groups) else "undecided"
        if any(comparison.is_reversed for comparison in self.comparisons):
            return "contradicted"
        holds = [comparison.holds for comparison in self.comparisons]
        return "confirmed" if holds and all(holds) else "undecided"

    @property
    def measured(self) -> str:
        """Each comparison, or how many of a label hold."""
        return "; ".join(_shown(label, group) for label, group in self.groups.items())

    @property
    def decisive(self) -> str:
        """The comparison that decides the verdict, or keeps it from being decided, and how many hold."""
        groups = self.groups
        if len(groups) == 1:
            return self.measured + (f" {self.unit}" if self.unit else "")

        def support(label: str) -> float:
            return sum({True: 1, None: 0, False: -1}[each.holds] for each in groups[label]) / len(groups[label])

        label = min(groups, key=lambda label: (support(label), min(each.margin for each in groups[label])))
        unit = f" {self.unit}" if self.unit else ""
        directions = [comparison.direction for comparison in self.comparisons]
        return f"{_shown(label, groups[label])}{unit}; {directions.count(True)} of {len(directions)} hold"

    @property
    def drawn(self) -> str:
        """How many seeds and examples it rests on."""
        seeds = counted([comparison.found.seeds for comparison in self.comparisons], "seed")
        texts = _range([comparison.found.texts for comparison in self.comparisons])
        drawn = seeds + ("" if texts == "1" else f" × {texts} {self.examples}")
        if seeds == "1 seed" and self.examples != "examples":
            drawn = f"{texts} {self.examples}"
        undefined = list(dict.fromkeys(f"{100 * comparison.undefined:.1f}" for comparison in self.comparisons))
        return drawn if undefined == ["0.0"] else f"{drawn} ({' and '.join(undefined)} % of pairs undefined)"


@cache
def findings(page: str) -> list[Finding]:
    """All findings of a page, each with its verdict."""
    given = _given(page)
    return [_finding(kept(page), given, each) for each in given["finding"]]


def table(page: str) -> str:
    """The findings of a page, in Markdown."""
    lines = [f"| {_given(page).get('heading', 'the paper says')} | verdict | measured here | on |", "|---|---|---|---|"]
    for each in findings(page):
        measured = each.measured + (f" {each.unit}" if each.unit else "")
        if each.note:
            measured += f". {each.note}"
        lines.append(f"| {each.claim} | **{each.verdict}** | {measured} | {each.about}; {each.drawn} |")
    return "\n".join(lines)


def short_table(page: str) -> str:
    """The verdicts of a page with the comparison that decides each, in Markdown."""
    lines = [f"| {_given(page).get('heading', 'the paper says')} | verdict | what decides | on |", "|---|---|---|---|"]
    lines += [f"| {each.claim} | **{each.verdict}** | {each.decisive} | {each.about} |" for each in findings(page)]
    return "\n".join(lines)


def overview() -> str:
    """How many claims of each page have which verdict, in Markdown."""
    verdicts = ("confirmed", "contradicted", "undecided")
    counts = {page: [[each.verdict for each in findings(page)].count(one) for one in verdicts] for page in pages()}
    lines = [f"| study | claims | {' | '.join(verdicts)} |", "|---|--:|--:|--:|--:|"]
    for page, row in counts.items():
        lines.append(f"| [{page}]({page}/results.md) | {sum(row)} | {' | '.join(map(str, row))} |")
    total = [sum(column) for column in zip(*counts.values(), strict=True)]
    return "\n".join([*lines, f"| all | {sum(total)} | {' | '.join(map(str, total))} |"])


def up_to_date(path: Path) -> str:
    """The text of a page with its table of findings as the rows have it."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = {"verdicts": lambda _: overview(), "appendix": table, "results": short_table}
    return f"{before}{BEGIN}\n\n{tables[path.stem](path.parent.name)}\n\n{END}{after}"


def written_pages() -> list[Path]:
    """The pages that hold a table."""
    results = [kept(page).with_suffix(".md") for page in pages()]
    return [*results, *(page.with_name("appendix.md") for page in results), OVERVIEW]


def pages() -> list[str]:
    """Those that have findings."""
    return sorted(path.parents[1].name for path in PAPERS.glob("*/results/findings.toml"))


def kept(page: str) -> Path:
    """The folder of the rows of a page of results, which has the page's name."""
    return PAPERS / page / "results"


def _given(page: str) -> dict[str, Any]:
    with open(kept(page) / "findings.toml", "rb") as file:
        return tomllib.load(file)


def _finding(folder: Path, given: Mapping[str, Any], about: Mapping[str, Any]) -> Finding:
    common = {"rows": "rows.csv.gz", "where": {}, "decimals": 1, **given, **about}
    comparisons = _comparisons(folder, common)
    unit, note = about.get("unit", ""), ". ".join(filter(None, (about.get("note"), about.get("void"))))
    most, examples = about.get("most", False), about.get("examples", "examples")
    return Finding(
        about["claim"], about["about"], unit, comparisons, note, about.get("name", ""),
        common.get("models", ()), common.get("data", ()), most, examples,
    )  # fmt: skip


def _comparisons(folder: Path, common: Mapping[str, Any]) -> list[Comparison]:
    differences = list(_differences(folder, common))
    level = 1 - 0.05 / max(1, len(differences))
    return [replace(comparison, corrected=crossed_mean(table, level)) for comparison, table in differences]


def _differences(folder: Path, common: Mapping[str, Any]) -> Iterator[tuple[Comparison, np.ndarray[Any, Any]]]:
    """Every comparison with its differences: [seeds, examples]."""
    deterministic, least_seeds = common.get("deterministic", {}), common.get("least_seeds", 1)
    for each in common["compare"]:
        files, over = each.get("rows", common["rows"]), common.get("over", "")
        ties = each.get("ties", common.get("ties", 0))
        columns = each.get("across", common.get("across", {}))
        for file, (sign, where) in itertools.product([files] if isinstance(files, str) else files, _across(columns)):
            path, where = folder / file, {**common["where"], **where}
            more, than, column = each["more"], each.get("than", 0), common.get("column", "value")
            if not isinstance(more, Mapping):  # a number less rows
                more, than, sign = than, more, -sign
            sides = [{**where, **more}]
            more = _values(path, sides[0], over, column, ties)
            if isinstance(than, Mapping):
                sides.append({**where, **than})
                other = _values(path, sides[1], over, column, ties)
                if _names(deterministic, sides[0]):
                    more = _for_seeds_of(other, more)
                if _names(deterministic, sides[1]):
                    other = _for_seeds_of(more, other)
                values = {key: sign * (more[key] - other[key]) for key in more if key in other}
            else:
                values = {key: sign * (value - than) for key, value in more.items()}
            if not values:
                raise SystemExit(f"{path}: no rows for {each}")
            table = _by_seed({key: value - each.get("by", 0) for key, value in values.items()})
            found = crossed_mean(table)
            decides = found.seeds >= least_seeds or all(_names(deterministic, side) for side in sides)
            decides &= not (each.get("void") or common.get("void"))
            about = float(np.isnan(table).mean()), tuple(_tied(path, sides)), each.get("above", 0)
            yield Comparison(each["label"], found, each.get("within"), common["decimals"], decides, *about), table


def _across(columns: Mapping[str, Sequence[str]]) -> Iterator[tuple[int, dict[str, str]]]:
    """Every choice of a value per column, with -1 where lower is better."""
    for values in itertools.product(*columns.values()):
        sign = -1 if any(value.startswith("-") for value in values) else 1
        yield sign, {name: value.removeprefix("-") for name, value in zip(columns, values, strict=True)}


def _names(some: Mapping[str, Sequence[Any]], where: Mapping[str, Any]) -> bool:
    """Whether `some` lists the value of one of the columns."""
    return any(where.get(column) in values for column, values in some.items())


def _for_seeds_of(drawn: Mapping[tuple[str, str], float], once: Mapping[tuple[str, str], float]) -> dict[Any, float]:
    """What was computed once, for every seed of what was drawn."""
    seeds = dict.fromkeys(seed for seed, _ in drawn)
    return {(seed, example): value for seed in seeds for (_, example), value in once.items()}


def _values(
    path: Path, where: Mapping[str, Any], over: str = "", column: str = "value", ties: float = 0
) -> dict[tuple[str, str], float]:
    """The values of some rows, by seed and example; means over the column `over`, undefined where one of them is."""
    kept = _chosen(path, where)
    names = map(str, kept[over].to_pylist() if over else [""] * kept.num_rows)
    keys = zip(names, map(str, kept["seed"].to_pylist()), map(str, kept["example_id"].to_pylist()), strict=True)
    values = [float("nan") if value in (None, "") else float(value) for value in kept[column].to_pylist()]
    if ties:
        tied = (float(value) if value not in (None, "") else 0.0 for value in kept["tied"].to_pylist())
        values = [value + ties * each for value, each in zip(values, tied, strict=True)]
    found = dict(zip(keys, values, strict=True))
    if len(found) < len(values):
        raise SystemExit(f"{path}: {dict(where)} leaves several rows for one example and seed")
    by_pair: dict[tuple[str, str], list[float]] = {}
    for (_, seed, example), value in found.items():
        by_pair.setdefault((seed, example), []).append(value)
    if len({len(each) for each in by_pair.values()}) > 1:
        raise SystemExit(f"{path}: {dict(where)} has more values of {over} for some examples than for others")
    return {pair: sum(each) / len(each) for pair, each in by_pair.items()}


def _tied(path: Path, sides: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    """The share of ties among the defined pairs of each side; none where the rows do not tell."""
    for where in sides if "tied" in _rows(path).column_names else ():
        yield float(np.mean([value for value in _chosen(path, where)["tied"].to_pylist() if value not in (None, "")]))


def _chosen(path: Path, where: Mapping[str, Any]) -> pa.Table:
    chosen = np.ones(_rows(path).num_rows, bool)
    for name, wanted in where.items():
        chosen &= _is(path, name, str(wanted))
    return _rows(path).filter(pa.array(chosen))


@cache
def _is(path: Path, name: str, wanted: str) -> np.ndarray[Any, Any]:
    """Which rows have this value, as it is written, in a column."""
    column = _rows(path).column(name)
    if pa.types.is_string(column.type):
        return np.asarray(pa.compute.equal(column, wanted).fill_null(False))
    return np.array([str(value) == wanted for value in column.to_pylist()])


@cache
def _rows(path: Path) -> pa.Table:
    return pa.parquet.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path)


def _by_seed(values: Mapping[tuple[str, str], float]) -> np.ndarray[Any, Any]:
    """[seeds, examples], undefined where a seed lacks an example."""
    seeds, examples = (list(dict.fromkeys(key[place] for key in values)) for place in (0, 1))
    return np.array([[values.get((seed, example), np.nan) for example in examples] for seed in seeds])


def _shown(label: str, group: Sequence[Comparison]) -> str:
    """The comparison of a label, or of several how many hold."""
    directions = [comparison.direction for comparison in group]
    reversed_ = f" ({directions.count(False)} reversed)" if False in directions else ""
    return str(group[0]) if len(group) == 1 else f"{label} {directions.count(True)} of {len(group)}{reversed_}"


def counted(numbers: Sequence[int], name: str) -> str:
    """
    >>> counted([3, 5], "seed"), counted([1], "text")
    ('3 to 5 seeds', '1 text')
    """
    return f"{_range(numbers)} {name}" + ("" if _range(numbers) == "1" else "s")


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def main() -> None:
    stale = []
    for path in written_pages():
        if (new := up_to_date(path)) != path.read_text(encoding="utf-8"):
            stale.append(path.relative_to(DOCS).as_posix())
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        raise SystemExit(f"not up to date: {', '.join(stale)}; run python scripts/studies/findings.py")


if __name__ == "__main__":
    main()
