"""The command line, one file per command in `commands/`; errors that users can fix take one line and exit code 2."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import sys
import traceback
from contextlib import suppress
from contextvars import copy_context
from typing import Annotated, Any

import typer
from rich.text import Text

import troth
from troth import commands
from troth.commands import _options
from troth.core import terminal
from troth.core.errors import TrothError

_FAULT, _FIXABLE, _INTERRUPTED = 1, 2, 130
_LONGEST = 2_000  # maximum length of an error message in characters
_NUMBERS = {"int_parsing": "a whole number", "float_parsing": "a number"}
# Allocations between two garbage collections. Importing torch and transformers creates many objects and hardly any
# garbage: with Python's default of 700, a short command spends an eighth of its time on garbage collection.
_COLLECT_AFTER = 10_000

app = typer.Typer(
    name="troth",
    help="Explain what a text classifier did, and prove how faithful the explanation is.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _module in pkgutil.iter_modules(commands.__path__):
    if not _module.name.startswith("_"):
        _file = importlib.import_module(f"troth.commands.{_module.name}")
        _command = getattr(_file, _module.name)
        _register = app.command(_module.name.rstrip("_"), cls=_options.Command, short_help=_options.summary(_command))
        _register(_options.described(_command))


def _print_version(wanted: bool) -> None:
    if wanted:
        terminal.echo(f"troth {troth.__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs a command; errors that a user can fix are printed as one line, and Ctrl-C prints no traceback."""
    gc.set_threshold(_COLLECT_AFTER)
    try:
        with terminal.guarded():
            # In a context of its own, so that permissions given by --allow end with the command.
            code = copy_context().run(_run)
    except BrokenPipeError:
        code = _FAULT  # the reader of our output is gone, so nothing more can be printed
        _silence()
    except terminal.CannotPrintError as error:
        code = _FIXABLE
        with suppress(OSError):
            _print_error(str(error))
        _silence()
    sys.exit(code)


def _run() -> int:
    try:
        code = app(standalone_mode=False) or 0
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else _FAULT
    except (BrokenPipeError, terminal.CannotPrintError):
        raise
    except TrothError as error:
        return _print_error(str(error), getattr(error, "trace", ""))
    except OSError as error:
        if error.filename is None:
            return _print_fault()
        return _print_error(f"{error.filename}: {error.strerror}; choose another place")
    except MemoryError as error:
        return _print_error(f"there is not enough memory ({str(error)[:200] or 'it is full'}); use less at a time")
    except Exception as error:
        return _print_error(_of_usage(error)) if hasattr(error, "format_message") else _print_fault()
    if code == _INTERRUPTED:
        terminal.echo("stopped; what was finished is kept", err=True)
    return code


def _print_error(line: str, trace: str = "") -> int:
    """Prints one line and, if the user's own code raised the error, its traceback."""
    if len(line) > _LONGEST:  # shorten values of a megabyte
        line = f"{line[: _LONGEST // 2]}…{line[-_LONGEST // 2 :]}"
    errors = terminal.Console(stderr=True, soft_wrap=True)
    shown = terminal.visible(" ".join(line.split("\n")))
    if errors.is_terminal:  # broken between words; elsewhere an error stays on one line
        shown = "\n".join(terminal.wrapped(f"troth: {shown}", errors.width)).removeprefix("troth: ")
    errors.print(Text.assemble(("troth: ", "bold red"), shown))
    if trace:
        terminal.echo(trace.rstrip("\n"), err=True)
    return _FIXABLE


def _print_fault() -> int:
    """Prints the full traceback of an internal error."""
    terminal.echo(traceback.format_exc(), err=True)
    return _FAULT


def _silence() -> None:
    """Redirects stdout and stderr to the null device; otherwise flushing their buffers would fail again at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(nothing, number)


def _of_usage(error: Any) -> str:
    """The option parser's message; without a command that message is the help text, which is printed as it is."""
    context = getattr(error, "ctx", None)
    command = "troth" if context is None else f"troth {context.info_name}" if context.parent else "troth"
    message = error.format_message()
    given: list[Any] = getattr(error.__cause__, "errors", list)()  # the parser's own words do not name the value
    if given and (kind := _NUMBERS.get(given[0]["type"])):
        message = f"{error.param.opts[0]} must be {kind}, not {str(given[0]['input'])[:60]!r}"
    if message.startswith("Usage:"):
        terminal.echo(message)
        message = "no command given"
    return f"{message.rstrip('.')}{'' if message.endswith('?') else ';'} see {command} --help"
