"""What a worker keeps between cells: loaded models and other objects that are expensive to create."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from troth.core import catalog, files, trust, user_code
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.store.cells import Cell
from troth.store.specs import ExplanationSpec, MetricSpec, ModelSpec

if TYPE_CHECKING:
    from troth.engine.routines import Routine
    from troth.explainers import Explainer
    from troth.metrics import Metric
    from troth.models import TextClassifier

T = TypeVar("T")

_MODELS = 2  # maximum number of loaded models: a worker stays with one model as long as it has cells
_THINGS = 16


class Context:
    """The state of a worker. Relative model paths start at `home`; `store` is the folder of the run.

    `trusted` contains what the user has named or allowed: no other code is run, whatever a plan or a cell says.
    """

    def __init__(self, store: str | Path = "", home: str | Path | None = None, trusted: Iterable[str] = ()) -> None:
        self.store = Path(store)
        self.home = Path.cwd() if home is None else Path(home)
        self.trusted = {*trusted, *trust.allowed()}
        self.in_memory: dict[Hashable, TextClassifier] = {}  # models that other processes cannot load
        self.methods: dict[Hashable, Explainer] = {}  # explainers that other processes cannot load
        self.metrics: dict[Hashable, Metric] = {}  # metrics that other processes cannot load
        self.loading = 0.0  # seconds spent on loading models, which are not counted as time of a cell
        self._models: OrderedDict[Hashable, TextClassifier] = OrderedDict()
        self._things: OrderedDict[Hashable, Any] = OrderedDict()

    def model(self, spec: ModelSpec) -> TextClassifier:
        """The model of a cell."""
        if spec.key in self.in_memory:
            return self.in_memory[spec.key]
        model = _recall(self._models, spec.key, lambda: self._load(spec), _MODELS)
        if spec.model_fingerprint not in (None, model.fingerprint):
            raise TrothError(
                f"model {spec.model} has changed since this was planned (its fingerprint is now "
                f"{model.fingerprint}, not {spec.model_fingerprint}); plan again"
            )
        return model

    def model_spec(self, model: Any, options: Mapping[str, Any] | None = None) -> ModelSpec:
        """The spec of a model given by name, in memory, or as a pair (name, options); specs are returned unchanged.

        The model is loaded, since its fingerprint is part of the spec.
        """
        from troth.models import load_model

        if isinstance(model, ModelSpec):
            return model
        model, options = model if isinstance(model, tuple) else (model, options)
        in_memory = not isinstance(model, str | Path)
        name = "" if in_memory else os.path.normpath(model) if _is_path(model) else str(model)
        named = ModelSpec(model=name, model_options=dict(options) if options else None)
        loaded = load_model(model, **(options or {})) if in_memory else self._load(named)
        loaded.identify(whole=True)  # stored results must belong to the model in its current state
        spec = replace(named, model=loaded.name if in_memory else name, model_fingerprint=loaded.fingerprint)
        chosen = loaded.spec  # options chosen by a prompted model itself
        if chosen and in_memory:
            spec = replace(spec, model_options=chosen)
        elif chosen:
            # A GPU's number format would differ from a CPU's; a black box has no number format.
            dtype = {} if loaded.erases_only else {"dtype": str(loaded.dtype).removeprefix("torch.")}
            spec = replace(spec, model_options={**(options or {}), **chosen, **dtype})
        if in_memory:
            self.in_memory[spec.key] = loaded
        else:
            _recall(self._models, spec.key, lambda: loaded, _MODELS)
        return spec

    def trust(self, named: Any) -> None:
        """Trusts code that the user has named as a model or a method; ignores anything else."""
        reference = user_code.read(named)
        if reference is not None:
            self.trusted.add(reference.head)

    def explainer(self, spec: ExplanationSpec) -> Explainer:
        """The explainer of a cell, from the catalog, from memory, or from code that the user has named."""
        key = (spec.explainer_full, spec.explainer_code, spec.explainer_files)
        if key in self.methods:
            return self.methods[key]
        return self.once(("explainer", *key), lambda: self._load_explainer(spec))

    def metric(self, spec: MetricSpec) -> Metric:
        """The metric of a cell, from the catalog, from memory, or from code that the user has named."""
        key = (spec.metric_full, spec.metric_code)
        if key in self.metrics:
            return self.metrics[key]
        return self.once(("metric", *key), lambda: self._load_metric(spec))

    def share(self, other: Context) -> None:
        """Shares the models and methods that another context holds in memory, so that nothing is loaded twice."""
        self.in_memory, self.methods, self.metrics = other.in_memory, other.methods, other.metrics
        self._models = OrderedDict(other._models)

    def forget(self) -> None:
        """Releases what was loaded, because other processes do the work and need the memory."""
        self._models.clear()
        self._things.clear()

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The object stored under this key, created on first use; the most recently used ones are kept."""
        thing: T = _recall(self._things, key, make, _THINGS)
        return thing

    @contextmanager
    def new_folder(self, cell: Cell) -> Iterator[Path]:
        """A folder for what a cell produces besides rows; it appears in the store, complete, if the block succeeds."""
        with files.writing_aside(self.folder_path(cell.name)) as aside:
            aside.mkdir()
            yield aside

    def folder(self, name: str) -> Path:
        path = self.folder_path(name)
        if not path.is_dir():
            raise TrothError(
                f"{path} is gone, or not on this machine; put the folder of the run on a disk that all "
                "workers share, or "
                "choose a new --out to compute it again"
            )
        return path

    def folder_path(self, name: str) -> Path:
        return self.store / "files" / name

    def _load(self, spec: ModelSpec) -> TextClassifier:
        from troth.models import from_reference, load_model

        name = spec.model
        if name.startswith("cell:"):
            source = str(self.folder(name.removeprefix("cell:")))
        else:
            source = str(self.home / name) if _is_path(self.home / name) else name
        begun = time.perf_counter()
        try:
            reference = self._trusted(source)
            if reference is not None:
                return from_reference(reference, self.home, dict(spec.model_options or {}))
            loaded = load_model(source, **(spec.model_options or {}))
            _warm_up(loaded)
            return loaded
        finally:
            self.loading += time.perf_counter() - begun

    def _load_explainer(self, spec: ExplanationSpec) -> Explainer:
        from troth.verbs.methods import EXPLAINERS

        reference = self._trusted(spec.explainer_full)
        if reference is not None:
            found = EXPLAINERS.from_reference(reference, self.home)
        else:
            if spec.explainer_code is None and spec.explainer_files is None:
                built: Explainer = catalog.build("explainers", spec.explainer_full)
                return built
            user_code.refuse(spec.explainer_full)
            found = EXPLAINERS.method(spec.explainer_full)
        if (found.code, found.files) != (spec.explainer_code, spec.explainer_files):
            what = "code" if found.code != spec.explainer_code else "checkpoint"
            raise TrothError(f"the {what} of {spec.explainer} has changed since this was planned; run it again")
        return found.instance

    def _load_metric(self, spec: MetricSpec) -> Metric:
        from troth.verbs.methods import METRICS

        if user_code.read(spec.metric_full) is not None and self._trusted(spec.metric_full) is None:
            user_code.refuse(spec.metric_full)
        found = METRICS.method(spec.metric_full, self.home)
        if found.code != spec.metric_code:
            raise TrothError(f"the code of {spec.metric} has changed since this was planned; run it again")
        return found.instance

    def _trusted(self, name: str) -> user_code.Reference | None:
        reference = user_code.read(name)
        return reference if reference is not None and reference.head in self.trusted else None


def _warm_up(model: TextClassifier) -> None:
    """Reads one text, so that work done on first use is not counted as time of a cell; endpoints are skipped."""
    from troth.engine.prober import Prober
    from troth.engine.probes import PREDICTED, whole_inputs

    def ask() -> Routine[None]:
        (encoding,) = model.encode([Example("", "a word")])
        yield whole_inputs([Question(encoding, target=PREDICTED)])

    if not model.erases_only:
        with suppress(TrothError):  # the cell that uses the model reports the error itself
            Prober(model).ask(ask())


def _recall(kept: OrderedDict[Hashable, T], key: Hashable, make: Callable[[], T], most: int) -> T:
    if key not in kept:
        while len(kept) >= most:
            # Before loading the new one, because two large models may not fit into memory together.
            kept.popitem(last=False)
        kept[key] = make()
    kept.move_to_end(key)
    return kept[key]


def _is_path(model: Any) -> bool:
    return isinstance(model, str | Path) and (Path(model).is_dir() or Path(model).suffix == ".gguf")
