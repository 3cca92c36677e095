"""The papers' experiments, in parts; each part is a table or figure of ours next to the published one."""

from __future__ import annotations

import html as markup
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from troth.core import catalog, extras, locks
from troth.core.display import Shown, counted, table
from troth.core.errors import TrothError, unknown
from troth.core.sheet import Exportable, Sheet, plain_sheet, without_nan
from troth.data import find_data
from troth.report.exhibits import Exhibit
from troth.store.cells import Plan
from troth.store.store import Store
from troth.sweep import machine
from troth.sweep.context import Context
from troth.sweep.run import Outcome, Progress, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Section(Shown, Exportable):
    """One result of a study: a table, its notes, its numbers for programs, and optionally a figure."""

    part: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]  # numbers or text; None and NaN are shown as –
    words: str = ""  # notes below the table
    facts: Mapping[str, Any] = field(default_factory=dict)  # plain values for --json
    draw: Callable[[Figure], None] | None = None

    def _line(self) -> str:
        return f"of {self.part}: {self.title}, {counted(len(self.rows), 'row')}"

    def _parts(self) -> Iterator[str]:
        from troth.report import figures

        sheet = self.sheet()
        yield table(self.title, self.columns, [[cell.text for cell in row] for row in sheet.rows])
        if self.draw is not None:
            yield figures.inline(sheet)
        yield f"<p>{markup.escape(self.words)}</p>" if self.words else ""

    def sheet(self) -> Sheet:
        """The section's table, with its figure if it has one."""
        return plain_sheet(self.title, self.columns, self.rows, [self.words] if self.words else [], self.draw)


@dataclass(frozen=True, eq=False)
class Setting:
    """The settings with which a study is run: data, model, seeds and hardware."""

    out: Path
    data: tuple[str, ...] = ()  # the study's own if empty
    base: str | None = None  # the model that is trained or explained
    seeds: tuple[int, ...] = (0,)
    limit: int | None = None  # examples of each split
    workers: int | None = 1
    progress: Callable[[Progress], None] | None = None
    context: Context = field(default_factory=Context)
    model_options: Mapping[str, Any] | None = None  # of load_model, such as a prompt and its class words
    command: str = ""  # recorded in run.json
    retry: bool = False  # tries failed cells again, once
    retried: set[str] = field(default_factory=set)

    def carry_out(self, plan: Plan) -> tuple[Store, Outcome]:
        """Carries out a plan in the study's own store; stored cells are not computed again."""
        store = Store(self.out)
        if self.retry:
            store.forget_failures(plan.cells.keys() - self.retried)
            self.retried.update(plan.cells)  # parts share cells
        outcome = run(
            plan, store, workers=self.workers, progress=self.progress, context=self.context, command=self.command
        )
        if outcome.interrupted:
            raise KeyboardInterrupt
        if outcome.failed and not outcome.computed and not outcome.stored:
            raise TrothError(outcome.failed[0].error)
        return store, outcome


@dataclass(frozen=True)
class Study(Shown, ABC):
    """An instance is the study's configuration: options are fields, so "roar(step=0.2)" is a study, too."""

    parts: ClassVar[Mapping[str, str]]  # name and one line for each, in the order in which they are run
    trains: ClassVar[bool] = True  # the base is a model that is trained; otherwise it is only explained
    takes_prompt: ClassVar[bool] = False  # also explains a causal language model with class words

    def _parts(self) -> Iterator[str]:
        name = catalog.name_of(self)
        yield table(f"{catalog.spec(self)}: {catalog.summary('studies', name)}", ("part", "what"), self.parts.items())

    @abstractmethod
    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        """Carries out a part and yields its results."""

    def plan(self, part: str, setting: Setting) -> Plan | None:
        """The cells of a part, for a dry run; None if the part is computed directly, without a store."""
        return None


def chosen_parts(study: Study, only: Sequence[str]) -> list[str]:
    """The parts to run; the error for an unknown part lists those of the study."""
    for part in only:
        if part not in study.parts:
            raise unknown("part", part, study.parts)
    return [part for part in study.parts if not only or part in only]


def carry_out(study: Study, setting: Setting, only: Sequence[str] = ()) -> Iterator[Section]:
    """Yields the results of a study; each is written to the folder (study.json, study.md, figures) before it is
    yielded.

    Other sections of the folder are kept.
    """
    from troth.studies import _writing
    from troth.training import bases
    from troth.training.output import require_writable

    parts = chosen_parts(study, only)
    extras.require("figures", "a study", "matplotlib")  # before any work is done
    Store(require_writable(setting.out))  # refuses a folder that is not ours before any work is done
    locks.require_free(setting.out)
    _writing.require_own(setting.out, study)
    for name in setting.data:
        find_data(name)
    if setting.base is not None and study.trains and not setting.model_options:
        bases.build(setting.base)
    with locks.held(setting.out):
        for part in parts:
            for section in study.sections(part, setting):
                _writing.write(setting.out, study, section, setting, machine.hardware())
                yield section


def stored_sections(folder: Path) -> list[Section]:
    """The results in a study's folder, without their figures; none if it is not a study's folder."""
    from troth.studies import _writing

    return [section for section, _ in _writing.stored_sections(folder)]


def stored_exhibits(folder: Path) -> list[Exhibit]:
    """The same results as tables, with the figures that were drawn."""
    from troth.studies import _writing

    stored = _writing.stored_sections(folder)
    return [Exhibit(section.part, section.sheet(), drawn) for section, drawn in stored if section.rows or drawn]


def as_json(sections: Iterable[Any]) -> dict[str, Any]:
    """The facts of each part by its name; for a single part, only its facts."""
    facts: dict[str, dict[str, Any]] = {}
    for section in sections:
        facts.setdefault(section.part, {}).update(section.facts)
    plain: dict[str, Any] = json.loads(json.dumps(without_nan(facts)))
    return next(iter(plain.values())) if len(plain) == 1 else plain
