"""Checks the files of a model before anything is built from them: they may contain mistakes, or be written to fill the
memory, to stop the program or to run code.

Numbers in config.json are bounded before transformers reads them, because some become the length of lists and loops.
The sizes they describe are computed without allocating memory. A tokenizer with a regular expression or a compiled
character map is tried in a process of its own (`_tokenizer_trial`), where it may hang, panic or abort.
"""

import re
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from troth.core import reading
from troth.core.errors import TrothError
from troth.models import _tokenizer_trial

_MOST_BYTES = 32 << 20  # of config.json
_MOST = 1 << 40  # of any integer in it
# Upper bounds by the ending of a number's name. The largest models have about a hundred layers; every layer, head,
# expert and class becomes an object when a model is built.
_COUNTS = (
    (re.compile(r"(layers?|blocks|depths?|stages|groups?|group_num)$"), 1_000),
    (re.compile(r"(heads?|experts)$"), 10_000),
    (re.compile(r"labels$"), 1_000_000),
)
_SIZES = (
    "hidden_size", "d_model", "n_embd", "dim", "embedding_size", "vocab_size", "num_attention_heads", "num_heads",
    "n_head", "n_heads",
)  # fmt: skip
# Parts that make a tokenizer run its author's patterns on every text; everything else in the file is a table.
_TRIED = (b'"Regex"', b'"precompiled_charsmap"')
_PATIENCE = 10.0  # seconds; a trial normally takes a tenth of a second


class BadFileError(TrothError):
    """A file of a model cannot be used; the message begins with the file's name."""


def config_of(source: str) -> dict[str, Any]:
    """The content of config.json with all numbers within their bounds; empty if there is no such file."""
    path = file_of(source, "config.json")
    if path is None:
        return {}
    config = _settings(path)
    check_config(config)
    return config


def adapter_of(folder: Path) -> dict[str, Any]:
    """The content of adapter_config.json, which may name a base model, but no code."""
    check_files(folder)
    config = _settings(folder / "adapter_config.json")
    for name in ("megatron_config", "tokenizer_kwargs"):
        if config.get(name):
            raise BadFileError(f"adapter_config.json: {name} would load more than weights; merge the adapter yourself")
    return config


def check_rank(config: Mapping[str, Any], shapes: Iterable[Sequence[int]]) -> None:
    """Bounds the rank of an adapter, because matrices of that size are allocated before its weights are read."""
    most = max((size for shape in shapes for size in shape), default=0)
    patterns = config.get("rank_pattern")
    for rank in (config.get("r"), *(patterns.values() if isinstance(patterns, dict) else ())):
        if rank is not None and (not isinstance(rank, int) or not 1 <= rank <= most):
            raise BadFileError(
                f"adapter_config.json: r is {_short(rank)}, but the largest weight of adapter_model.safetensors has "
                f"{most:,} rows; save the adapter again"
            )


def _settings(path: Path) -> dict[str, Any]:
    """The JSON object of a file."""
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise BadFileError(f"{path.name} has {size >> 20} MB; a file that describes a model has a few kB")
    try:
        settings = reading.parse_json(reading.text(path))
    except reading.ExcessError as error:
        raise BadFileError(f"{path.name} {error}") from None
    except (ValueError, OSError) as error:
        raise BadFileError(f"{path.name} is not JSON: {str(error)[:200]}") from None
    if not isinstance(settings, dict):
        raise BadFileError(f"{path.name} holds a {type(settings).__name__}; it must be an object with named settings")
    return settings


def check_config(config: dict[str, Any]) -> None:
    """Raises an error for a value with which no model can be built."""
    for name, value in _numbers(config):
        most = next((high for ends, high in _COUNTS if ends.search(name)), _MOST)
        least = 1 if name in _SIZES else -_MOST
        if not least <= value <= most:
            bound = f"{most:,} at most" if value > most else f"{least:,} or more"
            raise BadFileError(f"config.json: {name} is {_short(value)}; it must be {bound}")
    for name in ("attn_implementation", "_attn_implementation"):
        if "/" in str(config.get(name)):
            raise BadFileError(f"config.json: {name} names code on the hub, which is never run; remove it")
    vocabulary, padding = config.get("vocab_size"), config.get("pad_token_id")
    if isinstance(vocabulary, int) and isinstance(padding, int) and padding >= vocabulary:
        raise BadFileError(
            f"config.json: pad_token_id is {padding}, but vocab_size is {vocabulary}: ids must "
            "be smaller than vocab_size"
        )
    names = config.get("id2label")  # class names by their number, a string in JSON
    if names is None:
        return
    if not isinstance(names, Mapping) or not names:
        raise BadFileError(f'config.json: id2label is {_short(names)}; it must be like {{"0": "negative", …}}')
    wanted = {str(number) for number in range(len(names))}
    if wrong := sorted(map(str, names.keys() - wanted)):
        raise BadFileError(
            f"config.json: id2label names class {_short(wrong[0])}; {len(names)} classes are numbered from 0 to "
            f"{len(names) - 1}"
        )


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Every integer of a configuration with its name; those in a list have the list's name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, name)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield name, value


def check_files(folder: Path) -> None:
    """Refuses pipes and devices in a model's folder, which would be read forever."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        try:
            mode = path.stat().st_mode
        except OSError:  # a broken link
            continue
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise BadFileError(f"{path.name} is a pipe or a device; a model's folder must contain plain files")


def check_size(network: Any, dtype_bytes: int) -> None:
    """Refuses a network (on the meta device, without memory) that would not fit into the free memory."""
    import psutil  # type: ignore[import-untyped]  # comes with accelerate

    needed = sum(parameter.numel() for parameter in network.parameters()) * dtype_bytes
    free = psutil.virtual_memory().available + psutil.swap_memory().free
    if needed > free:
        raise BadFileError(
            f"config.json describes a model of {needed / 1e9:,.0f} GB, and {free / 1e9:,.0f} GB of memory are free; "
            "use a smaller model, a smaller dtype or a machine with more memory"
        )


def check_tokenizer(source: str) -> None:
    """Tries a tokenizer whose file could hang, panic or abort; takes 0.1 s, and no time for other tokenizers."""
    path = file_of(source, "tokenizer.json")
    text = reading.content(path, reading.DATA) if path is not None else b""
    if not any(mark in text for mark in _TRIED):
        return
    arguments = [sys.executable, "-I", _tokenizer_trial.__file__]
    try:
        trial = subprocess.run(arguments, input=text, capture_output=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise BadFileError(
            f"tokenizer.json: a regular expression needs more than {_PATIENCE:.0f} s for a text of "
            f"{_tokenizer_trial.LENGTH} characters; simplify it, or use another tokenizer"
        ) from None
    if trial.returncode:
        lines = trial.stdout.decode(errors="replace").splitlines()
        why = lines[-1][:300] if lines else "it ended the process that tried it"
        raise BadFileError(f"tokenizer.json cannot be used: {why}; save the tokenizer again")


def check_vocabulary(tokenizer: Any) -> None:
    """Refuses an unknown token that is not in the vocabulary, which would fail at the first unknown word."""
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    unknown = getattr(model, "unk_token", None)
    if isinstance(unknown, str) and model is not None and model.token_to_id(unknown) is None:
        raise BadFileError(f"tokenizer.json: its vocabulary lacks {_short(unknown)}, its token for unknown words")


def file_of(source: str, name: str) -> Path | None:
    """The path of a file of a folder or of a model on the hub (downloaded if necessary); None if there is none."""
    folder = Path(source)
    if folder.is_dir():
        return folder / name if (folder / name).is_file() else None
    from transformers.utils.hub import cached_file

    try:
        found = cached_file(source, name, _raise_exceptions_for_missing_entries=False)
    except (OSError, ValueError):  # loading it reports the problem
        return None
    return None if found is None else Path(found)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
