"""A sweep as a TOML file of models, data, explainers, metrics and seeds; errors show the line."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self, get_type_hints

from troth.core import plain_values, reading, trust, user_code
from troth.core.errors import TrothError, unknown
from troth.core.units import UNIT_NAMES
from troth.store.cells import Plan
from troth.sweep.context import Context

_CHOICES = {"units": UNIT_NAMES, "segments": ("first", "both")}


@dataclass(frozen=True)
class _Model:
    path: str
    dtype: str = ""
    precision: str = ""
    max_length: int = 0
    labels: Sequence[str] = ()
    prompt: str = ""
    class_words: Sequence[str] = ()
    shots: Sequence[Mapping[str, Any]] = ()
    chat: bool = False
    mask_text: str = ""
    key_variable: str = trust.KEY_VARIABLE


@dataclass(frozen=True)
class _Data:
    source: str
    split: str = ""
    limit: int = 0
    text: str = ""
    text_pair: str = ""
    label: str = ""
    rationale: str = ""
    id: str = ""
    group: str = ""
    labels: Sequence[str] | Mapping[str, Any] = ()
    unlabelled: bool = False


@dataclass(frozen=True)
class _Content:
    """The keys of a plan file."""

    models: str | _Model | Sequence[str | _Model]
    data: str | _Data | Sequence[str | _Data]
    explainers: str | Sequence[str]
    metrics: str | Sequence[str]
    seeds: int | Sequence[int] = 0
    units: str = ""
    target: str | int = ""
    against: str | int = ""
    segments: str = ""
    masking: str = ""
    split: str = ""
    limit: int = 0
    out: str = ""


_ENTRIES: dict[str, type[Any]] = {"models": _Model, "data": _Data}


@dataclass(frozen=True)
class PlanFile:
    """The content of a plan file; nothing is loaded yet."""

    path: Path
    text: str
    content: dict[str, Any]

    @classmethod
    def read(cls, path: str | Path) -> Self:
        path = Path(path)
        try:
            text = reading.text(path, reading.PLAN)
            content = reading.parse_toml(text)
        except FileNotFoundError:
            raise TrothError(f"there is no plan file {path}") from None
        except (IsADirectoryError, UnicodeDecodeError):
            raise TrothError(f"{path} is not a plan file: a plan is TOML text") from None
        except tomllib.TOMLDecodeError as error:
            raise TrothError(f"{path}: {_lower(str(error))}") from None
        except reading.ExcessError as error:
            raise TrothError(f"{path} {error}") from None
        read = cls(path, text, content)
        read._check()
        return read

    @property
    def out(self) -> str:
        """The run folder: the plan's own `out`, or runs/ and the name of the file."""
        return str(self.content.get("out", Path("runs") / self.path.stem))

    def plan(self, context: Context) -> Plan:
        """Loads models and data, which are identified by their fingerprints, and crosses them."""
        from troth.data import load_data
        from troth.sweep.bench import with_random
        from troth.sweep.crossing import add_checks, cross
        from troth.verbs.methods import EXPLAINERS

        content = self.content
        data, models, drawn_from = [], [], []
        for source in _tables(content["data"], "source"):
            options = {"split": content.get("split"), "limit": content.get("limit"), **source}
            limit = options.pop("limit")
            with self._at(source["source"]):
                loaded = load_data(**options)
            data.append(loaded if limit is None else loaded.sample(limit))
            drawn_from.append(() if limit is None else loaded)
        for model in _tables(content["models"], "path"):
            path = model.pop("path")
            with self._at(path):
                models.append(context.model_spec(path, model))
        rest = {key: content[key] for key in ("units", "target", "against", "segments", "masking") if key in content}
        explainers = with_random(EXPLAINERS.methods(_many(content["explainers"]), context.home))
        seeds = _many(content.get("seeds", 0))
        plan = cross(context, models, data, explainers, _many(content["metrics"]), seeds, **rest)
        add_checks(plan, context, zip(data, drawn_from, strict=True))
        return plan

    def _check(self) -> None:
        content, hints = self.content, get_type_hints(_Content)
        for key in content:
            if key not in hints:
                raise self._error(unknown("key", key, hints), key)
        for key in ("models", "data", "explainers", "metrics"):
            if not content.get(key):
                raise TrothError(f'{self.path}: {key} is missing; write {key} = ["…"]')
        for key, value in content.items():
            if key not in _ENTRIES and (wrong := plain_values.fault(value, hints[key], key)):
                raise self._error(TrothError(str(wrong)), key)
        if content.get("seeds", 0) == []:
            raise self._error(TrothError("seeds is empty, so there is nothing to do; write seeds = [0]"), "seeds")
        if content.get("limit", 1) < 1:
            raise self._error(TrothError(f"limit must be at least 1, not {content['limit']}"), "limit")
        for key, choices in _CHOICES.items():
            if content.get(key, choices[0]) not in choices:
                raise self._error(unknown(key, str(content[key]), choices), key)
        for key, schema in _ENTRIES.items():
            for entry in _many(content[key]):
                self._check_entry(key, entry, schema)
        self._check_reach_and_methods()

    def _check_entry(self, key: str, entry: Any, schema: type[Any]) -> None:
        options = [field.name for field in fields(schema)]
        if isinstance(entry, str):
            return
        if not isinstance(entry, dict):
            raise self._error(TrothError(f"{key} must be names or tables, not {entry!r}"), key)
        for option in entry:
            if option not in options:
                raise self._error(unknown("option", option, options), option)
        if options[0] not in entry:
            raise self._error(TrothError(f"an entry of {key} has no {options[0]}; add it"), key)
        if wrong := plain_values.fault(entry, schema):
            raise self._error(TrothError(str(wrong)), wrong.place)

    def _check_reach_and_methods(self) -> None:
        """Rejects what the user has not named (endpoints, keys, code, and files outside of the plan's folder), then
        methods that do not exist.
        """
        from troth.core import catalog

        content = self.content
        origin = trust.Origin("the plan", trust.Origin.file(self.path).folders)
        for entry in _tables(content["models"], "path"):
            with self._at(entry["path"]):
                origin.model(entry["path"], entry.get("key_variable", trust.KEY_VARIABLE))
        for entry in _tables(content["data"], "source"):
            with self._at(entry["source"]):
                origin.data(entry["source"])
        named = [(kind, spec) for kind in ("explainers", "metrics") for spec in _many(content[kind])]
        named.append(("maskings", content.get("masking", "mask_token")))
        for kind, spec in named:
            with self._at(spec):
                origin.spec(kind, spec)
        if "out" in content:
            with self._at(content["out"]):
                origin.path(content["out"])
        for kind, spec in named:
            # Code is allowed here; otherwise it would have been rejected above.
            is_code = kind != "maskings" and (user_code.read(spec) or catalog.function(kind, catalog.parse(spec)[0]))
            if not is_code:
                with self._at(spec):
                    catalog.build(kind, spec)

    @contextmanager
    def _at(self, about: str) -> Iterator[None]:
        """Adds the line that contains this text to the message of an error."""
        try:
            yield
        except TrothError as error:
            raise self._error(error, about) from None

    def _error(self, error: TrothError, about: str) -> TrothError:
        line = self._line(about)
        return TrothError(f"{self.path}, line {line}: {error}" if line else f"{self.path}: {error}")

    def _line(self, about: str) -> int | None:
        """The number of the first line, excluding comments, that contains this key or text."""
        key = re.compile(rf"""^\s*(\[\[?\s*)?["']?{re.escape(about)}["']?\s*(=|\])|[{{,]\s*{re.escape(about)}\s*=""")
        quoted = (f'"{about}"', f"'{about}'")
        for number, line in enumerate(self.text.splitlines(), start=1):
            if not line.lstrip().startswith("#") and (key.search(line) or any(text in line for text in quoted)):
                return number
        return None


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _tables(value: Any, name: str) -> list[dict[str, Any]]:
    """Entries as tables; an entry given as text becomes the value of the first option."""
    return [{name: entry} if isinstance(entry, str) else dict(entry) for entry in _many(value)]


def _lower(text: str) -> str:
    # tomllib writes: "Invalid value (at line 3, column 9)"
    parts = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", text)
    return f"line {parts[2]}: {parts[1].lower()}" if parts else text
