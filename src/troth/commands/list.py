"""What there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from troth.commands import _listing, _options
from troth.core import catalog


def names_in_lists(incomplete: str) -> Sequence[str]:
    """What a shell offers after TAB: a kind, or any name."""
    names = ["datasets", *catalog.KINDS, *(name for kind in catalog.KINDS for name in catalog.names(kind))]
    return [name for name in names if name != "data" and name.startswith(incomplete)]


def list(
    name: Annotated[
        str | None,
        typer.Argument(
            help="explainers, metrics, maskings, datasets, recipes, bases or studies; or one name for all of it.",
            autocompletion=names_in_lists,
        ),
    ] = None,
    as_json: _options.Json = False,
) -> None:
    """Lists what there is: explainers, metrics, maskings, datasets, recipes, bases and studies, one line each.

    Example: troth list explainers

    Example: troth list integrated_gradients
    """
    if name is None or name in _listing.KINDS:
        kinds = [name] if name else [*_listing.KINDS]
        if as_json:
            _options.print_json({kind: _listing.summaries(kind) for kind in kinds})
        else:
            for kind in kinds:
                _listing.print_kind(kind)
        return
    cards = _listing.cards(name)
    if as_json:
        _options.print_json(cards[0] if len(cards) == 1 else cards)
    else:
        _listing.print_cards(cards)
