"""Options shared by several commands, and what all commands do first and last."""

from __future__ import annotations

import inspect
import logging
import math
import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand

from troth.core import catalog, hub, spec_text, terminal, trust, user_code
from troth.core.errors import TrothError

_MOST_SEEDS = 1_000
_MOST = 2**63 - 1  # the limit of seeds in libraries, array sizes and SQL
# Options with a short name or another name than their parameter, the same in every command.
_NAMES = {
    "as_json": ["--json"], "base": ["--base", "-b"], "data": ["--data", "-d"], "explainer": ["--explainer", "-e"],
    "explainers": ["--explainers", "-e"], "form": ["--format"], "ids": ["--id"],
    "learning_rate": ["--learning-rate", "--lr"],
    "model": ["--model", "-m"], "weight": ["--lambda"],
}  # fmt: skip
# Options whose values the shell completes with names of a kind.
_COMPLETED = {
    "data": "data", "explainer": "explainers", "explainers": "explainers", "masking": "maskings", "metric": "metrics",
    "metrics": "metrics",
}  # fmt: skip


class Command(TyperCommand):
    """A command that requires its numbers to be finite, to fit into 64 bits and, for seeds, not to be negative."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, [self._in_number(each) for each in args])
            for option in self.params:
                value = ctx.params.get(option.name)
                for number in value if isinstance(value, list) else [value]:
                    _require_bounded(option.opts[0], number, least=0 if option.name == "seed" else -_MOST)
        except BaseException:
            ctx.close()  # undo what options have changed
            raise
        return rest

    def _in_number(self, argument: str) -> str:
        """Accepts --explainer for a command with --explainers, and the other way round; likewise --metric."""
        name, equals, value = argument.partition("=")
        names = {name for option in self.params for name in option.opts}
        for one, many in (("--explainer", "--explainers"), ("--metric", "--metrics")):
            other = {one: many, many: one}.get(name)
            if name not in names and other in names:
                return f"{other}{equals}{value}"
        return argument


def _require_bounded(option: str, number: object, least: int) -> None:
    if isinstance(number, float):
        require(option, number, math.isfinite(number), "a finite number")
    elif isinstance(number, int):
        wanted = f"0 to {_MOST:,}" if least == 0 else f"at most {_MOST:,}"
        require(option, str(number)[:60], least <= number <= _MOST, wanted)


def names_of(kind: str) -> Callable[[str], list[str]]:
    """Completes a name of a kind, including the last one of a list: random,lea → random,leave_one_out."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in catalog.names(kind) if name.startswith(begun)]

    return complete


def _split(values: list[str] | None) -> list[str] | None:
    # An empty text is kept, so that the code that reads the list can report it.
    return None if values is None else [part for value in values for part in spec_text.split(value) or [value]]


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in spec_text.split(text) or [text]]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number, nor several with commas between them") from None


def _joined(values: list[list[int]] | None) -> list[int] | None:
    return None if values is None else [number for several in values for number in several]


def _offline(ctx: typer.Context, dry_run: bool) -> bool:
    if dry_run:
        ctx.with_resource(hub.without_network("a dry run does not use the network"))
    return dry_run


def _allow(ctx: typer.Context, names: list[str] | None) -> list[str] | None:
    parts = [part for name in names or () for part in _code(name)]
    ctx.with_resource(trust.allowing(*map(trust.check_allowed, parts)))
    return parts or names


def _code(name: str) -> list[str]:
    """The parts of a list of code references; a path or a URL may contain commas and stays whole."""
    parts = spec_text.split(name)
    only_code = "://" not in name and all(user_code.read(part) is not None for part in parts)
    return parts if only_code and parts else [name]


def known_base(name: str | None) -> str | None:
    """As `known_model`, for the model that a training starts from."""
    if name is not None and name.partition("(")[0].strip() not in catalog.names("bases"):
        hub.require(name, "to train it")
    return name


def known_model(name: str) -> str:
    """Returns the name of a model; before loading anything, rejects one that is not local if the hub cannot be used."""
    if name != "embedded":
        hub.require(name)
    return name


def summary(command: Callable[..., None]) -> str:
    """The first sentence of a command's docstring, for the list of commands."""
    first = " ".join((inspect.getdoc(command) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.) |; ", first)[0].rstrip(".")


def described(command: Callable[..., None]) -> Callable[..., None]:
    """The command in the form that typer reads: a sentence in `Annotated` becomes the help of a parameter.

    The rest of an option follows from its parameter. A switch that is off by default can only be turned on, and a list
    may be repeated or separated by commas.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters = [parameter.replace(annotation=_with_help(parameter)) for parameter in signature.parameters.values()]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # what typer reads
    return command


def _with_help(parameter: inspect.Parameter) -> Any:
    kind, *about = get_args(parameter.annotation)
    if not about or not isinstance(about[0], str):
        return parameter.annotation
    if parameter.default is parameter.empty:
        return Annotated[kind, typer.Argument(help=about[0])]
    name = parameter.name
    names = _NAMES.get(name, [f"--{name.replace('_', '-')}"] if parameter.default is False else [])
    callback = known_base if name == "base" else _split if kind == list[str] | None else None
    completed = names_of(_COMPLETED[name]) if name in _COMPLETED else None
    return Annotated[kind, typer.Option(*names, help=about[0], callback=callback, autocompletion=completed)]


Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        help="A model folder, a hub name, embedded, a function (my_file.py:predict) or a URL (https://…/v1#model).",
        callback=known_model,
    ),
]
Data = Annotated[
    str,
    typer.Option(
        "--data", "-d", help="A data set's name, a file, a folder or a hub name.", autocompletion=names_of("data")
    ),
]
Run = Annotated[str, "A run's folder, or its name in runs/."]
Masking = Annotated[str, "How a unit is erased; see troth list maskings."]
OwnMasking = Annotated[
    str | None,
    "How a unit is erased, in the proof too; by default mask_token, or delete for passages.",
]
Like = Annotated[str | None, "Use the settings of a paper: fmm, roar, soft or saloss."]
SeedCount = Annotated[int, "Number of random seeds."]
Limit = Annotated[int, "At most this many examples of each split; 0 takes all."]
TextColumn = Annotated[str | None, "Column of the text; guessed by default."]
PairColumn = Annotated[str | None, "Column of the second text; '' for none."]
LabelColumn = Annotated[str | None, "Column of the class; '' for none."]
GroupColumn = Annotated[str | None, "Column that groups examples, such as their document; a group counts as one."]
Workers = Annotated[int | None, "Number of processes; by default one per GPU, else one per core."]
Retry = Annotated[bool, "Try failed cells (pieces of work) again."]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Only print what would be done and how long it would take; nothing is sent over the network.",
        callback=_offline,
        is_eager=True,
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        help="What a plan, a record or a model folder may name: a URL (https://host/v1), a URL and the variable of its "
        "key (https://host/v1=KEY), a path, or code (my_file.py:name); repeated.",
        callback=_allow,
        is_eager=True,
    ),
]
Units = Annotated[str, "What is scored and erased: token, word, sentence or passage."]
Target = Annotated[str, "The class explained: predicted, gold, an index or a label."]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        help="The class explained: predicted, gold, an index or a label; several: a,b. Of a multi-label model also "
        'above_threshold; of a token classifier {"word": "London", "label": "LOC"}.',
    ),
]
Seed = Annotated[int, "Random seed."]
Seeds = Annotated[
    list[int] | None,
    typer.Option(help="Random seed, 0 by default; several: 0,1,2.", parser=_numbers, callback=_joined),
]
KeyFile = Annotated[Path | None, "HMAC-SHA256 key that signs or checks records: all bytes of this file."]
Json = Annotated[bool, "Print JSON, for programs."]
Verbose = Annotated[bool, "Print every note, and a paragraph on methods for a paper."]
Device = Annotated[str | None, "cpu, cuda or cuda:1; by default a GPU if there is one."]


def targets(values: list[str] | None, labels: tuple[str, ...]) -> str | list[str]:
    """The targets of repeated --target options, or of one with commas, unless it is the name of a label."""
    given = ["predicted"] if values is None else values
    parts = [part for value in given for part in ([value] if value in labels else spec_text.split(value) or [value])]
    return parts[0] if len(parts) == 1 else parts


def require(option: str, value: object, holds: bool, wanted: str) -> None:
    """Raises an error for an invalid value of an option."""
    if not holds:
        raise TrothError(f"{option} must be {wanted}, not {value}")


def require_seeds(seeds: int) -> None:
    require("--seeds", seeds, 1 <= seeds <= _MOST_SEEDS, f"1 to {_MOST_SEEDS:,}")


def one_of(option: str, value: str, *allowed: str) -> None:
    require(option, repr(value), value in allowed, " or ".join(allowed))


def spare_threads(model: str) -> None:
    """Uses one thread for the embedded model, which is so small that several threads mostly wait for each other."""
    if model == "embedded":
        import torch

        torch.set_num_threads(1)


def quieten() -> None:
    """Makes libraries print only when something is wrong."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", message=".*: erased words become")  # already part of the notes
    import transformers

    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def print_json(value: Any) -> None:
    """Prints one JSON value to standard output."""
    sys.stdout.write(terminal.json_text(value, sys.stdout.encoding) + "\n")
    sys.stdout.flush()  # readers of a pipe get it at once, although troth serve runs for hours
