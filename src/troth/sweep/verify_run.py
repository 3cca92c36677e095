"""Verifies a run: its files are unchanged, its cells are consistent, and a sample of them can be reproduced.

The seals of the files reveal damage. They do not show who wrote them: anybody can change a file and seal it again. So a
sample of the cells is computed again, from the stored examples and with the model that the run names, and compared row
by row. What cannot be recomputed is accepted: times, versions, hardware, and how long a cell took.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from troth.core import catalog, trust, user_code
from troth.core.errors import TrothError
from troth.core.plain_values import Path as Place
from troth.core.plain_values import at, differences
from troth.data import Data
from troth.store.cells import FORMAT_VERSION, Cell, find_function
from troth.store.specs import ExplanationSpec, MetricSpec, names
from troth.store.store import Store, Stored
from troth.store.tables import table_to_examples
from troth.sweep.context import Context
from troth.verbs.verify import recorded_model

SAMPLE = 3  # metric cells that are computed again, each with its explanations
_EXACT, _HALF = 1e-4, 2e-2  # tolerances relative to the largest number, in single precision and below
_KINDS: dict[str, type[ExplanationSpec]] = {"explanation": ExplanationSpec, "metric": MetricSpec}


@dataclass(frozen=True)
class RunVerified:
    """What was verified, and the faults."""

    folder: Path
    files: int
    cells: int
    computed: tuple[str, ...]  # descriptions of the cells that were computed again
    faults: tuple[str, ...]
    not_allowed: tuple[str, ...] = ()  # user code that was not allowed, so its cells were not computed again

    @property
    def holds(self) -> bool:
        return not self.faults


def verify_run(
    store: Store, model: Any = None, *, sample: int = SAMPLE, seed: int = 0, device: str | None = None
) -> RunVerified:
    """Verifies every file and every cell of a run, and computes a sample of them again; nothing is written.

    `model` replaces the model that the run names. Another `seed` selects other cells.
    """
    about = store.about() or {}
    if about.get("format") != FORMAT_VERSION:
        raise TrothError(
            f"{store.folder} was written by an earlier version of troth: it can be read, but not verified; "
            "run its command again in a "
            "new folder"
        )
    faults = [f"{damage.path}: {damage.why}" for damage in store.damages()]
    segments, cells = store.segments(), [cell for cell in store.cells() if not cell.error]
    computed: list[str] = []
    own = {head for cell in cells for head in _own_code(cell)}
    if not faults:
        faults = [*_copies(store), *_chain(store, cells, about)]
    if not faults:
        context, origin = Context(store.folder.absolute()), trust.Origin.file(store.folder / "run.json")
        for cell in _sample(cells, sample, seed):
            computed.append(_words(cell))
            why = _wrong_model(cell, about, context, model, device, origin) or _again(store, cell, context)
            faults += [f"{_words(cell)}: {why}"] if why else []
    not_allowed = tuple(sorted(own - trust.allowed()))
    return RunVerified(store.folder, len(segments), len(cells), tuple(computed), tuple(faults), not_allowed)


def _copies(store: Store) -> Iterator[str]:
    """Cells that were stored twice, after an interruption, must be equal."""
    for segment in store.segments():
        shadowed = set(store.shadowed(segment))
        for position, facts in enumerate(segment.facts):
            if facts["name"] in shadowed and not segment.table(position).equals(store.table(facts["name"])):
                yield f"{segment.path} holds another version of cell {facts['name']}"


def _chain(store: Store, cells: Sequence[Stored], about: Mapping[str, Any]) -> Iterator[str]:
    """Checks that cells match their parents and what run.json says about the run."""
    by_name = {cell.name: cell for cell in cells}
    for cell in cells:
        missing = [name for name in cell.parents if name not in by_name]
        if missing:
            yield f"{_words(cell)}: it is made from cell {missing[0]}, which the run does not hold"
            continue
        for name in cell.parents:
            yield from (f"{_words(cell)}: {why}" for why in _unlike(cell, by_name[name]))
        for key, named in (("model", about.get("models", {})), ("data", about.get("data", {}))):
            subject = cell.specs.get(key)
            if named and subject is not None and subject not in named and not str(subject).startswith("cell:"):
                yield f"{_words(cell)}: run.json does not name its {key} {subject}"
        if cell.kind == "data" and cell.specs.get("examples") == cell.rows:
            examples = table_to_examples(store.table(cell.name))
            if Data("", examples).fingerprint != cell.specs.get("data_fingerprint"):
                yield f"{_words(cell)}: its examples are not those that its fingerprint names"
    for key, said in (("model", about.get("models", {})), ("data", about.get("data", {}))):
        for subject, facts in said.items():
            known = {cell.specs.get(f"{key}_fingerprint") for cell in cells if cell.specs.get(key) == subject}
            if known and facts.get("fingerprint") not in known:
                yield f"run.json: the {key} {subject} has the fingerprint {facts.get('fingerprint')}, its cells another"
    for name, now in about.get("methods", {}).items():
        parts = [f"explainer_{part}" for part in ("full", "code", "files")]
        known = {tuple(cell.specs.get(part) for part in parts) for cell in cells if cell.specs.get("explainer") == name}
        if known and (now["spec"], now["code"], now.get("files")) not in known:
            yield f"run.json: {name} stands for {now['spec']}, in its cells for something else"


def _unlike(cell: Stored, parent: Stored) -> Iterator[str]:
    """Differences between the specs of a cell and those of its parent, such as model, method or data."""
    shared = {"data": ("data_fingerprint",), "explanation": tuple(names(ExplanationSpec))}.get(parent.kind, ())
    for name in shared:
        if name != "first" and name in parent.specs and cell.specs.get(name) != parent.specs[name]:
            yield f"its {name} is {cell.specs.get(name)}, that of its {parent.kind} {parent.specs[name]}"


def _sample(cells: Sequence[Stored], count: int, seed: int) -> list[Stored]:
    """The cells to be computed again: a random sample of the metric cells, and their explanations."""
    by_name = {cell.name: cell for cell in cells}
    able = [cell for cell in cells if _can_be_computed(cell)]
    metrics = [cell for cell in able if cell.kind == "metric"]
    drawn = sorted(metrics or able, key=lambda cell: hashlib.sha256(f"{seed} {cell.name}".encode()).digest())[:count]
    chosen = {parent: by_name[parent] for cell in drawn for parent in cell.parents if by_name[parent].kind in _KINDS}
    return list((chosen | {cell.name: cell for cell in drawn}).values())


def _can_be_computed(cell: Stored) -> bool:
    """Whether a cell is independent of models trained in the run, endpoints of explainers, and untrusted code."""
    if cell.kind not in _KINDS:
        return False
    spec = _KINDS[cell.kind].of(cell)
    foreign = "endpoint" in spec.explainer_full or not _own_code(cell) <= trust.allowed()
    return not foreign and not spec.model.startswith("cell:") and spec.model_fingerprint is not None


def _own_code(cell: Stored) -> set[str]:
    """The user code that made a cell, as --allow names it: my_file.py:Name; code in memory has no file.

    Methods of installed packages need no permission.
    """
    named = [
        str(cell.specs[f"{part}_full"])
        for part in ("explainer", "metric")
        if cell.specs.get(f"{part}_code")
        and str(cell.specs[f"{part}_full"]).partition("(")[0] not in catalog.names(f"{part}s")
    ]
    references = [(name, user_code.read(name)) for name in named]
    return {name if reference is None else reference.head for name, reference in references}


def _wrong_model(
    cell: Stored, about: Mapping[str, Any], context: Context, model: Any, device: str | None, origin: trust.Origin
) -> str:
    """Loads the model of a cell, once; returns why it is not the right model, or an empty string."""
    spec = _KINDS[cell.kind].of(cell)
    origin.spec("explainers", spec.explainer_full)
    origin.spec("maskings", spec.masking)
    if isinstance(spec, MetricSpec):
        origin.spec("metrics", spec.metric_full)
    if spec.key not in context.in_memory:
        named = {"source": spec.model, "options": dict(spec.model_options or {})}
        context.in_memory[spec.key] = recorded_model(named, model, device, origin)
    loaded = context.in_memory[spec.key]
    if loaded.fingerprint != spec.model_fingerprint:
        return f"the model has changed: {spec.model} was {spec.model_fingerprint}, now it is {loaded.fingerprint}"
    labels = about.get("models", {}).get(spec.model, {}).get("labels")
    if labels and list(labels) != list(loaded.labels):
        return f"run.json says its classes are {', '.join(labels)}, the model's are {', '.join(loaded.labels)}"
    return ""


def _again(store: Store, cell: Stored, context: Context) -> str:
    """Why a cell cannot be reproduced; empty if it can."""
    kind = _KINDS[cell.kind]
    loaded = context.in_memory[kind.of(cell).key]
    try:
        runner: Any = find_function(kind.runner)
        parents = [store.table(name) for name in cell.parents]
        now: pa.Table = runner(Cell(cell.kind, cell.specs, tuple(cell.parents), kind.runner), parents, context).table
    except (TrothError, KeyError, TypeError, ValueError) as error:
        return f"it cannot be computed again: {error}"
    before = store.table(cell.name)
    if before.schema.names != now.schema.names:
        return f"it has the columns {', '.join(before.schema.names)}, not {', '.join(now.schema.names)}"
    exact = loaded.erases_only or loaded.dtype in (torch.float32, torch.float64)
    rows, again = _rows(before), _rows(now)
    found = next(differences(rows, again, _tolerance(rows, _EXACT if exact else _HALF)), None)
    if found is None:
        return ""
    if found.what:
        return f"row {found.place} {found.what}"
    example = rows[found.path[0]].get("example_id") if found.path else ""
    return f"example {example}: {found.place.partition('.')[2]} was {found.before!r:.60}, now it is {found.now!r:.60}"


def _rows(table: pa.Table) -> list[Any]:
    """Rows as plain values, with values stored as JSON decoded."""
    return [
        {name: json.loads(value) if name == "record" and value else value for name, value in row.items()}
        for row in table.to_pylist()
    ]


def _tolerance(rows: Sequence[Any], close: float) -> Any:
    def allowed(place: Place) -> float:
        if len(place) < 2 or not isinstance(at(rows, place), float):
            return 0.0
        row = rows[place[0]]
        if place[1] in ("scores", "rest", "gap"):
            return close * max((float(abs(score)) for score in row["scores"]), default=0.0) + 1e-7
        return close * max(1.0, float(abs(at(rows, place))))

    return allowed


def _words(cell: Stored) -> str:
    """A description of a cell for readers."""
    specs = cell.specs
    method = [str(specs[name]) for name in ("explainer", "metric") if name in specs]
    about = [str(specs[name]) for name in ("model", "data") if name in specs]
    seed = [f"seed {specs['seed']}"] if method and "seed" in specs else []
    return f"{cell.kind} {' × '.join(method) or cell.name[:8]} ({', '.join([*about, *seed])})".replace(" ()", "")
