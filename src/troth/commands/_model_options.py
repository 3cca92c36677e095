"""The options of `load_model` on the command line: one decorator gives them to a command, one function reads them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Annotated, Any, get_type_hints

import typer

from troth.commands._options import require
from troth.core import reading
from troth.core.errors import TrothError

Asked = Callable[[], dict[str, Any]]  # reads the options; called when the command needs them

_PROMPTS: Mapping[str, Any] = {
    "prompt": Annotated[
        str | None, typer.Option(help='Asks a causal language model: "Review: {text} Sentiment:" with --class-words.')
    ],
    "class_words": Annotated[
        str | None,
        typer.Option(help="The words of the classes, in order: good,bad or, with their labels, pos=good,neg=bad."),
    ],
    "continuation": Annotated[
        str | None, typer.Option(help="Explains why a language model would write this after the text (or the prompt).")
    ],
    "generate": Annotated[
        int | None, typer.Option(help="Lets a language model write up to so many tokens, then explains what it wrote.")
    ],
    "shots": Annotated[
        str | None, typer.Option(help="Data whose labeled examples the prompt shows first (a file or a name).")
    ],
    "shot_count": Annotated[int | None, typer.Option(help="At most this many shots; 4 by default.")],
    "chat": Annotated[
        bool | None,
        typer.Option("--chat/--no-chat", help="Use the tokenizer's chat template; by default if it has one."),
    ],
    "mask_text": Annotated[str | None, typer.Option(help="What erased words become in a prompted model; one token.")],
    "model_option": Annotated[
        list[str] | None,
        typer.Option(
            "--model-option",
            help='One more option of load_model: windows=true, parallel=4, system="Be brief."; repeated.',
        ),
    ],
}
_MEANINGS: Mapping[str, Any] = {
    "labels": Annotated[str | None, typer.Option(help="The names of a function's classes, in order: neg,pos.")],
    "multi_label": Annotated[
        bool | None,
        typer.Option(
            "--multi-label/--one-class",
            help="Each label is a yes/no question of its own (sigmoid), or one class holds (softmax); by default as "
            "the model's config says.",
        ),
    ],
    "threshold": Annotated[float | None, typer.Option(help="Labels more probable than this hold; 0.5 by default.")],
    "candidate_labels": Annotated[
        str | None, typer.Option(help="Labels that an NLI model chooses from (zero-shot): urgent,phone,tablet.")
    ],
    "hypothesis_template": Annotated[
        str | None, typer.Option(help='What is asked of each candidate label; by default "This example is {}."')
    ],
    "precision": Annotated[
        str | None,
        typer.Option(help="exact, or fast: bfloat16 matrix products; ranks stay, numbers move by about 1 %."),
    ],
}
PROMPT = ("prompt", "class_words", "shots", "shot_count", "chat", "mask_text")
ALL = (*_PROMPTS, *_MEANINGS)

# What --model-option cannot set, and the way to it.
_NO_MODEL_OPTIONS = {
    "model": "the model is named by --model; that of a server after its address: --model https://…/v1#NAME",
    "device": "the device is chosen by --device of troth explain, or by CUDA_VISIBLE_DEVICES",
    "tokenizer": "a tokenizer is read from the model's folder; in Python: load_model(model, tokenizer=…)",
    "home": "load_model has no such option",
    "trust_remote_code": "code of a model's folder is never run; in Python, load it yourself and pass it to load_model",
}


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command these options of `load_model`; it gets a function that reads them as its argument `asked`.

    In --help the options of prompts stand where the command has `asked`, and those of what the numbers of a model mean
    before --allow.
    """

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            options = {name: given.pop(name) for name in names}
            command(**given, asked=partial(asked_of, **options))

        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            group = {"asked": _PROMPTS, "allow": _MEANINGS}.get(parameter.name, {})
            parameters += [
                parameter.replace(name=name, default=None, annotation=hint)
                for name, hint in group.items()
                if name in names
            ]
            if parameter.name != "asked":
                parameters.append(parameter.replace(annotation=hints[parameter.name]))
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return with_options


def asked_of(
    *,
    prompt: str | None = None,
    class_words: str | None = None,
    shots: str | None = None,
    shot_count: int | None = None,
    chat: bool | None = None,
    mask_text: str | None = None,
    labels: str | None = None,
    precision: str | None = None,
    continuation: str | None = None,
    generate: int | None = None,
    multi_label: bool | None = None,
    threshold: float | None = None,
    candidate_labels: str | None = None,
    hypothesis_template: str | None = None,
    model_option: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The options of `load_model` as plain values; those that are not given are left out."""
    if shot_count is not None and shots is None:
        raise TrothError(f"--shot-count {shot_count} goes with --shots; name their data, or leave it out")
    number = 4 if shot_count is None else shot_count
    require("--shot-count", number, number >= 1, "1 or more")
    words, named = _parts(class_words), None
    if words and all("=" in word for word in words):
        named, words = map(list, zip(*(word.split("=", 1) for word in words), strict=True))
    prompted = {
        "prompt": _unescaped(prompt), "labels": named, "class_words": words,
        "shots": None if shots is None else _shots(shots, number), "chat": chat, "mask_text": mask_text,
    }  # fmt: skip
    if continuation is not None and generate is not None:
        raise TrothError("--continuation says what was written, --generate lets the model write; leave one of them out")
    if threshold is not None:
        require("--threshold", threshold, 0 < threshold < 1, "between 0 and 1, such as 0.3")
    if hypothesis_template is not None and candidate_labels is None:
        raise TrothError("--hypothesis-template goes with --candidate-labels; name them, or leave it out")
    meaning = {
        "labels": _parts(labels), "precision": None if precision == "exact" else precision,
        "continuation": _unescaped(continuation), "generate": generate, "multi_label": multi_label,
        "threshold": threshold, "candidate_labels": _parts(candidate_labels),
        "hypothesis_template": hypothesis_template,
    }  # fmt: skip
    given = [(name, value) for part in (prompted, meaning) for name, value in part.items() if value is not None]
    return dict(given) | _more(model_option or ())


def _unescaped(text: str | None) -> str | None:
    return None if text is None else text.replace("\\n", "\n")


def _parts(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


def _shots(data: str, number: int) -> list[dict[str, Any]]:
    from troth.data import load_data
    from troth.data._classes import name_of

    return [
        {"text": example.text, "text_pair": example.text_pair, "label": name_of(example.label)}
        for example in load_data(data, limit=number)
    ]


def _more(model_options: Iterable[str]) -> dict[str, Any]:
    """Options of load_model that have none of their own here, read as JSON where they are JSON, else as text."""
    options: dict[str, Any] = {}
    for each in model_options:
        name, separator, value = each.partition("=")
        if not separator or not name.isidentifier():
            raise TrothError(f"--model-option must be name=value, such as windows=true, not {each!r}")
        if name in _NO_MODEL_OPTIONS:
            raise TrothError(f"--model-option {each}: {_NO_MODEL_OPTIONS[name]}")
        try:
            options[name] = reading.parse_json(value)
        except reading.ExcessError as error:
            raise TrothError(f"--model-option {name} {error}") from None
        except ValueError:
            options[name] = value
    return options
