"""What there is."""

from __future__ import annotations

from typing import Annotated

import typer

from troth.commands import _options


def list(
    kind: Annotated[
        str | None, typer.Argument(help="explainers, metrics, maskings, datasets, recipes or studies.")
    ] = None,
    as_json: _options.Json = False,
) -> None:
    """Lists what there is: explainers, metrics, maskings, datasets, recipes, bases and studies, one line each.

    Example: troth list explainers
    """
    from rich.table import Table
    from rich.text import Text

    from troth.core import catalog
    from troth.core.errors import unknown
    from troth.core.terminal import Console

    kinds = {("datasets" if folder == "data" else folder): folder for folder in catalog.KINDS}
    if kind is not None and kind not in kinds:
        raise unknown("kind", kind, kinds)
    wanted = [kind] if kind else [*kinds]
    found = {
        name: {entry: catalog.summary(kinds[name], entry) for entry in catalog.names(kinds[name])} for name in wanted
    }
    if as_json:
        _options.print_json(found)
        return
    console = Console()
    for name in wanted:
        if not found[name]:
            continue
        table = Table(title=name, title_justify="left", title_style="bold", box=None, show_header=False, padding=(0, 2))
        for entry, summary in found[name].items():
            table.add_row(Text(entry, "cyan"), Text(summary))
        console.print(table)
        console.print()
