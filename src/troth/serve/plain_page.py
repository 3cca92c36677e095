"""A page of plain HTML: a form, the colored text, and boxes to erase its units. It needs no script."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from troth.core import catalog
from troth.core.types import Attribution
from troth.report import explanation, page

ASSETS = Path(page.__file__).parent / "page_assets"  # the built front end, where it is shipped


def assets() -> dict[str, Path]:
    """The files of the front end by their names."""
    return {path.name: path for path in sorted(ASSETS.glob("*")) if path.suffix in (".js", ".css")}


def start(form: str, runs: Iterable[Mapping[str, Any]]) -> str:
    """The first page; a front end that is shipped replaces what is in #app."""
    rows = [_run(run) for run in runs]
    listed = f"<h2>Runs</h2><ul>{''.join(rows)}</ul>" if rows else ""
    loaded = "".join(
        f'<link rel="stylesheet" href="/assets/{quote(name)}">'
        if name.endswith(".css")
        else f'<script type="module" src="/assets/{quote(name)}"></script>'
        for name in assets()
    )
    return page.render("troth", [f'<div id="app" data-mode="serve">{form}{listed}</div>{loaded}'])


def _run(run: Mapping[str, Any]) -> str:
    name = Path(run["run"]).resolve().name
    about = run["problem"] or f"{run['finished']} of {run['planned']} cells finished"
    return f'<li><a href="/runs/{quote(name, safe="")}">{html.escape(name)}</a> {html.escape(about)}</li>'


def form(models: Sequence[str], values: Mapping[str, str]) -> str:
    """What is explained; filled with what was sent."""
    text, pair = (html.escape(values.get(name, "")) for name in ("text", "text_pair"))
    named = html.escape(values.get("explainers", "integrated_gradients"))
    target = html.escape(values.get("target", "predicted"))
    chosen = values.get("model", models[0])
    known = ", ".join(catalog.names("explainers"))
    options = "".join(f"<option{' selected' if name == chosen else ''}>{html.escape(name)}</option>" for name in models)
    return (
        '<form method="post" action="/">'
        f'<p><label>Text<br><textarea name="text" rows="4" cols="70" required>{text}</textarea></label></p>'
        "<p><label>Second text, for models that read two<br>"
        f'<input name="text_pair" size="70" value="{pair}"></label></p>'
        f'<p><label>Model <select name="model">{options}</select></label> '
        f'<label>Explainers <input name="explainers" size="40" value="{named}"></label> '
        f'<label>Class <input name="target" value="{target}"></label></p>'
        "<p><button>Explain</button></p>"
        f"<details><summary>All explainers</summary>{html.escape(known)}</details></form>"
    )


def explained(form: str, by_text: Sequence[Sequence[Attribution]], values: Mapping[str, str]) -> str:
    """The form, the explanations, and a box for each unit."""
    boxes = erasing(by_text[0][0].units, values, ()) if by_text else "<p>No label is above the threshold.</p>"
    return page.render("troth", [form, *explanation.sections(by_text), boxes])


def erasing(units: Sequence[str], values: Mapping[str, str], erased: Sequence[int]) -> str:
    """Boxes that erase units, with the text they are of."""
    sent = "".join(
        f'<input type="hidden" name="{name}" value="{html.escape(values.get(name, ""))}">'
        for name in ("text", "text_pair", "model", "explainers", "target")
    )
    boxes = " ".join(
        f'<label><input type="checkbox" name="erased" value="{place}"{" checked" if place in erased else ""}>'
        f"{html.escape(unit)}</label>"
        for place, unit in enumerate(units)
    )
    return (
        f'<form method="post" action="/erase">{sent}'
        f"<fieldset><legend>Erase units and ask again</legend>{boxes}</fieldset>"
        "<p><button>Ask again</button></p></form>"
    )


def after_erasing(form: str, found: Mapping[str, Any], values: Mapping[str, str], erased: Sequence[int]) -> str:
    """What the model says of the whole text and of what is left."""
    rows = [
        f"<tr><td>{html.escape(label)}</td><td>{whole:.3f}</td><td>{left:.3f}</td></tr>"
        for label, whole, left in zip(found["labels"], found["whole"], found["probabilities"][0], strict=True)
    ]
    number = "values" if found["outputs"] == "values" else "probabilities"
    table = (
        f"<table><caption>{number.capitalize()}</caption><tr><th>class</th><th>whole text</th>"
        f"<th>without the erased units</th></tr>{''.join(rows)}</table>"
    )
    return page.render("troth", [form, erasing(found["units"], values, erased), table])


def failed(form: str, line: str) -> str:
    """The form, and why there is no result."""
    return page.render("troth", [form, f'<p role="alert">{html.escape(line)}</p>'])
