"""Loads code of the user by reference (`my_file.py:MyExplainer`, `package.module:predict`) and calls it.

It is run only if the user names it, on the command line or in Python. Names read from elsewhere (a plan file, a run
folder, a model folder) go through the catalog and `load_model`, which reject references. The user's functions,
explainers, metrics, maskings, models and tokenizers are called through this module.

Any error they raise becomes one line that says what was called, with what, and at which line of the user's file it
failed. The user's part of the traceback is kept with it, without frames of troth. SystemExit, GeneratorExit and
StopIteration, which would silently end a process or a loop of troth, are treated like other errors; only Ctrl-C is
passed on.
"""

import hashlib
import importlib
import importlib.util
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

from troth.core import reading
from troth.core.errors import TrothError, unknown

_OURS = str(Path(__file__).parents[1])
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_FRAMES = 12  # frames of a traceback that are kept
_LONGEST = 300  # characters of an error message
# A file or a module, a name in it, and optionally options.
_REFERENCE = re.compile(r"(?P<where>[^(]+\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)(?P<options>\(.*\))?", re.DOTALL)


class UserCodeError(TrothError):
    """An error raised by the user's code; `trace` is their part of the traceback."""

    def __init__(self, line: str, trace: str = "") -> None:
        super().__init__(line)
        self.trace = trace


@contextmanager
def calling(what: str, given: str = "", *, out_of_memory: bool = True) -> Iterator[None]:
    """Converts errors of the user's code in this block; without `out_of_memory`, the engine handles exhausted
    memory.
    """
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
    """The error as it is shown to the user."""
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    own = [frame for frame in theirs if not frame.filename.startswith((*_LIBRARIES, "<frozen"))]
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    if isinstance(error, SyntaxError) and error.lineno and not own:
        place = f" (line {error.lineno})"
    lines = [*traceback.format_list(theirs[-_FRAMES:]), *traceback.format_exception_only(error)]
    trace = "".join(["Traceback (most recent call last):\n", *lines]) if theirs else ""
    return UserCodeError(f"{line}{place}{f', called with {given}' if given else ''}", trace)


def said(error: BaseException) -> str:
    """The type of an error and its message."""
    try:
        text = " ".join(str(error).split())[:_LONGEST]
    except Exception:  # raised by its own __str__
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: Any, longest: int = 60) -> str:
    """A shortened `repr` of a value."""
    try:
        text = repr(value)
    except Exception:  # raised by its own __repr__
        text = f"a {type(value).__name__}"
    return text if len(text) <= longest else f"{text[:longest]}…"


def guard(cls: type, names: tuple[str, ...], *, out_of_memory: bool = True, **results: tuple[Any, type]) -> None:
    """Wraps the methods of a user's class so that they are called through this module; troth's own classes are not
    changed.

    `results` are methods that must be generators: the types that they may yield, and the type that they must return.
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
    """Wraps a generator of the user, so that each of its steps is guarded and checked."""
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
    """The example that a call is about, if its first argument identifies it."""
    first = arguments[0] if arguments else None
    example = getattr(getattr(first, "encoding", None), "example", None)
    return f"example {example.id}" if example is not None else ""


class Reference(NamedTuple):
    """A reference of the form `where:name`, with optional options in brackets."""

    where: str
    name: str
    options: str

    @property
    def head(self) -> str:
        return f"{self.where}:{self.name}"

    @property
    def is_file(self) -> bool:
        return self.where.endswith(".py")


def read(text: object) -> Reference | None:
    """The parts of a reference; None for anything else.

    >>> read("my_file.py:Mine(width=3)"), read("integrated_gradients(steps=20)")
    (Reference(where='my_file.py', name='Mine', options='(width=3)'), None)
    """
    parts = _REFERENCE.fullmatch(text.strip()) if isinstance(text, str) else None
    return None if parts is None else Reference(parts["where"], parts["name"], parts["options"] or "")


def refuse(text: object) -> None:
    """Raises a one-line error for a reference where only names are allowed."""
    reference = read(text)
    if reference is not None:
        raise TrothError(
            f"{reference.head} is code, which runs only where you name it yourself: on the command line "
            "(troth bench or explain, -e, -m or --metrics) or in Python, where a model is passed as an object, not by "
            f"name; a file that names it needs your --allow {reference.head}"
        )


def load(reference: Reference, home: Path) -> Any:
    """The object that a reference names; relative paths are resolved against `home`."""
    module = _from_file(home / reference.where, reference) if reference.is_file else _from_module(reference)
    if reference.name not in vars(module):
        known = [name for name in vars(module) if not name.startswith("_")]
        raise unknown(f"object in {reference.where}", reference.name, known)
    return vars(module)[reference.name]


def text_of(reference: Reference, home: Path) -> str:
    """The source of the file that a reference names, or of its module's file."""
    if reference.is_file:
        return reading.text(home / reference.where)
    file = getattr(sys.modules.get(reference.where), "__file__", None)
    return reading.text(file) if file and file.endswith(".py") else ""


def _from_file(path: Path, reference: Reference) -> Any:
    try:
        text = reading.content(path)
    except OSError:
        raise TrothError(f"{reference.head}: there is no file {path}") from None
    # One module per file content: a changed file is loaded again, an unchanged one keeps its classes.
    name = f"troth_user_code_{hashlib.sha256(str(path.resolve()).encode() + text).hexdigest()[:16]}.{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their own module there
    sys.path.insert(0, str(path.resolve().parent))  # so that it can import its neighbors, like a script
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        raise failure(f"{reference.head}: {path} cannot be run: {said(error)}", error) from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _from_module(reference: Reference) -> Any:
    # Unlike `python -m`, the installed program does not look for modules in the current folder.
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(reference.where)
    except ModuleNotFoundError as error:
        if error.name and (reference.where == error.name or reference.where.startswith(f"{error.name}.")):
            way = f"for a file write {reference.where.rpartition('.')[2]}.py:{reference.name}"
            raise TrothError(f"{reference.head}: there is no module {error.name}; {way}") from None
        raise failure(f"{reference.head}: {said(error)}", error) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise failure(f"{reference.head}: {reference.where} cannot be imported: {said(error)}", error) from error
    finally:
        sys.path.remove(here)
