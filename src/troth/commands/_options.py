"""Options that several commands take, and what they share at the edges."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from typing import Annotated, Any

import typer

Model = Annotated[str, typer.Option("--model", "-m", help="A model folder, a hub name, or embedded.")]
Units = Annotated[str, typer.Option(help="What is scored and erased: token, word or sentence.")]
Target = Annotated[str, typer.Option(help="The class explained: predicted, gold, an index or a label.")]
Seed = Annotated[int, typer.Option(help="Seed of every random draw.")]
Json = Annotated[bool, typer.Option("--json", help="Plain JSON for machines.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1; by default a GPU if there is one.")]


def quieten() -> None:
    """Libraries speak only when something is wrong."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    warnings.filterwarnings("ignore", category=FutureWarning)
    import transformers

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def print_json(value: Any) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
