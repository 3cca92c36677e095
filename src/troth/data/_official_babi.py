"""The bAbI stories as published (Weston et al. 2016): a question, its story so far, the facts that answer it.

`as_in=roar`: 8,500 / 1,500 of the 10,000 questions of train, and the test set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from troth.core import reading
from troth.core.errors import TrothError
from troth.data._base import rows
from troth.data._paper_splits import PaperSplits
from troth.data.sources.folders import Tables
from troth.data.sources.published import local_folder
from troth.data.sources.readers import Table

ROOMS = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")


@dataclass(frozen=True)
class OfficialBabi(PaperSplits):
    """From $TROTH_DATA/babi<task>, or from the published archive unpacked in $TROTH_DATA."""

    task: ClassVar[int]
    masked = "text"
    auxiliary = "text_pair"
    labels = ROOMS
    splits = rows(train=10_000, test=1_000)
    metric = "micro_f1"
    license = "CC BY 3.0"
    obtain = (
        "unpack http://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz in $TROTH_DATA, "
        "or use our own stories: babi(task=…)"
    )
    paper_rows = rows(train=8_500, validation=1_500, test=1_000)
    paper_held_out = 0.15

    as_in: Literal["roar"] | None = None

    def local_tables(self) -> Tables:
        archive = local_folder("tasks_1-20_v1-2/en-10k")
        found = sorted(archive.glob(f"qa{self.task}_*_*.txt")) if archive else []
        published: Tables = {path.stem.rpartition("_")[2]: partial(read_stories, path) for path in found}
        return published | super().local_tables()

    def adapt(self, table: Table) -> Table:
        changed = [{**row, "rationale": _sentence_spans(row["text"], row["supporting"])} for row in table.rows]
        return replace(table, rows=changed, columns=(*table.columns, "rationale"))


def read_stories(path: Path) -> Table:
    """A file of the archive: numbered lines, a story begins at 1, a question has its answer and facts behind tabs."""
    found: list[dict[str, Any]] = []
    story: dict[int, str] = {}
    for number, line in enumerate(reading.lines(path), start=1):
        match = re.fullmatch(r"(\d+) ([^\t]+?)\s*(?:\t(\w+)\t([\d ]+))?", line.rstrip("\r\n"))
        if match is None:
            raise TrothError(f"{path.name}: line {number} is no line of a bAbI story")
        place, sentence, answer, facts = int(match[1]), match[2], match[3], match[4]
        story = {} if place == 1 else story
        if answer is None:
            story[place] = sentence
        else:
            order = {line_number: index for index, line_number in enumerate(story)}
            supporting = [order[int(fact)] for fact in facts.split()]
            question = {"text_pair": sentence, "label": answer, "supporting": supporting}
            found.append({"text": " ".join(story.values()), **question})
    return Table.of(path.name, found)


def _sentence_spans(text: str, supporting: list[int]) -> list[tuple[int, int]]:
    sentences = [match.span() for match in re.finditer(r"[^.\s][^.]*\.", text)]
    return [sentences[index] for index in sorted(supporting)]
