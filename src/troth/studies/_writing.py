"""Writes a study's folder: study.json for programs, study.md and figures for people.

Earlier results are kept: a section replaces the one with the same part and title, and rows for other data in the same
table are kept if they were computed with the same settings.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.files import write_aside
from troth.core.sheet import TableCell, without_nan
from troth.models import short_name
from troth.report import figures
from troth.store import records

if TYPE_CHECKING:
    from troth.studies import Section, Setting, Study

_NAME = "study.json"


@dataclass(frozen=True)
class Kept:
    """A section as the folder has it, in plain values."""

    part: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    words: str
    facts: Mapping[str, Any]
    how: Mapping[str, Any]  # options, base, seeds and limit, but not the data
    figure: str  # the name of its file; "" if it has none


@dataclass(frozen=True)
class Document:
    """The fields of study.json that are read again."""

    study: str
    sections: Sequence[Kept]


def require_own(folder: Path, study: Study) -> None:
    """Raises an error, before any work is done, if the folder holds another study."""
    stored, name = _read(folder), catalog.name_of(study)
    if stored is not None and (other := stored["study"].partition("(")[0]) != name:
        raise TrothError(f"{folder} holds the study {other}, not {name}; choose another --out")


def write(folder: Path, study: Study, section: Section, setting: Setting, hardware: Mapping[str, Any]) -> None:
    """Adds a section to those in the folder: its figure, study.json and study.md, each written completely or not at
    all.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _add(folder, study, section, setting, hardware)
    except OSError as error:
        raise TrothError(f"cannot write {folder}: {error.strerror}; choose another --out") from None


def _add(folder: Path, study: Study, section: Section, setting: Setting, hardware: Mapping[str, Any]) -> None:
    from troth.studies import as_json

    if _read(folder) is None and (folder / _NAME).exists():  # not ours, so it is set aside
        (folder / "damaged").mkdir(exist_ok=True)
        os.replace(folder / _NAME, folder / "damaged" / _NAME)
    sections = _kept(folder)
    how = {"study": catalog.spec(study), "base": setting.base, "seeds": list(setting.seeds), "limit": setting.limit}
    columns, rows, facts = json.loads(json.dumps(without_nan([section.columns, section.rows, section.facts])))
    added = Kept(section.part, section.title, columns, rows, section.words, facts, how, "")
    before = next((other for other in sections if (other.part, other.title) == (added.part, added.title)), None)
    if before is not None:
        added = _joined(before, added)
    if section.draw is not None:
        from matplotlib.figure import Figure

        taken = {other.figure.partition("-")[0] for other in sections}
        number = next(number for number in range(1, 100) if f"{number:02}" not in taken)
        earlier = "" if before is None else before.figure
        added = replace(added, figure=earlier or f"{number:02}-{section.part}.png")
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        section.draw(figure)
        for ending in figures.ENDINGS:
            write_aside((folder / added.figure).with_suffix(ending), figures.as_file(figure, ending, dpi=120))
    kept = [added if other is before else other for other in sections] + ([] if before is not None else [added])
    order = [*study.parts]
    kept.sort(key=lambda other: order.index(other.part) if other.part in order else len(order))
    document = {
        "study": catalog.spec(study, full=True), "hardware": dict(hardware), "results": as_json(kept),
        "sections": [vars(other) for other in kept],
    }  # fmt: skip
    write_aside(folder / _NAME, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())
    write_aside(folder / "study.md", page(study, kept).encode())


def page(study: Study, sections: Sequence[Kept]) -> str:
    """The study as Markdown; options, base, seeds and limit are shown where sections differ in them."""
    ways = {json.dumps(section.how, sort_keys=True) for section in sections}
    lines = [f"# {catalog.summary('studies', catalog.name_of(study))}", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        if len(ways) > 1:
            how = {**section.how, "base": short_name(section.how.get("base") or "")}
            lines += [", ".join(f"{name} {value}" for name, value in how.items() if value not in (None, "")), ""]
        if section.rows:
            lines.append(f"| {' | '.join(section.columns)} |")
            lines.append("|---|" + "--:|" * (len(section.columns) - 1))
            lines += [
                f"| {' | '.join(TableCell(cell).text.replace('|', '∣') for cell in row)} |" for row in section.rows
            ]
            lines.append("")
        if section.figure:
            lines += [f"![{section.title}]({section.figure})", ""]
        if section.words:
            lines += [section.words, ""]
    return "\n".join(lines)


def _joined(before: Kept, added: Kept) -> Kept:
    """Keeps rows and facts for data that only the earlier call had, if they were computed with the same settings."""
    if (before.how, before.columns) != (added.how, added.columns):
        return added
    new = {json.dumps(row[:1]) for row in added.rows}
    rows = [row for row in before.rows if json.dumps(row[:1]) not in new]
    return replace(added, rows=[*rows, *added.rows], facts={**before.facts, **added.facts})


def _kept(folder: Path) -> list[Kept]:
    """The sections in a folder; none if it holds no study."""
    return [Kept(**section) for section in (_read(folder) or {"sections": []})["sections"]]


def _read(folder: Path) -> dict[str, Any] | None:
    """study.json as we write it; None if it is missing or not ours."""
    try:
        return records.read(folder / _NAME, Document)
    except (OSError, records.DamagedError):
        return None


def stored_sections(folder: Path) -> list[tuple[Section, dict[str, bytes]]]:
    """The sections in a folder, each with its figure by file ending; earlier versions wrote only one format."""
    from troth.studies import Section

    found = []
    for kept in _kept(folder):
        if all(len(row) == len(kept.columns) for row in kept.rows):
            path = folder / Path(kept.figure).name  # restricted to files of this folder, whatever study.json says
            files = {ending: path.with_suffix(ending) for ending in figures.ENDINGS} if kept.figure else {}
            drawn = {ending: file.read_bytes() for ending, file in files.items() if file.is_file()}
            found.append((Section(kept.part, kept.title, kept.columns, kept.rows, kept.words, kept.facts), drawn))
    return found
