"""What a worker keeps between cells: models loaded once, and whatever else is dear to make."""

from __future__ import annotations

import os
import shutil
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from troth.core.errors import TrothError
from troth.store.cells import Cell, canonical

if TYPE_CHECKING:
    from troth.models import TextClassifier

T = TypeVar("T")

_MODELS = 2  # kept at a time: a worker stays with one as long as there is work for it
_THINGS = 16


class Context:
    """One a worker. `home` is where relative paths of models start, `store` the run's folder."""

    def __init__(self, store: str | Path = "", home: str | Path | None = None) -> None:
        self.store = Path(store)
        self.home = Path.cwd() if home is None else Path(home)
        self.in_memory: dict[Hashable, TextClassifier] = {}  # models that no other process can load
        self.labels: dict[Hashable, tuple[str, ...]] = {}  # of every model that was ever asked for its specs
        self.loading = 0.0  # seconds spent on loading models, which no cell is charged with
        self._models: OrderedDict[Hashable, TextClassifier] = OrderedDict()
        self._things: OrderedDict[Hashable, Any] = OrderedDict()

    def model(self, specs: Mapping[str, Any]) -> TextClassifier:
        """The model a cell's specs name: "model", "model_options" for load_model, "model_fingerprint" to be sure.

        "cell:NAME" is the model that the cell of that name has trained.
        """
        key = model_key(specs)
        if key in self.in_memory:
            return self.in_memory[key]
        model: TextClassifier = _recall(self._models, key, lambda: self._load(specs), _MODELS)
        wanted = specs.get("model_fingerprint")
        if wanted is not None and model.fingerprint != wanted:
            raise TrothError(
                f"model {specs['model']} has changed since this was planned (its weights are now "
                f"{model.fingerprint}, not {wanted}); plan again"
            )
        return model

    def model_specs(self, model: Any, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The specs of a model, by name or in memory; it is loaded, since its fingerprint is part of what it is."""
        specs: dict[str, Any] = {"model": os.path.normpath(model) if _is_path(model) else str(model)}
        if options:
            specs["model_options"] = dict(options)
        if isinstance(model, str | Path):
            loaded = self._load(specs)
            specs["model_fingerprint"] = loaded.fingerprint
            if loaded.spec:
                chosen = {"dtype": str(loaded.dtype).removeprefix("torch.")}  # a GPU's would differ from a CPU's
                specs["model_options"] = {**(options or {}), **loaded.spec, **chosen}
            _recall(self._models, model_key(specs), lambda: loaded, _MODELS)
        else:
            from troth.models import load_model

            loaded = load_model(model, **(options or {}))
            specs |= {"model": loaded.name, "model_fingerprint": loaded.fingerprint}
            if loaded.spec:
                specs["model_options"] = loaded.spec
            self.in_memory[model_key(specs)] = loaded
        self.labels[model_key(specs)] = loaded.labels
        return specs

    def forget(self) -> None:
        """Lets go of what was loaded: other processes do the work and need the memory."""
        self._models.clear()
        self._things.clear()

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made under this key before, or is made now; the few used last are kept."""
        found: T = _recall(self._things, key, make, _THINGS)
        return found

    @contextmanager
    def making(self, cell: Cell) -> Iterator[Path]:
        """A folder for what a cell makes besides rows; it appears in the store, whole, when the block ends well."""
        final = self.made_path(cell.name)
        aside = final.with_name(f".{final.name}.{uuid4().hex[:8]}")
        aside.mkdir(parents=True)
        try:
            yield aside
            old = final.with_name(f".{final.name}.old.{uuid4().hex[:8]}")
            if final.exists():  # a process was killed before the rows were written
                final.rename(old)
            aside.rename(final)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def made(self, name: str) -> Path:
        """The folder another cell has made."""
        path = self.made_path(name)
        if not path.is_dir():
            raise TrothError(
                f"{path} is gone, or not on this machine; put the run's folder on a disk that all workers share, or "
                "name a new --out to make it again"
            )
        return path

    def made_path(self, name: str) -> Path:
        """Where a cell's folder is, or will be."""
        return self.store / "files" / name

    def _load(self, specs: Mapping[str, Any]) -> TextClassifier:
        from troth.models import load_model

        name = str(specs["model"])
        if name.startswith("cell:"):
            source = str(self.made(name.removeprefix("cell:")))
        else:
            source = str(self.home / name) if _is_path(self.home / name) else name
        begun = time.perf_counter()
        try:
            return load_model(source, **specs.get("model_options", {}))
        finally:
            self.loading += time.perf_counter() - begun


def _recall(kept: OrderedDict[Hashable, Any], key: Hashable, make: Callable[[], Any], most: int) -> Any:
    if key not in kept:
        while len(kept) >= most:
            kept.popitem(last=False)  # before the new one is loaded: two large models may not fit side by side
        kept[key] = make()
    kept.move_to_end(key)
    return kept[key]


def model_key(specs: Mapping[str, Any]) -> str:
    """What tells one loaded model from another."""
    return canonical([specs["model"], specs.get("model_options", {}), specs.get("model_fingerprint")])


def _is_path(model: Any) -> bool:
    return isinstance(model, str | Path) and (Path(model).is_dir() or Path(model).suffix == ".gguf")
