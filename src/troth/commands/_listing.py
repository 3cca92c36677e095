"""How the catalog is shown: a line for each method, or all there is to say of one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from troth.commands._available import place_of
from troth.core import catalog
from troth.core.errors import TrothError, nearest, unknown
from troth.core.terminal import Console

KINDS = {("datasets" if folder == "data" else folder): folder for folder in catalog.KINDS}
_SHORT = {
    "every encoder, prompted language models, black boxes": "all",
    "every encoder, prompted language models": "encoders, LLMs",
    "BERT, RoBERTa, XLM-RoBERTa, DistilBERT": "BERT-like",
}
_TITLES = {
    "formula": "formula", "paper": "paper", "cost": "passes", "models": "models", "signed": "signed",
    "better": "better", "values": "values", "here": "where", "pitfalls": "beware",
}  # fmt: skip


def summaries(kind: str) -> dict[str, str]:
    """The first sentence of each entry of a kind."""
    return {name: catalog.summary(KINDS[kind], name) for name in catalog.names(KINDS[kind])}


def cards(name: str) -> list[dict[str, Any]]:
    """All there is to say of a name; two kinds may share it."""
    kinds = [kind for kind in catalog.KINDS if name in catalog.names(kind)]
    if not kinds:
        every = [entry for kind in catalog.KINDS for entry in catalog.names(kind)]
        near = nearest(name, every)
        if near and not nearest(name, [*KINDS]):
            raise TrothError(f"nothing is called {name!r}; did you mean {' or '.join(near)}? see troth list")
        raise unknown("kind", name, KINDS)
    return [_card(kind, name) for kind in kinds]


def print_kind(kind: str) -> None:
    """A line for each: name, what it costs and which models it takes (or whether it is here), what it is."""
    rows = [(name, *_facts(kind, name), catalog.summary(KINDS[kind], name)) for name in catalog.names(KINDS[kind])]
    if not rows:
        return
    console = Console()
    heads = (kind, *{"explainers": ("passes", "models"), "metrics": ("passes",), "datasets": ("",)}.get(kind, ()), "")
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads) - 1)]
    # What is piped on is not cut.
    room = console.width if console.is_terminal or "COLUMNS" in os.environ else None
    for row in (heads, *rows):
        style = "bold" if row is heads else "dim"
        first, *facts = (text.ljust(width) for text, width in zip(row[:-1], widths, strict=True))
        line = Text.assemble((first, "bold" if row is heads else "cyan"), *((f"  {fact}", style) for fact in facts))
        line.append(f"  {row[-1]}")
        if room is not None:
            line.truncate(room, overflow="ellipsis")
        line.rstrip()
        console.print(line, soft_wrap=True)
    if kind in ("explainers", "metrics"):
        about = "passes: texts the model reads to explain or measure one of n words; all about one: troth list NAME"
        console.print(Text(about, "dim"), soft_wrap=True)
    console.print()


def _facts(kind: str, name: str) -> tuple[str, ...]:
    facts = catalog.tried(kind, name)
    if kind == "explainers":
        return _short_cost(facts.get("cost", "–")), _SHORT.get(facts.get("models", ""), "own needs")
    if kind == "metrics":
        return (_short_cost(facts.get("cost", "–")),)
    return (place_of(name),) if kind == "datasets" else ()


def _short_cost(cost: str) -> str:
    """A cost in a few letters.

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
    """All there is to say of one method."""
    what, papers = catalog.definition(kind, name)
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
