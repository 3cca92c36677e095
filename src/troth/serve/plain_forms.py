"""What the plain page's forms send, and the pages that answer them."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from pydantic import ValidationError

from troth.core import spec_text
from troth.serve import plain_page, requests
from troth.serve.answers import LeftError, Page, results, status_of
from troth.serve.runs import Runs
from troth.serve.served import Served
from troth.serve.work_queue import WorkQueue


def add(app: FastAPI, queue: WorkQueue, served: Served, runs: Runs) -> None:
    """The page at /, which works without a script."""
    names = [*served.models]

    @app.get("/", response_class=Page, include_in_schema=False)
    def start() -> str:
        return plain_page.start(plain_page.form(names, {}), runs.listed())

    @app.post("/", response_class=Page, include_in_schema=False)
    async def explain(request: Request) -> Page:
        values = _values(await request.body())
        form = plain_page.form(names, values)
        try:
            asked = requests.Explain(
                **_of_text(values),
                explainers=spec_text.split(values.get("explainers", "")) or ["integrated_gradients"],
                target=values.get("target") or "predicted",
            )
            job = served.explaining(asked, asked.model, lambda found, _: list(zip(*found, strict=True)))
            (by_text,) = await results(request, queue, [job])
        except LeftError:
            raise
        except Exception as error:
            return _failed(form, error)
        return Page(plain_page.explained(form, by_text, values))

    @app.post("/erase", response_class=Page, include_in_schema=False)
    async def erase(request: Request) -> Page:
        body = await request.body()
        values = _values(body)
        form = plain_page.form(names, values)
        erased = _places(body)
        try:
            # How many units there are is known only when the text is encoded: the first answer says it.
            whole = requests.Erase(**_of_text(values), keep=[])
            (found,) = await results(request, queue, [served.erasing(whole)])
            keep = [[int(place not in erased) for place in range(len(found["units"]))]]
            (found,) = await results(request, queue, [served.erasing(whole.model_copy(update={"keep": keep}))])
        except LeftError:
            raise
        except Exception as error:
            return _failed(form, error)
        return Page(plain_page.after_erasing(form, found, values, erased))


def _values(body: bytes) -> dict[str, str]:
    """The fields of a form; what is not UTF-8 is replaced."""
    return {name: each[-1] for name, each in _fields(body).items()}


def _places(body: bytes) -> list[int]:
    return [
        int(each) for each in _fields(body).get("erased", []) if each.isascii() and each.isdigit() and len(each) < 9
    ]


def _fields(body: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(body.decode("latin-1"), keep_blank_values=True, max_num_fields=10_000)
    except ValueError:
        return {}


def _of_text(values: dict[str, str]) -> dict[str, Any]:
    return {
        "text": values.get("text", "").replace("\r\n", "\n"),
        "text_pair": values.get("text_pair") or None,
        "model": values.get("model") or None,
    }


def _failed(form: str, error: Exception) -> Page:
    status, line = (422, str(error.errors()[0]["msg"])) if isinstance(error, ValidationError) else status_of(error)
    return Page(plain_page.failed(form, line), status)
