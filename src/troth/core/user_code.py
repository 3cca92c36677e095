"""Code of the user's by reference: `my_file.py:MyExplainer`, `package.module:predict`.

It is run only where the user names it, on the command line or in Python. What is read from elsewhere (a plan file, a
run folder, a model folder) goes through the catalog and `load_model`, which refuse references.
"""

import hashlib
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from troth.core import reading
from troth.core.errors import TrothError, unknown
from troth.core.user_calls import failure, said

# A file or a module, a name in it, and perhaps options.
_REFERENCE = re.compile(r"(?P<where>[^(]+\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)(?P<options>\(.*\))?", re.DOTALL)


class Reference(NamedTuple):
    """`where:name`, with options in brackets or without."""

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
    """One line for a reference where only names are allowed."""
    reference = read(text)
    if reference is not None:
        raise TrothError(
            f"{reference.head} is code, which runs only where you name it yourself: on the command line "
            "(troth bench or explain, -e or -m) or in Python; a plan file, a run or a model cannot name it"
        )


def load(reference: Reference, home: Path) -> Any:
    """What a reference names; relative files start at `home`."""
    module = _from_file(home / reference.where, reference) if reference.is_file else _from_module(reference)
    if reference.name not in vars(module):
        known = [name for name in vars(module) if not name.startswith("_")]
        raise unknown(f"thing in {reference.where}", reference.name, known)
    return vars(module)[reference.name]


def text_of(reference: Reference, home: Path) -> str:
    """The text of the file that a reference names, or of its module's file."""
    if reference.is_file:
        return reading.text(home / reference.where)
    file = getattr(sys.modules.get(reference.where), "__file__", None)
    return reading.text(file) if file and file.endswith(".py") else ""


def _from_file(path: Path, reference: Reference) -> Any:
    try:
        text = reading.content(path)
    except OSError:
        raise TrothError(f"{reference.head}: there is no file {path}") from None
    # One module per text: a file that was changed is read again, one that was not keeps its classes.
    name = f"troth_user_code_{hashlib.sha256(str(path.resolve()).encode() + text).hexdigest()[:16]}.{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    sys.path.insert(0, str(path.resolve().parent))  # its neighbors, as for a script
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
    # The installed program, unlike `python -m`, does not look for modules in the current folder.
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
