"""What a user names in a bench: code among it is trusted from here on, in this process and in its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from troth.sweep.context import Context
from troth.verbs.methods import Given, Method, methods


def named_by_user(context: Context, model: Any, explainers: Sequence[Given] | Mapping[str, Given]) -> list[Method]:
    """The methods of a bench, each under its name; the code that the user names is run, and no other."""
    context.trust(model[0] if isinstance(model, tuple) else model)
    for given in explainers.values() if isinstance(explainers, Mapping) else explainers:
        context.trust(given)
    return methods(explainers, context.home)
