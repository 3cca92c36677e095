"""Questions of practitioners, answered from the verdicts that `findings.py` computes.

    python scripts/studies/questions.py            # writes the tables of docs/findings.md and marks in guide/which.md
    python scripts/studies/questions.py --check    # fails where one of them is not up to date

`docs/papers/questions.toml` has an answer per question and names the verdicts that it rests on. An answer whose
verdicts have changed is an error, and so is an answer from one architecture that names neither its models nor its data.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import findings

GIVEN, PAGE, WHICH = findings.PAPERS / "questions.toml", findings.DOCS / "findings.md", findings.DOCS / "guide/which.md"
MARKS = "<!-- questions: written by scripts/studies/questions.py -->", "<!-- /questions -->"
SURE = re.compile(r"<!-- sure:(\w+) -->.*?<!-- /sure -->")
ARCHITECTURES = {"BiLSTM": "BiLSTM", "MiniLM": "encoder", "MiniLM+MLM": "encoder", "SmolLM2-135M": "decoder"}
MODEL = re.compile(r"BiLSTM|MiniLM\+MLM|MiniLM|SmolLM2-135M")
DATA = re.compile(r"SST(?:-2)?|bAbI-1|bAbI-2|IMDB|AG News|SemEval|MRPC|CoLA|Emotion|Rotten Tomatoes|ERASER Movies")


@dataclass(frozen=True)
class Question:
    """A question, its answer in a sentence, and the findings with the page of each."""

    name: str
    part: str
    question: str
    answer: str
    rests_on: list[tuple[str, findings.Finding]]

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(name for _, each in self.rests_on for name in each.models or _named(MODEL, each)))

    @property
    def data(self) -> list[str]:
        """SST is the same data as SST-2, so it counts once."""
        names = (name for _, each in self.rests_on for name in each.data or _named(DATA, each))
        return list(dict.fromkeys(name.removesuffix("-2") if name == "SST-2" else name for name in names))

    @property
    def architectures(self) -> int:
        return len({ARCHITECTURES[model] for model in self.models})

    @property
    def seeds(self) -> int:
        """Of the comparison that has the fewest."""
        return min(comparison.found.seeds for _, each in self.rests_on for comparison in each.comparisons)

    @property
    def sure(self) -> str:
        """How sure the answer is: the rule of `docs/findings.md`."""
        found = [each for _, each in self.rests_on]
        if any(each.verdict == "undecided" for each in found):
            return "open"
        corrected = all(each.corrected.verdict == each.verdict for each in found)
        conditions = (self.architectures >= 2, len(self.data) >= 2, self.seeds >= 3, corrected)
        return {4: "strong", 3: "moderate"}.get(sum(conditions), "weak")

    @property
    def evidence(self) -> str:
        """Models, data sets, seeds and texts."""
        found = [(each.examples, comparison.found) for _, each in self.rests_on for comparison in each.comparisons]
        texts = [mean.texts for examples, mean in found if examples in ("examples", "texts") and mean.texts > 1]
        together = all("together" in examples for examples, _ in found)
        seeds = "seeds together" if together else findings.counted([mean.seeds for _, mean in found], "seed")
        drawn = [seeds, *([findings.counted(texts, "text")] if texts else [])]
        return "; ".join((", ".join(self.models), ", ".join(self.data), *drawn))

    @property
    def links(self) -> str:
        pages = dict.fromkeys(page for page, _ in self.rests_on)
        return ", ".join(f"[{page}](papers/{page}/results.md)" for page in pages)


def _named(names: re.Pattern[str], finding: findings.Finding) -> list[str]:
    """What the finding's own words name."""
    return names.findall("; ".join([finding.about, *finding.groups]))


@cache
def questions() -> list[Question]:
    """All of them; an answer that its verdicts do not bear is an error."""
    with open(GIVEN, "rb") as file:
        return [_question(each) for each in tomllib.load(file)["question"]]


def _question(given: dict[str, Any]) -> Question:
    rests_on = []
    for name, verdict in given["rests_on"].items():
        page, finding = _found(name)
        if finding.verdict != verdict:
            raise SystemExit(f"{given['name']}: {name} is {finding.verdict}, the answer rests on {verdict}")
        rests_on.append((page, finding))
    asked = Question(given["name"], given["part"], given["question"], given["answer"], rests_on)
    if not asked.data:
        raise SystemExit(f"{asked.name}: no data set is named")
    if asked.architectures < 2 and not any(name in asked.answer for name in (*asked.models, *asked.data)):
        raise SystemExit(f"{asked.name}: an answer from one architecture names its models or its data")
    return asked


def _found(name: str) -> tuple[str, findings.Finding]:
    named = [(page, each) for page in findings.pages() for each in findings.findings(page) if each.name == name]
    if len(named) != 1:
        raise SystemExit(f"{len(named)} findings have the name {name}")
    return named[0]


def tables() -> str:
    """A table per part, in Markdown."""
    return "\n\n".join(_lines(part) for part in dict.fromkeys(each.part for each in questions()))


def _lines(part: str) -> str:
    lines = [f"## {part}", "", "| question | answer | how sure | evidence | more |", "|---|---|---|---|---|"]
    for each in questions():
        if each.part == part:
            lines.append(f"| {each.question} | {each.answer} | **{each.sure}** | {each.evidence} | {each.links} |")
    return "\n".join(lines)


def up_to_date() -> Iterator[tuple[Any, str]]:
    """Each page with the text that it should have."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    yield PAGE, f"{before}{MARKS[0]}\n\n{tables()}\n\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"
    sure = {each.name: each.sure for each in questions()}
    marked = SURE.sub(
        lambda found: f"<!-- sure:{found[1]} -->{sure[found[1]]}<!-- /sure -->", WHICH.read_text(encoding="utf-8")
    )
    yield WHICH, marked


def main() -> None:
    for path, new in up_to_date():
        if path.read_text(encoding="utf-8") != new:
            if "--check" in sys.argv:
                raise SystemExit(f"{path.name} is not up to date; run python scripts/studies/questions.py")
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
