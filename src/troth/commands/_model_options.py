"""The options of `load_model` on the command line: a decorator adds them to a command, and a function reads them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import Annotated, Any

import typer

from troth.commands._options import require
from troth.core import reading
from troth.core.errors import TrothError

Asked = Callable[[], dict[str, Any]]  # reads the options when the command needs them

_PROMPTS: Mapping[str, Any] = {
    "prompt": Annotated[
        str | None, 'Prompt of a causal language model: "Review: {text} Sentiment:", with --class-words.'
    ],
    "class_words": Annotated[
        str | None, "The words of the classes, in order: good,bad or, with their labels, pos=good,neg=bad."
    ],
    "continuation": Annotated[
        str | None, "Explain why a language model would write this after the text or the prompt."
    ],
    "generate": Annotated[int | None, "Let a language model write up to this many tokens, and explain what it wrote."],
    "shots": Annotated[str | None, "Data whose labeled examples the prompt shows first (a file or a name)."],
    "shot_count": Annotated[int | None, "At most this many shots; 4 by default."],
    "chat": Annotated[
        bool | None,
        typer.Option("--chat/--no-chat", help="Use the tokenizer's chat template; by default if it has one."),
    ],
    "mask_text": Annotated[str | None, "What erased words become in a prompted model; one token."],
    "max_requests": Annotated[int | None, "Stop after this many requests to an endpoint; their answers are kept."],
    "model_option": Annotated[
        list[str] | None,
        typer.Option(
            "--model-option",
            help='Another option of load_model, such as windows=true, parallel=4, system="Be brief."; repeated.',
        ),
    ],
}
_MEANINGS: Mapping[str, Any] = {
    "labels": Annotated[str | None, "The names of a function's classes, in order: neg,pos."],
    "multi_label": Annotated[
        bool | None,
        typer.Option(
            "--multi-label/--one-class",
            help="Each label is a separate yes/no question (sigmoid), or exactly one class applies "
            "(softmax); by default as "
            "the model's config says.",
        ),
    ],
    "threshold": Annotated[float | None, "Labels with a higher probability are predicted; 0.5 by default."],
    "candidate_labels": Annotated[
        str | None, "Labels that an NLI model chooses from (zero-shot): urgent,phone,tablet."
    ],
    "hypothesis_template": Annotated[
        str | None, 'Hypothesis for each candidate label; by default "This example is {}."'
    ],
    "precision": Annotated[
        str | None, "exact, or fast: with bfloat16 matrix products, ranks stay and values change by about 1 %."
    ],
}
PROMPT = ("prompt", "class_words", "shots", "shot_count", "chat", "mask_text")
ALL = (*_PROMPTS, *_MEANINGS)

# Options that --model-option cannot set, with the alternative.
_NO_MODEL_OPTIONS = {
    "model": "the model is named by --model; that of a server after its address: --model https://…/v1#NAME",
    "device": "the device is chosen by --device of troth explain, or by CUDA_VISIBLE_DEVICES",
    "tokenizer": "a tokenizer is read from the model's folder; in Python: load_model(model, tokenizer=…)",
    "home": "load_model has no such option",
    "trust_remote_code": "code of a model's folder is never run; in Python, load it yourself and pass it to load_model",
}


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds these options of `load_model` to a command, whose argument `asked` is a function that reads them.

    In --help, options for prompts appear at the position of `asked`, and those for the meaning of a model's outputs
    before --allow.
    """

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            options = {name: given.pop(name) for name in names}
            command(**given, asked=partial(asked_of, **options))

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            group = {"asked": _PROMPTS, "allow": _MEANINGS}.get(parameter.name, {})
            parameters += [
                parameter.replace(name=name, default=None, annotation=hint)
                for name, hint in group.items()
                if name in names
            ]
            if parameter.name != "asked":
                parameters.append(parameter)
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return with_options


def asked_of(**given: Any) -> dict[str, Any]:
    """The options of `load_model` as plain values; omitted options are left out."""
    options = {name: value for name, value in given.items() if value is not None}
    options |= {name: read(options[name]) for name, read in _READERS.items() if name in options}
    count, more = options.pop("shot_count", None), options.pop("model_option", ())
    if count is not None and "shots" not in options:
        raise TrothError(f"--shot-count {count} needs --shots; pass --shots, or leave --shot-count out")
    require("--shot-count", count, count is None or count >= 1, "1 or more")
    words = options.get("class_words", ())
    if words and all("=" in word for word in words):
        named, options["class_words"] = map(list, zip(*(word.split("=", 1) for word in words), strict=True))
        options.setdefault("labels", named)
    if "shots" in options:
        options["shots"] = _shots(options["shots"], count or 4)
    if "continuation" in options and "generate" in options:
        raise TrothError("--continuation gives the text, --generate lets the model write it; leave one of them out")
    if "threshold" in options:
        require("--threshold", options["threshold"], 0 < options["threshold"] < 1, "between 0 and 1, such as 0.3")
    if "hypothesis_template" in options and "candidate_labels" not in options:
        raise TrothError("--hypothesis-template needs --candidate-labels; pass both, or leave it out")
    if options.get("precision") == "exact":
        del options["precision"]
    return options | _more(more)


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


# Functions that read options which are not used as given.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("prompt", "continuation"), _unescaped),
    **dict.fromkeys(("class_words", "labels", "candidate_labels"), _parts),
}


def _shots(data: str, number: int) -> list[dict[str, Any]]:
    from troth.data import load_data
    from troth.data._classes import name_of

    return [
        {"text": example.text, "text_pair": example.text_pair, "label": name_of(example.label)}
        for example in load_data(data, limit=number)
    ]


def _more(model_options: Iterable[str]) -> dict[str, Any]:
    """Options of load_model without an option of their own here, read as JSON if valid, otherwise as text."""
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
