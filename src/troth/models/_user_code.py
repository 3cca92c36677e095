"""A model that the user names as code: `my_file.py:predict`, `package.module:pipeline`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from troth.core import user_code
from troth.core.code_fingerprint import fingerprint
from troth.core.errors import TrothError
from troth.models import TextClassifier, load_model
from troth.models.black_box import BlackBox


def load_named(model: str, home: Path | None = None, **options: Any) -> TextClassifier:
    """As load_model, for what the user has named: a reference, whose code is run, or any other name."""
    reference = user_code.read(model)
    return load_model(model, **options) if reference is None else from_reference(reference, home or Path.cwd(), options)


def from_reference(reference: user_code.Reference, home: Path, options: dict[str, Any]) -> TextClassifier:
    """A black box keeps its file's text in its fingerprint: another text, another model. Classes are named by
    `labels`, or by an attribute of that name on the function.
    """
    if reference.options:
        raise TrothError(f"{reference.head} takes no options; a model is a function from texts to probabilities")
    thing = user_code.load(reference, home)
    if not options.get("labels"):
        options = {**options, "labels": getattr(thing, "labels", None)}
    loaded = load_model(thing, **options)
    if isinstance(loaded, BlackBox):
        loaded.name = reference.head
        loaded.code = fingerprint(thing, user_code.text_of(reference, home))
    return loaded
