"""The command line: one file a command in `commands/`; what a user can mend becomes one line and exit code 2."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys

import typer
from rich.console import Console

from troth import commands
from troth.errors import TrothError

app = typer.Typer(
    name="troth",
    help="Explain what a text classifier did, and prove how faithful the explanation is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _module in pkgutil.iter_modules(commands.__path__):
    if not _module.name.startswith("_"):
        _file = importlib.import_module(f"troth.commands.{_module.name}")
        app.command(_module.name.rstrip("_"))(getattr(_file, _module.name))


@app.callback()
def _about() -> None:
    pass


def main() -> None:
    """Runs a command; errors a user can mend are one line, Ctrl-C is quiet."""
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        app()
    except TrothError as error:
        errors.print(f"[bold red]troth:[/] {_escaped(str(error))}")
        sys.exit(2)
    except KeyboardInterrupt:
        errors.print("stopped; what was finished is kept")
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone; nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except PermissionError as error:
        errors.print(f"[bold red]troth:[/] cannot write {_escaped(str(error.filename))}: permission denied; choose another folder")
        sys.exit(2)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
