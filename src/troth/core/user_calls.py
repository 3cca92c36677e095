"""Code of the user's is called through here: functions, explainers, metrics, maskings, models and tokenizers.

Whatever it raises becomes one line that says what was called, with what, and where in the user's file that happened.
The user's part of the traceback is kept with it, without ours. SystemExit, GeneratorExit and StopIteration, which would
end a process or a loop of ours without a word, are errors like any other; only Ctrl-C stays what it is.
"""

import sysconfig
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from troth.core.errors import TrothError

_OURS = str(Path(__file__).parents[1])
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_FRAMES = 12  # of a traceback that is kept
_LONGEST = 300  # characters of what an error says


class UserCodeError(TrothError):
    """What the user's code raised; `trace` is their part of the traceback."""

    def __init__(self, line: str, trace: str = "") -> None:
        super().__init__(line)
        self.trace = trace


@contextmanager
def calling(what: str, given: str = "", *, out_of_memory: bool = True) -> Iterator[None]:
    """Everything that is called inside is the user's; what the engine can do with less memory, it is left to do."""
    try:
        yield
    except (KeyboardInterrupt, TrothError):
        raise
    except BaseException as error:
        if not out_of_memory and isinstance(error, MemoryError | RuntimeError):
            from troth.core.memory import ran_out  # imports torch

            if ran_out(error):
                raise
        raise failure(f"{what} raised {said(error)}", error, given) from error


def failure(line: str, error: BaseException, given: str = "") -> UserCodeError:
    """The error as the user sees it."""
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    own = [frame for frame in theirs if not frame.filename.startswith((*_LIBRARIES, "<frozen"))]
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    if isinstance(error, SyntaxError) and error.lineno and not own:
        place = f" (line {error.lineno})"
    lines = [*traceback.format_list(theirs[-_FRAMES:]), *traceback.format_exception_only(error)]
    trace = "".join(["Traceback (most recent call last):\n", *lines]) if theirs else ""
    return UserCodeError(f"{line}{place}{f', called with {given}' if given else ''}", trace)


def said(error: BaseException) -> str:
    """The kind of an error and its message."""
    try:
        text = " ".join(str(error).split())[:_LONGEST]
    except Exception:  # of its own __str__
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: Any, longest: int = 60) -> str:
    """A value in a few letters."""
    try:
        text = repr(value)
    except Exception:  # of its own __repr__
        text = f"a {type(value).__name__}"
    return text if len(text) <= longest else f"{text[:longest]}…"


def guard(cls: type, names: tuple[str, ...], *, out_of_memory: bool = True, **results: tuple[Any, type]) -> None:
    """Has the methods of a user's class called through here; those of troth's own classes stay as they are.

    `results` are methods that must be generators: what they may yield, and what they must return.
    """
    if cls.__module__.partition(".")[0] == "troth":
        return
    for name in (*names, *results):
        method = vars(cls).get(name)
        if callable(method):
            setattr(cls, name, _guarded(method, results.get(name), out_of_memory))


def _guarded(method: Callable[..., Any], result: tuple[Any, type] | None, out_of_memory: bool) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        what, given = f"{type(self).__name__}.{method.__name__}", _about(arguments)
        with calling(what, given, out_of_memory=out_of_memory):
            answer = method(self, *arguments, **options)
        return answer if result is None else _watched(answer, what, given, *result)

    return call


def _watched(answer: Any, what: str, given: str, yields: Any, returns: type) -> Generator[Any, Any, Any]:
    """A generator of the user's, every step of which is a call."""
    if not isinstance(answer, Generator):
        raise UserCodeError(f"{what} returned {shown(answer)}; it must be a generator that yields {_one(yields)}")
    reply: Any = None
    while True:
        with calling(what, given):
            try:
                step = next(answer) if reply is None else answer.send(reply)
            except StopIteration as stop:
                result = stop.value
                break
        if not isinstance(step, yields):
            raise UserCodeError(f"{what} yielded {shown(step)}; it must yield {_one(yields)}")
        reply = yield step
    if not isinstance(result, returns):
        raise UserCodeError(f"{what} returned {shown(result)}; it must return {_one(returns)}")
    return result


def _one(kind: Any) -> str:
    kind = kind[0] if isinstance(kind, tuple) else kind
    return f"{'an' if kind.__name__[0] in 'AEIOaeio' else 'a'} {kind.__name__}"


def _about(arguments: tuple[Any, ...]) -> str:
    """The example that a call is about, where its first argument says so."""
    first = arguments[0] if arguments else None
    example = getattr(getattr(first, "encoding", None), "example", None)
    return f"example {example.id}" if example is not None else ""
