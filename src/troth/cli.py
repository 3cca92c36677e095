"""The command line: one file a command in `commands/`; what a user can mend becomes one line and exit code 2."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from troth import commands
from troth.errors import TrothError

_INTERRUPTED = 130

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
    try:
        code = app(standalone_mode=False) or 0
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except TrothError as error:
        _complain(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        _complain(f"{error.filename}: {error.strerror}; choose another place")
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        _complain(_of_usage(error))
    if code == _INTERRUPTED:
        Console(stderr=True).print("stopped; what was finished is kept")
    sys.exit(code)


def _complain(line: str) -> NoReturn:
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    errors.print(Text.assemble(("troth: ", "bold red"), " ".join(line.split("\n"))))
    sys.exit(2)


def _of_usage(error: Any) -> str:
    """What the option parser has to say; where it says nothing, it has shown the help."""
    context = getattr(error, "ctx", None)
    command = "troth" if context is None else f"troth {context.info_name}" if context.parent else "troth"
    return f"{error.format_message().rstrip('.') or 'no command given'}; see {command} --help"
