"""A local page for explaining texts, erasing words and opening runs."""

from __future__ import annotations

import errno
import json
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from troth.commands import _options
from troth.commands._model_options import ALL, Asked, takes
from troth.core import terminal
from troth.core.errors import TrothError
from troth.core.extras import importing

if TYPE_CHECKING:
    from troth.models import TextClassifier

_HOST = "127.0.0.1"
_PATIENCE = 3.0  # seconds to wait for the answer of another server on the port
# Options of models that `serve` does not have.
_NOT_HERE = ("shots", "shot_count", "candidate_labels", "hypothesis_template")


@takes(*(name for name in ALL if name not in _NOT_HERE))
def serve(
    run: Annotated[str | None, typer.Argument(help="A run to open: its folder, or its name in runs/.")] = None,
    model: Annotated[list[str] | None, "Models to choose from; by default the embedded one."] = None,
    port: Annotated[int, "Port of the page; 0 takes any free port."] = 8765,
    runs: Annotated[str, "The folder whose runs can be opened."] = "runs",
    show: Annotated[bool, typer.Option("--open", help="Open the page in this machine's browser.")] = False,
    device: _options.Device = None,
    asked: Asked = dict,
    allow: _options.Allow = None,
    as_json: _options.Json = False,
) -> None:
    """Serves a local page: type a text, see what made the model decide, erase words, open a run.

    Example: troth serve -m embedded,my-model

    A language model: troth serve -m my-llm --prompt "Review: {text} It is" --class-words good,bad

    Needs fastapi and uvicorn: pip install "troth[serve]"
    """
    _options.require("--port", port, 0 <= port <= 65_535, "0 to 65535")
    with importing("serve", "troth serve"):
        import fastapi as fastapi
        import uvicorn
    from troth.serve.app import build
    from troth.serve.runs import Runs, shown_name
    from troth.store.store import open_run

    _options.quieten()
    opened = None if run is None else open_run(run, runs).folder
    place = _bound(port)
    with place:
        model_options = asked()
        if set(model or ["embedded"]) == {"embedded"}:
            _options.spare_threads("embedded")
        models = _loaded(model or ["embedded"], device, model_options)
        port = place.getsockname()[1]
        app = build(models, Runs(Path(runs), opened), port=port, opened=None if opened is None else shown_name(opened))
        url = f"http://{_HOST}:{port}/" + ("" if opened is None else f"runs/{quote(shown_name(opened))}")
        if as_json:
            _options.print_json({"url": url})
        else:
            terminal.echo(f"open {url} in a browser on this machine; Ctrl-C stops")
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3, lifespan="on",
            limit_concurrency=200, ws="none", proxy_headers=False,
        )  # fmt: skip
        with suppress(KeyboardInterrupt):
            if show:
                import webbrowser

                webbrowser.open(url)  # the socket already accepts connections
            uvicorn.Server(config).run(sockets=[place])
        terminal.echo("stopped", err=True)


def _bound(port: int) -> socket.socket:
    """A socket that listens on the port, opened before any model is loaded."""

    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((_HOST, port))
        place.listen(128)
    except OSError as error:
        place.close()
        way_out = "name another, or 0 for any that is free"
        if error.errno == errno.EADDRINUSE and _is_ours(port):
            raise TrothError(
                f"--port {port}: troth serve is already running there; open http://{_HOST}:{port}/, or {way_out}"
            ) from None
        raise TrothError(f"--port {port}: {error.strerror}; {way_out}") from None
    return place


def _is_ours(port: int) -> bool:
    """Whether another `troth serve` listens on the port."""
    import http.client

    connection = http.client.HTTPConnection(_HOST, port, timeout=_PATIENCE)
    try:
        connection.request("GET", "/openapi.json")
        return bool(json.loads(connection.getresponse().read(1 << 20))["info"]["title"] == "troth")
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return False
    finally:
        connection.close()


def _loaded(names: list[str], device: str | None, asked: dict[str, Any]) -> dict[str, TextClassifier]:
    """Loads the models by name; options apply to all models but the embedded one, unless it is the only one."""
    from troth.models import load_named

    if len(set(names)) < len(names):
        raise TrothError(f"--model names one model twice: {', '.join(names)}")
    models: dict[str, TextClassifier] = {}
    for name in names:
        if sys.stderr.isatty():  # otherwise an error is the only line
            terminal.echo(f"loading {name}", err=True)
        own = {} if name == "embedded" and len(names) > 1 else asked
        models[name] = load_named(_options.known_model(name), device=device, **own)
    return models
