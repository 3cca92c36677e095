"""A page of plain HTML that needs no script: a form, the colored text, and checkboxes to erase its units."""

from __future__ import annotations

import html
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from fastapi import FastAPI, Request
from pydantic import ValidationError

from troth.core import catalog, spec_text
from troth.report import export
from troth.serve import requests
from troth.serve.answers import LeftError, Page, results, status_of
from troth.serve.runs import Runs
from troth.serve.served import Served
from troth.serve.work_queue import WorkQueue

ASSETS = Path(export.__file__).parent / "page_assets"  # the built front end, if it is installed
Sent = Mapping[str, Sequence[str]]  # the fields of a form


def assets() -> dict[str, Path]:
    """The files of the front end by name."""
    return {path.name: path for path in sorted(ASSETS.glob("*")) if path.suffix in (".js", ".css")}


def add(app: FastAPI, queue: WorkQueue, served: Served, runs: Runs) -> None:
    """Adds the page at /, which works without scripts."""
    names = [*served.models]

    async def answered(request: Request, sections: Callable[[Sent], Awaitable[list[str]]]) -> Page:
        """The submitted form, followed by its result or by the error."""
        sent, status = _fields(await request.body()), 200
        try:
            shown = await sections(sent)
        except LeftError:
            raise
        except Exception as error:
            status, line = status_of(error)
            if isinstance(error, ValidationError):
                status, line = 422, str(error.errors()[0]["msg"])
            shown = [f'<p role="alert">{html.escape(line)}</p>']
        return Page(export.html_page("troth", [_form(names, sent), *shown]), status)

    @app.get("/", response_class=Page, include_in_schema=False)
    def start() -> str:
        """If the front end is installed, it replaces the content of #app."""
        rows = [_run(run) for run in runs.listed()]
        listed = f"<h2>Runs</h2><ul>{''.join(rows)}</ul>" if rows else ""
        loaded = "".join(
            f'<link rel="stylesheet" href="/assets/{quote(name)}">'
            if name.endswith(".css")
            else f'<script type="module" src="/assets/{quote(name)}"></script>'
            for name in assets()
        )
        return export.html_page("troth", [f'<div id="app" data-mode="serve">{_form(names, {})}{listed}</div>{loaded}'])

    @app.post("/", response_class=Page, include_in_schema=False)
    async def explain(request: Request) -> Page:
        async def sections(sent: Sent) -> list[str]:
            asked = requests.Explain(
                **_of_text(sent),
                explainers=spec_text.split(_value(sent, "explainers")) or ["integrated_gradients"],
                target=_value(sent, "target") or "predicted",
            )
            job = served.explaining(asked, asked.model, lambda found: found, may_refuse=True)
            (found,) = await results(request, queue, [job])
            shown = found.by_target
            boxes = _erasing(shown[0][0].units, sent, ()) if shown else "<p>No label is above the threshold.</p>"
            return [*found.sections(), boxes]

        return await answered(request, sections)

    @app.post("/erase", response_class=Page, include_in_schema=False)
    async def erase(request: Request) -> Page:
        async def sections(sent: Sent) -> list[str]:
            erased = [
                int(each) for each in sent.get("erased", []) if each.isascii() and each.isdigit() and len(each) < 9
            ]
            # The number of units is only known once the text is encoded, so a first request determines it.
            whole = requests.Erase(**_of_text(sent), keep=[])
            (found,) = await results(request, queue, [served.erasing(whole)])
            keep = [[int(place not in erased) for place in range(len(found["units"]))]]
            (found,) = await results(request, queue, [served.erasing(whole.model_copy(update={"keep": keep}))])
            return [_erasing(found["units"], sent, erased), _after_erasing(found)]

        return await answered(request, sections)


def _fields(body: bytes) -> dict[str, list[str]]:
    """The fields of a form; invalid UTF-8 is replaced."""
    try:
        return parse_qs(body.decode("latin-1"), keep_blank_values=True, max_num_fields=10_000)
    except ValueError:
        return {}


def _value(sent: Sent, name: str, otherwise: str = "") -> str:
    return sent.get(name, [otherwise])[-1]


def _of_text(sent: Sent) -> dict[str, Any]:
    return {
        "text": _value(sent, "text").replace("\r\n", "\n"),
        "text_pair": _value(sent, "text_pair") or None,
        "model": _value(sent, "model") or None,
    }


def _run(run: Mapping[str, Any]) -> str:
    name = Path(run["run"]).resolve().name
    about = run["problem"] or f"{run['finished']} of {run['planned']} cells finished"
    return f'<li><a href="/runs/{quote(name, safe="")}">{html.escape(name)}</a> {html.escape(about)}</li>'


def _form(models: Sequence[str], sent: Sent) -> str:
    """The form for a text and its options, with the submitted values."""
    text, pair = (html.escape(_value(sent, name)) for name in ("text", "text_pair"))
    named = html.escape(_value(sent, "explainers", "integrated_gradients"))
    target = html.escape(_value(sent, "target", "predicted"))
    chosen = _value(sent, "model", models[0])
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


def _erasing(units: Iterable[str], sent: Sent, erased: Sequence[int]) -> str:
    """Checkboxes that erase units, with the fields of the submitted form."""
    hidden = "".join(
        f'<input type="hidden" name="{name}" value="{html.escape(_value(sent, name))}">'
        for name in ("text", "text_pair", "model", "explainers", "target")
    )
    boxes = " ".join(
        f'<label><input type="checkbox" name="erased" value="{place}"{" checked" if place in erased else ""}>'
        f"{html.escape(unit)}</label>"
        for place, unit in enumerate(units)
    )
    return (
        f'<form method="post" action="/erase">{hidden}'
        f"<fieldset><legend>Erase units and ask again</legend>{boxes}</fieldset>"
        "<p><button>Ask again</button></p></form>"
    )


def _after_erasing(found: Mapping[str, Any]) -> str:
    """A table of the model's outputs for the whole text and without the erased units."""
    rows = [
        f"<tr><td>{html.escape(label)}</td><td>{whole:.3f}</td><td>{left:.3f}</td></tr>"
        for label, whole, left in zip(found["labels"], found["whole"], found["probabilities"][0], strict=True)
    ]
    number = "values" if found["outputs"] == "values" else "probabilities"
    return (
        f"<table><caption>{number.capitalize()}</caption><tr><th>class</th><th>whole text</th>"
        f"<th>without the erased units</th></tr>{''.join(rows)}</table>"
    )
