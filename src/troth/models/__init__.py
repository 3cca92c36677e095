"""The models troth can question: one file per kind, and `load_model`, which finds the right one.

A kind is a file that holds a class of the file's name: `black_box.py` holds `BlackBox`. Nothing is registered.
"""

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from troth.core import arguments, user_code
from troth.core.errors import TrothError, unknown, warn_renamed
from troth.core.hashing import fingerprint
from troth.models.base import Output as Output
from troth.models.base import Segments as Segments
from troth.models.base import TextClassifier as TextClassifier
from troth.models.base import check_choices as check_choices
from troth.models.base import refuse as refuse

_COMMON = {"tokenizer", "device", "dtype", "max_length", "labels"}


def short_name(model: str) -> str:
    """A model's name as a table shows it: of a folder with its whole path the last part.

    >>> short_name("/home/me/models/bert"), short_name("google/bert")
    ('bert', 'google/bert')
    """
    return Path(model).name if Path(model).is_absolute() else model


@arguments.typed()
def load_model(
    source: Any = None,
    /,
    tokenizer: Any = None,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    max_length: int | None = None,
    *,
    labels: Iterable[str] | None = None,
    prompt: str | None = None,
    class_words: Sequence[str] | None = None,
    shots: Iterable[Any] = (),
    chat: bool | None = None,
    mask_text: str | None = None,
    explain_shots: bool = False,
    **options: Any,
) -> TextClassifier:
    """A model folder, a hub name, a model or pipeline in memory, a callable from texts to probabilities, or "embedded".

    Or a URL: `load_model("https://…/v1", model="…", prompt=…, class_words=…)` asks a server (docs/guide/remote.md).

    What has predict_proba (scikit-learn) is such a callable. The user's model is never altered; `labels` names the
    classes where the model does not. With a `prompt` that holds {text} (and {text_pair}) any causal language model is
    asked for one of the `class_words`; `shots` are labeled examples shown first, `chat` is the tokenizer's chat
    template (used where there is one), `mask_text` what erased words become; `continuation` (or `generate`, a number
    of tokens) explains what it wrote after the text or prompt, `against` rather than which other continuation
    (docs/guide/prompted.md). `multi_label` makes every label a
    question of its own, which holds above `threshold`; `candidate_labels` (and a `hypothesis_template`) ask an NLI
    model which of them the text entails (docs/guide/multi_label.md). `windows=True` reads texts longer than
    `max_length` in overlapping windows (docs/guide/units.md). `device_map="auto"` (with `max_memory`, `offload_folder`)
    splits a model over devices, `quantization="4bit"` shrinks it; `pooling` and `choices` belong to kinds of
    docs/guide/heads.md. `precision="fast"` lets a BERT-like encoder multiply in bfloat16. `options` are those of other
    kinds of model (docs/reference/new_model_kind.md).
    """
    if "trust_remote_code" in options:
        raise TrothError(
            "trust_remote_code is not an option: code of a model's folder is never run; load the model and its "
            "tokenizer with transformers yourself and pass both: load_model(model, tokenizer=…)"
        )
    if source is None and "model" in options:
        warn_renamed("load_model(model=…)", "load_model(…), without a name", stacklevel=3)
        source = options.pop("model")
    for label in labels or ():
        arguments.of_kind("each of labels", label, str, "the name of a class")
    windows = options.pop("windows", None)
    if isinstance(source, TextClassifier):
        source.identify()
        return _in_windows(source, windows)
    user_code.refuse(source)
    options |= {
        "prompt": prompt, "class_words": class_words, "shots": shots, "chat": chat, "mask_text": mask_text,
        "explain_shots": explain_shots or None,
    }  # fmt: skip
    nothing = [
        name for name, value in options.items() if value is None or (isinstance(value, list | tuple) and not value)
    ]
    passed = {name: value for name, value in options.items() if name not in nothing}
    kind = _kind_of(source, passed, list(kinds().values()))
    loaded = kind.load(
        source, tokenizer=tokenizer, device=device, dtype=dtype, max_length=max_length, labels=labels, **passed
    )
    return _in_windows(loaded, windows)


def load_named(model: str, home: Path | None = None, **options: Any) -> TextClassifier:
    """As load_model, for a name given by the user: a reference, whose code is run, or any other name."""
    reference = user_code.read(model)
    return load_model(model, **options) if reference is None else from_reference(reference, home or Path.cwd(), options)


def from_reference(reference: user_code.Reference, home: Path, options: dict[str, Any]) -> TextClassifier:
    """A black box whose fingerprint contains the text of its file: if the text changes, it is another model. Its
    classes are named by `labels`, or by an attribute of that name on the function.
    """
    from troth.models.black_box import BlackBox

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


def _in_windows(model: TextClassifier, windows: Any) -> TextClassifier:
    if windows is None or windows is False:
        return model
    from troth.models.windowed import Windowed

    return Windowed(model, windows)


def kinds() -> dict[str, type[TextClassifier]]:
    """All kinds of models by name: the files of this folder that define a class of the file's name."""
    classes = {}
    for folder in __path__:
        for file in sorted(Path(folder).glob("[!_]*.py")):
            class_name = "".join(part.capitalize() for part in file.stem.split("_"))
            # The file's text is checked before it is imported, because importing a file that holds no kind may take
            # seconds.
            if re.search(rf"^class {class_name}\b", file.read_text(encoding="utf-8"), re.MULTILINE):
                classes[file.stem] = getattr(importlib.import_module(f"{__name__}.{file.stem}"), class_name)
    return classes


def _kind_of(source: Any, options: Mapping[str, Any], every: Sequence[type[TextClassifier]]) -> type[TextClassifier]:
    """The one kind that accepts a source and has all of the options."""
    owners = {name: [kind for kind in every if name in kind.options] for name in options}
    for name in options:
        if not owners[name]:
            raise unknown("option of load_model", name, _COMMON | {name for kind in every for name in kind.options})
    takers = [kind for kind in every if kind.takes(source, **options)]
    if not takers:
        ways = "; ".join(kind.loaded_with for kind in every)
        raise TrothError(f"no kind of model takes a {type(source).__name__}; pass one of: {ways}")
    able = [kind for kind in takers if options.keys() <= set(kind.options)]
    chosen = [kind for kind in able if not any(issubclass(other, kind) and other is not kind for other in able)]
    if not able:
        nearest = max(takers, key=lambda kind: len(options.keys() & set(kind.options)))
        wrong = next(name for name in options if name not in nearest.options)
        ways = " or ".join(f"{kind.kind}: pass {kind.loaded_with}" for kind in owners[wrong])
        raise TrothError(f"{wrong} is for {ways}; this is {nearest.kind}")
    if len(chosen) > 1:
        names = " and ".join(kind.__name__ for kind in chosen)
        raise TrothError(
            f"{names} both accept this {type(source).__name__}; let one extend the other or accept fewer objects"
        )
    return chosen[0]
