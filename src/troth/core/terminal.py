"""All printing goes through this module: control characters in texts, labels and names are shown, not executed.

`Console` and `echo` show them as visible escapes. `guarded` is the second line of defense: anything else that writes to
the streams, such as a library, can color text and move the cursor of a progress bar, but not send other terminal
commands.
"""

import json
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import typer
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from troth.core.errors import TrothError

# C0 and C1 controls, line separators, characters that reorder text (bidi), and lone surrogates.
_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = re.compile(f"[{_CONTROLS}]")
_UNBROKEN = re.compile(
    r"\[[^\[\]]{1,40}\]|\(?\d+ %|p [=<] \d|(?:\S+ & )?\S+ [+−]?\d+(?:\.\d+)?(?=,|$| \()"
)  # not broken across lines
# Escape sequences that rich writes: colors, and the cursor of a progress bar.
_OURS = re.compile(rf"(\x1b\[[0-9;]*m|\x1b\[[0-9]*[AKG]|\x1b\[\?25[lh]|\r)|[{_CONTROLS}]")


def visible(text: str) -> str:
    """The text with every control character as a visible escape; line breaks and tabs are kept.

    >>> print(visible("a \\x1b[2J film\\a"))
    a \\x1b[2J film\\x07
    """
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00  # a byte that is not UTF-8, as a surrogate escape
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def wrapped(text: str, width: int) -> list[str]:
    """Wraps the text to lines of at most `width`, without breaking [low, high], 95 %, p = 0.5 or a unit and its score.

    >>> wrapped("it beats random by +0.1 [0.0, 0.2], p = 0.5, in 95 % of all", 28)
    ['it beats random by +0.1', '[0.0, 0.2], p = 0.5, in 95 %', 'of all']
    >>> wrapped("strongest: put −0.14, could +0.14", 28)
    ['strongest: put −0.14,', 'could +0.14']
    """
    kept = _UNBROKEN.sub(lambda match: match[0].replace(" ", "\0"), visible(text))
    lines = textwrap.wrap(kept, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def json_text(value: Any, encoding: str | None = "utf-8") -> str:
    """JSON with every control character escaped, and non-ASCII characters escaped unless `encoding` is a UTF."""
    plain = json.dumps(value, ensure_ascii=not (encoding or "").lower().startswith("utf"), indent=2)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", plain)


def echo(line: str, *, err: bool = False) -> None:
    """Prints one plain line."""
    typer.echo(visible(line), err=err)


class Console(RichConsole):
    """A console that shows control characters as escapes and leaves emoji :codes: unchanged."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "emoji": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)  # before widths are measured

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


class _Guarded:
    """A stream that lets through text, colors and a progress bar's cursor, and fails with a one-line error."""

    def __init__(self, stream: IO[str], name: str) -> None:
        self._stream, self._name = stream, name

    def write(self, text: str) -> int:
        shown = _OURS.sub(lambda match: match[0] if match[1] else _escaped(match), text)
        with self._failing_clearly():
            self._stream.write(shown)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with self._failing_clearly():
            self._stream.flush()

    @contextmanager
    def _failing_clearly(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CannotPrintError(f"{self._name} cannot be written ({error.strerror or error})") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class CannotPrintError(TrothError):
    """Standard output or standard error cannot be written."""


@contextmanager
def guarded() -> Iterator[None]:
    """Guards standard output and standard error; characters that the terminal cannot show are escaped.

    Closed standard streams are opened on the null device: otherwise the next opened file would get their file
    descriptor, and a library's warning would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    before = sys.stdout, sys.stderr
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # as long as the process
    if sys.stdout is None:
        raise CannotPrintError("standard output is closed; send it to a file, or to /dev/null")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = _Guarded(sys.stdout, "standard output"), _Guarded(sys.stderr, "standard error")
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = before
