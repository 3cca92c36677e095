"""Options that several commands take, and what they share at the edges."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Annotated, Any

import typer

from troth.core import terminal
from troth.core.errors import TrothError

MOST_SEEDS = 1_000
Model = Annotated[str, typer.Option("--model", "-m", help="A model folder, a hub name, or embedded.")]
Units = Annotated[str, typer.Option(help="What is scored and erased: token, word or sentence.")]
Target = Annotated[str, typer.Option(help="The class explained: predicted, gold, an index or a label.")]
Seed = Annotated[int, typer.Option(help="Seed of every random draw.")]
Json = Annotated[bool, typer.Option("--json", help="Plain JSON for machines.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1; by default a GPU if there is one.")]
Prompt = Annotated[
    str | None, typer.Option(help='Asks a causal language model: "Review: {text} Sentiment:" with --class-words.')
]
ClassWords = Annotated[
    str | None,
    typer.Option(help="The words of the classes, in order: good,bad or, with their labels, pos=good,neg=bad."),
]
Shots = Annotated[
    str | None, typer.Option(help="Data whose labeled examples the prompt shows first (a file or a name).")
]
ShotCount = Annotated[int | None, typer.Option(help="At most so many shots; 4.")]
Chat = Annotated[
    bool | None, typer.Option("--chat/--no-chat", help="The tokenizer's chat template; by default if it has one.")
]
MaskText = Annotated[str | None, typer.Option(help="What erased words of a prompted model become; one token.")]


def prompting(
    prompt: str | None,
    class_words: str | None,
    shots: str | None = None,
    shot_count: int | None = None,
    chat: bool | None = None,
    mask_text: str | None = None,
) -> dict[str, Any]:
    """Options of load_model for a prompted model, plain values all; none without a prompt."""
    if shot_count is not None and shots is None:
        raise TrothError(f"--shot-count {shot_count} goes with --shots; name their data, or leave it out")
    number = 4 if shot_count is None else shot_count
    require("--shot-count", number, number >= 1, "1 or more")
    options: dict[str, Any] = {"prompt": None if prompt is None else prompt.replace("\\n", "\n")}
    words = [] if class_words is None else [word.strip() for word in class_words.split(",")]
    if words and all("=" in word for word in words):
        options["labels"], words = map(list, zip(*(word.split("=", 1) for word in words), strict=True))
    options["class_words"] = words or None
    if shots is not None:
        from troth.data import load_data
        from troth.data._classes import name_of

        shown = load_data(shots, limit=number)
        options["shots"] = [
            {"text": one.text, "text_pair": one.text_pair, "label": name_of(one.label)} for one in shown
        ]
    options |= {"chat": chat, "mask_text": mask_text}
    return {name: value for name, value in options.items() if value is not None}


def require(option: str, value: object, holds: bool, wanted: str) -> None:
    """One line for a value that an option does not take."""
    if not holds:
        raise TrothError(f"{option} must be {wanted}, not {value}")


def quieten() -> None:
    """Libraries speak only when something is wrong."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", message=".*: erased words become")  # it is among the notes
    import transformers

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def print_json(value: Any) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(terminal.json_text(value, sys.stdout.encoding) + "\n")
