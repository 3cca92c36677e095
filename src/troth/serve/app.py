"""The API and the page as one application; `troth serve` runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from threading import Lock
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

import troth
from troth.core import catalog
from troth.core.errors import TrothError, unknown
from troth.models import TextClassifier
from troth.models._prompt_reader import PromptReader
from troth.report import export
from troth.serve import plain_page, replies, requests
from troth.serve.answers import Json, LeftError, Page, answer, problem, results
from troth.serve.guard import Guard
from troth.serve.runs import Runs
from troth.serve.served import ExplainedText, Served
from troth.serve.work_queue import Limits, WorkQueue

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": replies.Problem, "description": why}
    for status, why in {
        400: "The body cannot be read.",
        403: "Another site's page, or another name for this one.",
        404: "There is nothing of this name.",
        413: "The body is too large.",
        422: "What was asked cannot be done; the line says why.",
        500: "The model itself failed; what troth serve printed says how.",
        503: "As many requests as fit are under way; try again.",
        504: "It took longer than a request may.",
    }.items()
}
_EVENTS = {"queued": replies.Queued, "progress": replies.ProgressReply, "error": replies.Failed}
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The result; with `Accept: text/event-stream` events: `queued`, `progress`, and at the end "
        "`result` (the same result) or `error`.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
        "x-events": {name: model.model_json_schema() for name, model in _EVENTS.items()},
    }
}
# A report is one file with inline script and style; it may execute those and load nothing.
_REPORT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
)


def build(
    models: Mapping[str, TextClassifier],
    runs: Runs,
    *,
    port: int,
    opened: str | None = None,
    limit: Limits | None = None,
) -> Guard:
    """The application behind its guard; it answers as 127.0.0.1 at this port."""
    queue = WorkQueue(models, limit or Limits())
    served = Served(models)
    reporting = Lock()  # a report reads the whole run, so only one at a time

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        queue.close()

    # FastAPI's usual documentation pages load scripts from other sites.
    app = FastAPI(
        title="troth", version=troth.__version__, description="Explains what a text classifier did.", lifespan=lifespan,
        docs_url=None, redoc_url=None, default_response_class=Json, responses=_PROBLEMS,
    )  # fmt: skip
    app.state.queue = queue
    for kind in (TrothError, HTTPException, RequestValidationError, LeftError, Exception):
        app.add_exception_handler(kind, problem)

    @app.get("/api/about", response_model=replies.About)
    def about() -> Json:
        """What is served: models, explainers, maskings, limits, and the run that was opened."""
        return Json(
            {
                "version": troth.__version__,
                "models": [_described(name, model) for name, model in models.items()],
                "explainers": _summaries("explainers", requests.offered()),
                "maskings": _summaries("maskings", catalog.names("maskings")),
                "limits": {name: getattr(requests, name.upper()) for name in replies.Most.model_fields},
                "run": opened,
            }
        )

    @app.post("/api/explain", responses=_STREAM, response_model=replies.Explanations)
    async def explain(request: Request, asked: requests.Explain) -> Response:
        """One explanation per explainer (and target), with its proof: what `troth explain --json` prints."""
        job = served.explaining(asked, asked.model, ExplainedText.to_json)
        return await answer(request, queue, [job], lambda found: found[0])

    @app.post("/api/compare", responses=_STREAM, response_model=replies.Compared)
    async def compare(request: Request, asked: requests.Compare) -> Response:
        """The explanations of one model or two, which method is most faithful, and which explainers refused."""

        def shape(found: list[ExplainedText]) -> Any:
            parts = [part for one in found for part in (export.made_by(one.model), *one.sections())]
            return {"models": [one.with_verdict() for one in found], "page": export.html_page("Explanations", parts)}

        jobs = [served.explaining(asked, name, lambda found: found, may_refuse=True) for name in asked.models]
        return await answer(request, queue, jobs, shape)

    @app.post("/api/cite", responses=_STREAM, response_model=replies.Cited)
    async def cite(request: Request, asked: requests.Cite) -> Response:
        """Which passages an answer rests on: what `troth explain --question --json` prints, and its page."""
        return await answer(request, queue, [served.citing(asked)], lambda found: found[0])

    @app.post("/api/erase", response_model=replies.Erased)
    async def erase(request: Request, asked: requests.Erase) -> Response:
        """What the model says when only these units are kept."""
        return Json((await results(request, queue, [served.erasing(asked)]))[0])

    @app.get("/api/runs", response_model=replies.list_of(replies.Run))
    def list_runs() -> Json:
        """What `troth runs --json` prints."""
        return Json(runs.listed())

    @app.get("/api/runs/{name}", response_model=replies.Run)
    def run(name: str) -> Json:
        """How far a run is."""
        return Json(_named(runs.one, name))

    @app.get("/api/runs/{name}/report", response_model=replies.list_of(replies.Board))
    def report(name: str) -> Json:
        """What `troth report RUN --format json` prints; of a run under way what is there so far."""
        with reporting:
            return Json(_named(runs.report, name))

    @app.get("/runs/{name}", response_class=Page, include_in_schema=False)
    def report_page(name: str) -> Page:
        """The HTML report of a run."""
        with reporting:
            return Page(_named(runs.page, name), headers={"content-security-policy": _REPORT_POLICY})

    @app.get("/assets/{name}", response_class=FileResponse, include_in_schema=False)
    def asset(name: str) -> FileResponse:
        """A file of the front end."""
        files = plain_page.assets()
        if name not in files:
            raise HTTPException(404, str(unknown("file", name[:200], files)))
        return FileResponse(files[name])

    plain_page.add(app, queue, served, runs)
    return Guard(app, port)


def _named(find: Any, name: str) -> Any:
    """Looks up a name; answers 404 if it is unknown."""
    try:
        return find(name)
    except TrothError as error:
        raise HTTPException(404, str(error)) from None


def _described(name: str, model: TextClassifier) -> dict[str, Any]:
    own = {
        "name": name,
        "threshold": model.threshold if model.outputs == "labels" else None,
        "cites": isinstance(model, PromptReader),
    }
    return own | {field: getattr(model, field) for field in replies.ServedModel.model_fields if field not in own}


def _summaries(kind: str, names: Iterable[str]) -> list[dict[str, str]]:
    return [{"name": name, "summary": catalog.summary(kind, name)} for name in names]
