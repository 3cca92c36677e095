"""A study's folder: study.json for machines, study.md and its figures for people."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from troth import catalog
from troth.errors import TrothError
from troth.sweep.files import write_aside

if TYPE_CHECKING:
    from troth.studies import Section, Study


def write(folder: Path, study: Study, sections: Sequence[Section], hardware: Mapping[str, Any]) -> None:
    """The pages of everything so far, and the figure of the newest section; each file is whole or not there."""
    from troth.studies import as_json

    facts = {"study": catalog.spec(study, full=True), "hardware": dict(hardware), "results": as_json(sections)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_aside(folder / "study.json", (json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode())
        _draw(folder / figure_name(len(sections) - 1, sections[-1]), sections[-1])
        write_aside(folder / "study.md", page(study, sections).encode())
    except OSError as error:
        raise TrothError(f"cannot write {folder}: {error.strerror}; choose another --out") from None


def page(study: Study, sections: Sequence[Section]) -> str:
    """The study as Markdown."""
    from troth.studies import shown

    lines = [f"# {catalog.summary('studies', catalog.name_of(study))}", ""]
    for number, section in enumerate(sections):
        lines += [f"## {section.title}", ""]
        if section.rows:
            lines.append(f"| {' | '.join(section.columns)} |")
            lines.append("|---|" + "--:|" * (len(section.columns) - 1))
            lines += [f"| {' | '.join(shown(cell).replace('|', '∣') for cell in row)} |" for row in section.rows]
            lines.append("")
        if section.draw is not None:
            lines += [f"![{section.title}]({figure_name(number, section)})", ""]
        if section.words:
            lines += [section.words, ""]
    return "\n".join(lines)


def figure_name(number: int, section: Section) -> str:
    """Of a section's picture in the folder."""
    return f"{number + 1:02}-{section.part}.png"


def _draw(path: Path, section: Section) -> None:
    if section.draw is None:
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    section.draw(figure)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120, format="png")
    write_aside(path, drawn.getvalue())
