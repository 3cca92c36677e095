"""Rows from the Hugging Face hub, or from an object of the `datasets` library, which is imported only here."""

from __future__ import annotations

from typing import Any

from troth.core.errors import TrothError
from troth.core.hub import offline_where_unreachable, unreachable
from troth.data._base import choose_split
from troth.data.sources.readers import Table

# The hub keeps a parquet copy of repositories that still hold a loading script.
_PARQUET_COPY = "refs/convert/parquet"


def read_hub(name: str, split: str | None) -> Table:
    """One split of owner/name or owner/name:config."""
    try:
        try:
            return _load(name, split, revision=None)
        except RuntimeError as problem:
            if "scripts are no longer supported" not in str(problem):
                raise
            return _load(name, split, revision=_PARQUET_COPY)
    except TrothError:
        raise
    except Exception as problem:  # network, permission, name and configuration errors of three libraries
        reason = unreachable() or f"{type(problem).__name__}: {' '.join(str(problem).split())[:160]}"
        raise TrothError(
            f"{name} cannot be loaded from the hub ({reason}); "
            "check the name and the network, or give a file or folder that exists"
        ) from problem


def table_of(dataset: Any, source: str, split: str | None) -> Table:
    """The rows of a `datasets.Dataset`, with the class names its features know."""
    named = {column: getattr(feature, "names", None) for column, feature in dataset.features.items()}
    class_names = {column: tuple(names) for column, names in named.items() if names}
    return Table(source, tuple(dataset.column_names), dataset.to_list(), class_names, split or "")


def _load(name: str, split: str | None, revision: str | None) -> Table:
    import datasets

    repository, _, config = name.partition(":")
    with offline_where_unreachable(repository, datasets.config):
        names = datasets.get_dataset_split_names(repository, config or None, revision=revision)
        chosen = choose_split(name, names, split)
        return table_of(
            datasets.load_dataset(repository, config or None, split=chosen, revision=revision), name, chosen
        )
