"""A sweep written down: a TOML file of models, data, explainers, metrics and seeds; a slip is told with its line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troth.errors import TrothError, unknown
from troth.sweep.cells import Plan
from troth.sweep.context import Context

_LISTS = ("models", "data", "explainers", "metrics", "seeds")
_WORDS = ("units", "target", "against", "segments", "masking", "split", "out")
_KEYS = (*_LISTS, *_WORDS, "limit")
_CHOICES = {"units": ("token", "word", "sentence"), "segments": ("first", "both")}
_MODEL_KEYS = ("path", "dtype", "max_length", "labels", "prompt", "class_words", "shots", "chat", "mask_text")
_DATA_KEYS = ("source", "split", "limit", "text", "text_pair", "label", "rationale", "id", "labels", "unlabelled")


@dataclass(frozen=True)
class PlanFile:
    """What a plan file says; nothing is loaded yet."""

    path: Path
    text: str
    content: dict[str, Any]

    @classmethod
    def read(cls, path: str | Path) -> PlanFile:
        """Reads and checks a plan file."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            content = tomllib.loads(text)
        except FileNotFoundError:
            raise TrothError(f"there is no plan file {path}") from None
        except (IsADirectoryError, UnicodeDecodeError):
            raise TrothError(f"{path} is no plan file: a plan is TOML text") from None
        except tomllib.TOMLDecodeError as error:
            raise TrothError(f"{path}: {_lower(str(error))}") from None
        read = cls(path, text, content)
        read._check()
        return read

    @property
    def out(self) -> str:
        """The run folder: the plan's own wish, or runs/ and the file's name."""
        return str(self.content.get("out", Path("runs") / self.path.stem))

    def plan(self, context: Context) -> Plan:
        """Loads models and data, which are known by their fingerprints, and crosses them."""
        from troth.data import load_data
        from troth.sweep.crossing import cross

        content = self.content
        data = []
        for source in _many(content["data"]):
            options = {"split": content.get("split"), "limit": content.get("limit")}
            options |= {"source": source} if isinstance(source, str) else source
            data.append(self._at(source, lambda options=options: load_data(**options)))
        models = []
        for model in _many(content["models"]):
            path, options = (model, {}) if isinstance(model, str) else _apart(model)
            models.append(self._at(path, lambda path=path, options=options: context.model_specs(path, options)))
        rest = {key: content[key] for key in ("units", "target", "against", "segments", "masking") if key in content}
        seeds = _many(content.get("seeds", 0))
        return cross(context, models, data, _many(content["explainers"]), _many(content["metrics"]), seeds, **rest)

    def _check(self) -> None:
        for key in self.content:
            if key not in _KEYS:
                raise self._error(unknown("key", key, _KEYS), key)
        for key in ("models", "data", "explainers", "metrics"):
            if not self.content.get(key):
                raise TrothError(f'{self.path}: {key} is missing; write {key} = ["…"]')
        for key, choices in _CHOICES.items():
            if self.content.get(key, choices[0]) not in choices:
                raise self._error(unknown(key, str(self.content[key]), choices), key)
        for seed in _many(self.content.get("seeds", 0)):
            if not isinstance(seed, int) or isinstance(seed, bool):
                raise self._error(TrothError(f"seeds must be whole numbers, not {seed!r}"), "seeds")
        for key, known, must in (("models", _MODEL_KEYS, "path"), ("data", _DATA_KEYS, "source")):
            for entry in _many(self.content[key]):
                self._check_entry(key, entry, known, must)
        self._check_methods()

    def _check_entry(self, key: str, entry: Any, known: tuple[str, ...], must: str) -> None:
        if isinstance(entry, str):
            return
        if not isinstance(entry, dict):
            raise self._error(TrothError(f"{key} must be names or tables, not {entry!r}"), key)
        for option in entry:
            if option not in known:
                raise self._error(unknown("option", option, known), option)
        if must not in entry:
            raise self._error(TrothError(f"an entry of {key} lacks its {must}"), key)

    def _check_methods(self) -> None:
        from troth import catalog

        checked = {"explainers": self.content["explainers"], "metrics": self.content["metrics"]}
        checked["maskings"] = self.content.get("masking", "mask_token")
        for kind, specs in checked.items():
            for spec in _many(specs):
                if not isinstance(spec, str):
                    raise self._error(TrothError(f"{kind} must be texts, not {spec!r}"), kind)
                self._at(spec, lambda kind=kind, spec=spec: catalog.build(kind, spec))

    def _at(self, value: Any, action: Any) -> Any:
        """Adds the line of the value to an error it causes."""
        try:
            return action()
        except TrothError as error:
            named = value if isinstance(value, str) else value.get("path") or value.get("source")
            raise self._error(error, str(named)) from None

    def _error(self, error: TrothError, about: str) -> TrothError:
        line = self._line(about)
        return TrothError(f"{self.path}, line {line}: {error}" if line else f"{self.path}: {error}")

    def _line(self, about: str) -> int | None:
        """The first line, comments left out, that writes this key or this text."""
        key = re.compile(rf"""^\s*(\[\[?\s*)?["']?{re.escape(about)}["']?\s*(=|\])|[{{,]\s*{re.escape(about)}\s*=""")
        quoted = (f'"{about}"', f"'{about}'")
        for number, line in enumerate(self.text.splitlines(), start=1):
            if not line.lstrip().startswith("#") and (key.search(line) or any(text in line for text in quoted)):
                return number
        return None


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _apart(model: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    options = dict(model)
    return options.pop("path"), options


def _lower(text: str) -> str:
    # tomllib: "Invalid value (at line 3, column 9)"
    found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", text)
    return f"line {found[2]}: {found[1].lower()}" if found else text
