"""The page of a folder of records, for readers who know neither models nor troth."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from troth.core.errors import TrothError
from troth.core.numbers import percent
from troth.core.types import Attribution
from troth.report import explanation, export
from troth.verbs import records

NAME = "index.html"
_INTRODUCTION = (
    "Each part below is one decision of a computer model about one text. Colored words mattered most for it, as one "
    "or more methods of explanation see it. The evidence below each method tells how far to believe it: those words "
    "are hidden from the model, and the model is asked again. If the method is right, the model should now be much "
    "less sure than after hiding as many words at random."
)


def write(folder: Path) -> Path:
    """Writes the page of all records in a folder; those that cannot be read are listed."""
    path = folder / NAME
    export.write_page(path, "Decisions and why", _sections(folder), own=True)
    return path


def _sections(folder: Path) -> Iterator[str]:
    yield f"<p>{html.escape(_INTRODUCTION)}</p>"
    shown: list[Attribution] = []
    for path in records.files_of(folder):
        try:
            facts = records.read(path)
            attributions = [Attribution.from_dict(each) for each in facts["explanations"]]
        except TrothError as error:
            yield f"<p>{html.escape(str(error))}</p>"
            continue
        shown += attributions
        yield _decision(path.name, facts, attributions)
    yield explanation.legend_html(shown)
    yield (
        "<small>To check that these records still hold: <code>troth verify</code> with this folder. It explains every "
        "text again with the same model and compares.</small>"
    )


def _decision(name: str, facts: Mapping[str, Any], attributions: list[Attribution]) -> str:
    parts = [f"<h2>{html.escape(_said(attributions[0]))}</h2>"]
    parts += map(explanation.html, attributions)
    if facts.get("comparison"):
        parts.append(f"<p><b>{html.escape(str(facts['comparison']))}</b></p>")
    model, versions = facts["model"], facts["versions"]
    changed = "CHANGED after it was written; " if records.is_changed(facts) else ""
    about = (
        f"{changed}{facts['time']}; model {model.get('name')} (fingerprint {model.get('fingerprint')}); "
        f"seed {facts['settings'].get('seed')}; "
        f"{', '.join(f'{package} {version}' for package, version in versions.items())}; "
        f"file {name}, {facts.get('signature')}"
    )
    parts.append(f"<small>{html.escape(about)}</small>")
    return "".join(parts)


def _said(attribution: Attribution) -> str:
    """The decision in one sentence."""
    if not attribution.probabilities:
        return f"Explained: {attribution.label(attribution.target)}"
    probabilities = attribution.probabilities
    if attribution.outputs != "classes":
        return f"The model says {explanation.heading(attribution)}"
    predicted = max(range(len(probabilities)), key=lambda index: probabilities[index])
    sure = f"The model says {attribution.label(predicted)} and gives it {percent(probabilities[predicted])}"
    asked = "" if predicted == attribution.target else f"; explained is {attribution.label(attribution.target)}"
    return f"{sure}{asked}"
