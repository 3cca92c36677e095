"""Lists the entries of the catalog or describes one of them, and shows which data sets are on this machine.

It only reads files and imports no library.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from troth.commands import _options
from troth.core import catalog
from troth.core.errors import TrothError, nearest, unknown
from troth.core.hub import is_cached
from troth.core.terminal import Console

KINDS = {("datasets" if folder == "data" else folder): folder for folder in catalog.KINDS}
_ARCHIVES = {"babi": "tasks_1-20_v1-2/en-10k"}  # folders in $TROTH_DATA that contain several data sets
_SHORT = {
    "every encoder, prompted language models, black boxes": "all",
    "every encoder, prompted language models": "encoders, LLMs",
    "BERT, RoBERTa, XLM-RoBERTa, DistilBERT": "BERT-like",
}
_NARROWEST = 40  # minimum width of a description next to the name and facts; a narrower one goes on the next line
_PASSES = "passes: texts that the model reads to explain or measure one text of n words"
_UNIT = "unit: a word, token, sentence or passage; it is erased and gets a score"
# What the columns and terms of a list mean; shown below it.
_LEGENDS = {
    "explainers": (f"{_PASSES};", "  back: backward passes, for gradients", _UNIT),
    "metrics": (_PASSES, _UNIT),
    "maskings": (_UNIT, "keep: how much of a unit is kept, from 0 (erased) to 1 (whole)"),
    "datasets": (
        "here: can be read now; on the hub: downloaded when it is first read;",
        "not here: has to be put into the folder $TROTH_DATA",
    ),
}
_TITLES = {
    "formula": "formula", "paper": "paper", "cost": "passes", "models": "models", "signed": "signed",
    "better": "better", "values": "values", "here": "where", "pitfalls": "beware",
}  # fmt: skip


def names_in_lists(incomplete: str) -> Sequence[str]:
    """Completes a kind or any name."""
    names = ["datasets", *catalog.KINDS, *(name for kind in catalog.KINDS for name in catalog.names(kind))]
    return [name for name in names if name != "data" and name.startswith(incomplete)]


def list(
    name: Annotated[
        str | None,
        typer.Argument(
            help="explainers, metrics, maskings, datasets, recipes, bases or studies; or the name of "
            "one of them, to describe it.",
            autocompletion=names_in_lists,
        ),
    ] = None,
    as_json: _options.Json = False,
) -> None:
    """Lists explainers, metrics, maskings, data sets, recipes, bases and studies, or describes one of them.

    Example: troth list explainers

    Example: troth list integrated_gradients
    """
    if name is None or name in KINDS:
        kinds = [name] if name else [*KINDS]
        if as_json:
            entries = {kind: catalog.names(KINDS[kind]) for kind in kinds}
            _options.print_json(
                {kind: {each: catalog.summary(KINDS[kind], each) for each in entries[kind]} for kind in kinds}
            )
        else:
            for kind in kinds:
                print_kind(kind, hint=kind == kinds[-1])
        return
    found = cards(name)
    if as_json:
        _options.print_json(found[0] if len(found) == 1 else found)
    else:
        print_cards(found)


def cards(name: str) -> Sequence[Mapping[str, Any]]:
    """The full descriptions of a name, which may belong to several kinds."""
    kinds = [kind for kind in catalog.KINDS if name in catalog.names(kind)]
    if not kinds:
        every = [entry for kind in catalog.KINDS for entry in catalog.names(kind)]
        near = nearest(name, every)
        if near and not nearest(name, [*KINDS]):
            raise TrothError(f"nothing is called {name!r}; did you mean {' or '.join(near)}? see troth list")
        raise unknown("kind", name, KINDS)
    return [_card(kind, name) for kind in kinds]


def print_kind(kind: str, *, hint: bool = True) -> None:
    """Prints one line for each entry: name, cost and supported models (or where the data are), and description."""
    rows = [(name, *_facts(kind, name), catalog.summary(KINDS[kind], name)) for name in catalog.names(KINDS[kind])]
    if not rows:
        return
    console = Console()
    heads = (kind, *{"explainers": ("passes", "models"), "metrics": ("passes",), "datasets": ("",)}.get(kind, ()), "")
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads) - 1)]
    # Output to a pipe is not shortened.
    room = console.width if console.is_terminal or "COLUMNS" in os.environ else None
    for row in (heads, *rows):
        style = "bold" if row is heads else "dim"
        first, *facts = (text.ljust(width) for text, width in zip(row[:-1], widths, strict=True))
        line = Text.assemble((first, "bold" if row is heads else "cyan"), *((f"  {fact}", style) for fact in facts))
        left = None if room is None else room - len(line.plain) - 2
        below = left is not None and left < _NARROWEST
        line.append(f"\n  {_cut(row[-1], room - 2)}" if below and room else f"  {_cut(row[-1], left)}")
        line.rstrip()
        console.print(line, soft_wrap=True)
    for explained in _LEGENDS.get(kind, ()):
        console.print(Text(explained, "dim"))
    if hint:
        console.print(Text("more about one of them: troth list NAME", "dim"))
    console.print()


def _cut(text: str, width: int | None) -> str:
    """Shortens a text to as many whole words as fit.

    >>> _cut("the share of the text", 14), _cut("the share", 14)
    ('the share of…', 'the share')
    >>> _cut("the share of units (Li et al., 2016)", 28)
    'the share of units…'
    """
    if width is None or len(text) <= width:
        return text
    start = text[:width].rpartition(" ")[0]
    if start.count("(") > start.count(")"):  # not in the middle of a citation
        start = start.rpartition("(")[0]
    return f"{start.rstrip(' ,:;(')}…"


def _facts(kind: str, name: str) -> tuple[str, ...]:
    facts = catalog.tried(kind, name)
    if kind == "explainers":
        return _short_cost(facts.get("cost", "–")), _SHORT.get(facts.get("models", ""), "own needs")
    if kind == "metrics":
        return (_short_cost(facts.get("cost", "–")),)
    return (place_of(name),) if kind == "datasets" else ()


def _short_cost(cost: str) -> str:
    """Abbreviates a cost.

    >>> _short_cost("650, 895, 954 at n = 12, 24, 36"), _short_cost("21, 20 backward"), _short_cost("n + 1")
    ('895 at n = 24', '21 + 20 back', 'n + 1')
    >>> _short_cost("20 and 9 explanations")
    '20 + 9 explanations'
    """
    if " at n = " in cost:
        counts, lengths = cost.split(" at n = ")
        return f"{counts.split(', ')[1]} at n = {lengths.split(', ')[1]}"
    forward, _, backward = cost.removesuffix(" backward").partition(", ")
    return (f"{forward} + {backward} back" if backward else forward).replace(" and ", " + ")


def _card(kind: str, name: str) -> dict[str, Any]:
    """The full description of one method."""
    what, papers = catalog.definition(kind, name)
    function = catalog.function(kind, name)
    if function is not None:
        about = catalog.paragraphs(kind, name)[1:]
        return {
            "name": name,
            "kind": catalog.KINDS[kind],
            "write": name,
            "meaning": what,
            "paper": papers,
            "about": about,
        }
    cls = catalog.find(kind, name)
    options = catalog.signature(cls)
    facts = {
        "name": name,
        "kind": catalog.KINDS[kind],
        "write": f"{name}({', '.join(options)})" if options else name,
        "meaning": what,
        "paper": papers,
        **catalog.tried(kind, name),
        "about": catalog.paragraphs(kind, name)[1:],
    }
    if kind == "metrics":
        facts["better"] = {True: "higher", False: "lower", None: "neither"}[cls.higher_is_better]
        facts["values"] = cls.bounds
    if kind == "explainers":
        facts["signed"] = "yes" if cls.signed else "no"
    if kind in ("explainers", "metrics", "maskings"):
        facts["formula"], facts["pitfalls"] = cls.formula or "–", cls.pitfalls or "–"
    if kind == "data":
        facts["here"] = place_of(name)
    return facts


def print_cards(every: Sequence[Mapping[str, Any]]) -> None:
    console = Console()
    for facts in every:
        console.print(Text.assemble((facts["write"], "bold cyan"), (f"   {facts['kind']}", "dim")))
        console.print(Text(facts["meaning"]))
        for title, shown in _TITLES.items():
            if facts.get(title, "–") != "–":
                console.print(Text.assemble((f"{shown}: ", "bold"), facts[title]))
        for paragraph in facts["about"]:
            console.print()
            console.print(Text(paragraph))
        console.print()


def place_of(name: str) -> str:
    """Where a data set is: "here" (shipped, made, in $TROTH_DATA or the hub's cache), "on the hub" or "not here"."""
    bases, hub = _written(name)
    if "Dataset" in bases or _folder(name) is not None:
        return "here"
    if not hub:
        return "not here"
    return "here" if is_cached(f"datasets/{hub.partition(':')[0]}") else "on the hub"


def data_folder_is_there() -> bool:
    return "TROTH_DATA" in os.environ and Path(os.environ["TROTH_DATA"]).is_dir()


def data_folder() -> str:
    """A line about $TROTH_DATA: its path and the number of data sets in it."""
    if "TROTH_DATA" not in os.environ:
        return "not set; where data sets are kept, a folder each: export TROTH_DATA=~/data"
    folder = os.environ["TROTH_DATA"]
    if not data_folder_is_there():
        return f"{folder} is not a folder"
    names = catalog.names("data")
    return f"{folder}: {sum(_folder(name) is not None for name in names)} of {len(names)} data sets"


def _folder(name: str) -> Path | None:
    if "TROTH_DATA" not in os.environ:
        return None
    places = [name, *(archive for begin, archive in _ARCHIVES.items() if name.startswith(begin))]
    return next((path for path in (Path(os.environ["TROTH_DATA"]) / place for place in places) if path.is_dir()), None)


def _written(name: str) -> tuple[Sequence[str], str]:
    """The base classes of a data set and its name on the hub, read from its file without importing it."""
    tree = ast.parse(catalog.file("data", name).read_text(encoding="utf-8"))
    entry = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.decorator_list)
    hubs = [
        node.value.value
        for node in entry.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id == "hub"
    ]
    return [ast.unparse(base) for base in entry.bases], str(hubs[0]) if hubs else ""
