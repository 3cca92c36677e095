"""What a file may not decide: where texts and keys are sent, which other files are read, and which code runs.

Plans, records, model folders and requests may come from anybody. What they name outside of the folders that the user
named is rejected unless the user repeats it: `--allow` on the command line, `allowing(…)` in Python. What the user
writes on the command line or in Python is always allowed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from troth.core import catalog, user_code
from troth.core.errors import TrothError

KEY_VARIABLE = "OPENAI_API_KEY"  # the default variable of the key that is sent to an endpoint
# Strict, because two parsers may disagree about the host of an unusual URL.
_URL = re.compile(
    r"https?://(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:/[\w./~%+:@,;=$!*-]*)?", re.I | re.A
)
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.A)
_HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")  # name of a model or data set
_ELSEWHERE = ("checkpoint", "endpoint")  # options of methods that name a file or a server

_allowed: ContextVar[frozenset[str]] = ContextVar("allowed", default=frozenset())


@contextmanager
def allowing(*names: str) -> Iterator[None]:
    """Allows files to name these as well: URL or URL=KEY_VARIABLE, a path and everything below it, or code
    (my_file.py:name).
    """
    resolved = {
        name if "://" in name or user_code.read(name) is not None else str(Path(name).expanduser().resolve())
        for name in names
    }
    before = _allowed.get()
    _allowed.set(before | resolved)
    try:
        yield
    finally:
        _allowed.set(before)


def allowed() -> frozenset[str]:
    """What the user allows files to name; paths are absolute, so that they can be passed to another process."""
    return _allowed.get()


def check_allowed(name: str) -> str:
    """Returns a value of `--allow`; raises an error if it could never allow anything."""
    url, key = _split(name)
    if "://" in name:
        endpoint_parts(url)
        if key is not None and not _VARIABLE.fullmatch(key):
            raise TrothError(f"--allow {name}: {key!r} is not the name of an environment variable")
    elif user_code.read(name) is None and not is_there(str(Path(name).expanduser())):
        raise TrothError(
            f"--allow {name}: there is no such file or folder; a key is allowed together with the endpoint that it is "
            "sent to: --allow https://host/v1=KEY_VARIABLE"
        )
    return name


def endpoint_parts(url: str) -> tuple[tuple[str, str, int], str]:
    """The server (scheme, host, port) and the path of an endpoint's URL, in the form in which they are compared.

    Rejects ambiguous URLs and those that contain a secret.
    """
    if "@" in url.partition("://")[2].partition("/")[0] or "?" in url:
        raise TrothError(
            "endpoint must not contain a password or a query; put the key into an environment variable "
            "and pass its name: key_variable=…"
        )
    if not _URL.fullmatch(url) or "/../" in f"{url}/":
        raise TrothError(f"endpoint must be a URL such as http://localhost:8000/v1, not {url!r}")
    parts = urlsplit(url.lower())
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return (parts.scheme, parts.hostname or "", port), urlsplit(url).path.rstrip("/")


def is_there(path: str) -> bool:
    """Whether a path exists; False for names that no file system accepts."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def names_elsewhere(kind: str, name: str) -> list[str]:
    """The options of a method that name a file or a server."""
    return [field.name for field in catalog.fields(kind, name) if field.name in _ELSEWHERE]


@dataclass(frozen=True)
class Origin:
    """The place where a name was read: how errors refer to it, and the folders that the user named together with it.

    An origin without folders, such as a request, may name neither files nor servers, whatever the user allows.
    """

    name: str
    folders: tuple[Path, ...] = ()

    @classmethod
    def file(cls, path: str | Path, *folders: Path) -> Self:
        """A file that the user named: it may name files in its own folder and in the current one."""
        return cls(str(path), (Path(path).absolute().parent, Path.cwd(), *folders))

    def spec(self, kind: str, text: str) -> None:
        """Rejects a spec with an option that names code, a file or a server that is not allowed."""
        self.code(text)
        reference = user_code.read(text)
        name, options = catalog.parse(text if reference is None else reference.name + reference.options)
        known = reference is None and name in catalog.names(kind)  # unknown names raise an error when they are built
        fields = {each.name: each.default for each in catalog.fields(kind, name)} if known else {}
        key = options.get("key_variable", fields.get("key_variable"))
        for value in _texts(options):
            self.value(value, key if isinstance(key, str) else "")

    def value(self, text: str, key_variable: str = "") -> None:
        """Rejects a URL, a path or code that is not allowed; any other text is accepted."""
        if "://" in text:
            self.endpoint(text, key_variable)
        elif user_code.read(text) is not None:
            self.code(text)
        else:
            self.path(text)

    def model(self, name: str, key_variable: str = "") -> None:
        """Rejects a model behind a URL, at a path or in code that is not allowed; hub names are accepted."""
        if "://" in name:
            self.endpoint(name.partition("#")[0], key_variable)
        elif user_code.read(name) is not None:
            self.code(name)
        elif is_there(name) or not _HUB_NAME.fullmatch(name):
            self.path(name)

    def data(self, name: str) -> None:
        """Rejects data at a URL or path that is not allowed; names of the catalog or the hub are accepted."""
        if name.partition("(")[0].strip() in catalog.names("data"):
            self.spec("data", name)
        elif "://" in name or is_there(name) or not _HUB_NAME.fullmatch(name.partition(":")[0]):
            self.value(name)

    def endpoint(self, url: str, key_variable: str) -> None:
        """Refuses to send texts to a URL that is not allowed, or a key to a URL that the user did not name for it."""
        endpoint_parts(url)  # rejects invalid URLs, whatever is allowed
        keys = [key for name in self._allowed() if "://" in name for key in _keys(name, url)]
        if not keys:
            raise self._refused(
                f"the endpoint {url}, to which texts would be sent",
                f"--allow {url}={key_variable}, or without ={key_variable} where key_variable is ''"
                if key_variable
                else f"--allow {url}",
            )
        if key_variable and key_variable not in keys:
            raise self._refused(
                f"the endpoint {url}, to which the key in {key_variable} would be sent",
                f"--allow {url}={key_variable}, or write key_variable='' where no key is needed",
            )

    def path(self, text: str) -> None:
        """Rejects a path outside of the folders that the user named, after following links."""
        try:
            place = Path(text).expanduser().resolve()
        except (OSError, ValueError, RuntimeError):  # not a valid path, so nothing can be read from it
            return
        if not self.folders and not is_there(text) and not re.search(r"[/\\~]", text):
            return  # a plain word, not a path
        opened = [*map(Path.resolve, self.folders), *(Path(name) for name in self._allowed() if "://" not in name)]
        if not any(place.is_relative_to(folder) for folder in opened):
            raise self._refused(f"{text}, which is outside of the folders you named", f"--allow {place}")

    def code(self, text: str) -> None:
        """Rejects code that the user has not named."""
        reference = user_code.read(text)
        if reference is not None and reference.head not in self._allowed():
            user_code.refuse(text)

    def _allowed(self) -> frozenset[str]:
        return allowed() if self.folders else frozenset()

    def _refused(self, what: str, way_out: str) -> TrothError:
        if not self.folders:
            return TrothError(f"{self.name} names {what}; that is not allowed here: use troth explain")
        return TrothError(f"{self.name} names {what}; a file may not decide that: allow it yourself with {way_out}")


def _split(name: str) -> tuple[str, str | None]:
    """The URL and the key variable of a name; None if the name has no key."""
    url, separator, key = name.rpartition("=")
    return (url, key) if separator else (name, None)


def _keys(allowed: str, wanted: str) -> list[str]:
    """The key of an allowed URL ("" for none) if the wanted URL is the same or below it; otherwise empty."""
    url, key = _split(allowed)
    (server, path), (granted_server, granted_path) = endpoint_parts(wanted), endpoint_parts(url)
    is_below = path == granted_path or path.startswith(f"{granted_path}/")
    return [key or ""] if server == granted_server and is_below else []


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, also within specs that it contains."""
    if isinstance(value, Mapping):
        value = [part for item in value.items() for part in item]
    if isinstance(value, str):
        yield value
        if "(" in value:
            try:
                yield from _texts(catalog.parse(value)[1])
            except TrothError:
                return  # a text with brackets, not a spec
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        for part in value:
            yield from _texts(part)
