"""Loads models and tokenizers from a folder, a hub name, an adapter, a GGUF file or memory, without pickle and without
remote code.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from logging import ERROR
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from torch import nn

from troth.core import extras, trust
from troth.core.errors import NoHeadError, TrothError
from troth.core.hub import offline_where_unreachable, unreachable
from troth.models import _folder_checks, _placement, _pretrained, families
from troth.models._endpoint import is_url


class Network(NamedTuple):
    """A kind of network in a folder: its name in errors, and the transformers class that loads it."""

    words: str
    auto: str
    half_on_gpu: bool = False  # bfloat16 by default on a GPU
    tried: bool = False  # probed on first use (`_first_use`)


CLASSIFIER = Network("text classifier", "AutoModelForSequenceClassification", tried=True)
TOKENS = Network("token classifier", "AutoModelForTokenClassification", tried=True)
SENTENCES = Network("sentence encoder", "AutoModel")
MULTIPLE_CHOICE = Network("multiple choice model", "AutoModelForMultipleChoice", tried=True)
SEQ2SEQ = Network("encoder-decoder", "AutoModelForSeq2SeqLM", half_on_gpu=True)
CAUSAL = Network("causal language model", "AutoModelForCausalLM", half_on_gpu=True)
MASKED = Network("masked language model", "AutoModelForMaskedLM")


def bring(
    model: Any,
    tokenizer: Any,
    network: Network,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    **placing: Any,
) -> tuple[Any, Any, str]:
    """The model, tokenizer and name of a source; only models that are loaded here are moved and cast."""
    if isinstance(model, str | Path):
        name = str(model)
        if name == "embedded" and not Path(name).is_dir():
            what = "the small text classifier of troth"
            raise TrothError(f"cannot load embedded as a {network.words}: it is {what}; name another model")
        options = _placement.loading_options(placing, device)
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        elif str(device).partition(":")[0] in ("", "meta"):  # a device without memory
            raise TrothError(f"device must be cpu, cuda or cuda:1, not {str(device)!r}")
        if dtype is None and network.half_on_gpu and str(device).startswith("cuda"):
            dtype = torch.bfloat16
        with offline_where_unreachable(name), quiet():
            model, tokenizer = from_pretrained(name, tokenizer, dtype, network, **options)
        _placement.keep_gradients(model)
        try:
            if not options and not _placement.is_placed(model):
                model.to(device)
        except (RuntimeError, AssertionError) as error:
            why = "a device is cpu, cuda or cuda:1" if "Expected one of cpu" in str(error) else first_line(error)
            raise TrothError(f"cannot use device {device}: {why}; leave it out, or name another one") from None
    else:
        if is_pipeline(model):
            model, tokenizer = model.model, tokenizer or model.tokenizer
        model = _without_adapters(model)
        name = getattr(model, "name_or_path", "") or type(model).__name__
        if tokenizer is None:
            raise TrothError(f"{type(model).__name__} in memory needs its tokenizer: load_model(model, tokenizer=…)")
        if not callable(tokenizer):
            raise TrothError(f"tokenizer must be that of a transformers model, not a {type(tokenizer).__name__}")
        if (device is not None and torch.device(device) != model.device) or dtype is not None:
            raise TrothError(
                "device and dtype cannot be changed for a model in memory; move or cast it yourself, or pass its folder"
            )
        if placing:
            raise TrothError(f"{next(iter(placing))} is for a model that is loaded here; this one is in memory already")
    if not hasattr(model, "config") or not hasattr(model, "get_input_embeddings"):
        raise TrothError(
            f"{type(model).__name__} is not a transformers model; pass one, or a function from texts to probabilities"
        )
    return model, tokenizer, name


def architecture(source: Any) -> str:
    """The class of a model in memory, or the one that config.json of a folder or hub model names; "" if there is
    none.
    """
    network = _in_memory(source)
    if network is not None:
        return type(network).__name__
    named = saved_config(source).get("architectures")
    return named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""


def is_encoder_decoder(source: Any) -> bool:
    """Whether a model in memory, or the one that config.json describes, is an encoder-decoder that generates text."""
    network = _in_memory(source)
    if network is not None:
        return bool(getattr(getattr(network, "config", None), "is_encoder_decoder", False))
    named = saved_config(source).get("is_encoder_decoder")
    return named is True or (named is None and architecture(source).endswith("ForConditionalGeneration"))


def saved_config(source: Any) -> dict[str, Any]:
    """The config.json of a folder or a hub model; empty for other sources."""
    if not isinstance(source, str | Path) or is_url(source):
        return {}
    if not Path(source).is_dir() and str(source).count("/") != 1:
        return {}
    try:
        with offline_where_unreachable(str(source)), quiet():
            return _folder_checks.config_of(str(source))
    except (TrothError, OSError):  # loading it reports the problem
        return {}


def _in_memory(source: Any) -> Any:
    """The network of a model or pipeline in memory; None for other objects."""
    source = source.model if is_pipeline(source) else source
    return _without_adapters(source) if isinstance(source, nn.Module) else None


def _without_adapters(model: Any) -> Any:
    """The transformers model inside a peft model, with its adapters in place."""
    return model.get_base_model() if hasattr(model, "peft_config") and hasattr(model, "get_base_model") else model


def is_transformers(model: Any) -> bool:
    """Whether an object is a transformers model or pipeline, which are also callable."""
    return isinstance(model, nn.Module) or is_pipeline(model)


def is_pipeline(model: Any) -> bool:
    """A transformers pipeline: a model and its tokenizer."""
    return hasattr(model, "model") and hasattr(model, "tokenizer") and not isinstance(model, nn.Module)


def from_pretrained(
    name: str, tokenizer: Any, dtype: torch.dtype | str | None, network: Network, **placing: Any
) -> tuple[Any, Any]:
    """The model and tokenizer of a folder, a hub name, the folder of a LoRA adapter or a GGUF file."""
    folder, has_tokenizer = Path(name), tokenizer is not None
    is_gguf = folder.suffix == ".gguf" and folder.is_file()
    is_adapter = (folder / "adapter_config.json").is_file() and not (folder / "config.json").is_file()
    if folder.is_dir() and not is_adapter and not (folder / "config.json").is_file():
        raise TrothError(
            f"{name} is a folder without config.json, so it is not a model; pass the folder that save_pretrained wrote"
        )
    missing_here = folder.is_file() or name.startswith((".", "/", "~")) or name.count("/") > 1
    if not folder.is_dir() and not is_gguf and missing_here:
        raise TrothError(f"there is no model folder {name}")
    number_format, source, options = as_dtype(dtype), name, {}
    with _pretrained.loading(f"{name} as a {network.words}"):
        try:
            if is_adapter:
                model, missing, source = _adapted(folder, number_format, network, **placing)
            else:
                if is_gguf:
                    extras.require("gguf", f"{name}, a GGUF file,", "gguf")
                    source, options = str(folder.parent), {"gguf_file": folder.name}
                model, missing = _pretrained.network_of(network.auto, source, number_format, **options, **placing)
            own_files = is_adapter and (folder / "tokenizer_config.json").is_file()
            tokenizer = tokenizer or _pretrained.tokenizer_of(name if own_files else source, **options)
        except OSError:
            if not folder.is_dir() and (away := unreachable()):
                raise OSError(f"it is not a folder here, and not in the cache ({away})") from None
            raise
    # Without its files, transformers would build a tokenizer with an empty vocabulary.
    files = {"tokenizer.json", *getattr(tokenizer, "vocab_files_names", {}).values()}
    place = Path(name if own_files else source)
    if not has_tokenizer and not is_gguf and place.is_dir() and not any((place / file).is_file() for file in files):
        raise TrothError(f"{name} has no tokenizer ({', '.join(sorted(files))}); save it there, or pass tokenizer=…")
    if network is SENTENCES:
        missing = [key for key in missing if not key.startswith("pooler.")]  # the pooler is not used here
    if missing:
        if network is MASKED:
            raise NoHeadError(
                f"{name} has no trained head of a masked language model ({missing[0]} is missing); use the model that "
                "it was fine-tuned from"
            )
        if network is not CLASSIFIER:
            raise TrothError(
                f"{name} is not a {network.words} ({missing[0]} is missing); leave prompt, continuation and "
                "generate out"
            )
        prompt = "; or ask it for a class word: prompt=…, class_words=…" if families.writes(model.config) else ""
        raise NoHeadError(
            f"{name} has no trained classification head ({missing[0]} is missing); fine-tune it: "
            f"troth train plain --base {name}{prompt}"
        )
    return model, tokenizer


def _adapted(folder: Path, dtype: torch.dtype, network: Network, **placing: Any) -> tuple[Any, list[str], str]:
    """A base model with its adapter merged into plain layers, and the path of the base."""
    extras.require("peft", f"{folder}, an adapter,", "peft")
    config = _folder_checks.adapter_of(folder)
    source = str(config.get("base_model_name_or_path") or "")
    if not source:
        raise TrothError(f"{folder}: adapter_config.json names no base model; write base_model_name_or_path there")
    trust.Origin.file(folder / "adapter_config.json", folder.absolute().parent).model(source)
    source = next((str(path) for path in (folder.parent / source, Path(source)) if path.is_dir()), source)
    weights = folder / "adapter_model.safetensors"
    if not weights.is_file():
        raise TrothError(f"{folder} has no adapter_model.safetensors; save the adapter with safe_serialization=True")
    options: dict[str, Any] = {}
    with safe_open(weights, framework="pt") as file:
        saved = {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118  (no mapping)
    heads = [shape[0] for key, shape in saved.items() if key.endswith(("score.weight", "classifier.weight"))]
    if network is CLASSIFIER and heads:
        options["num_labels"] = heads[0]
    _folder_checks.check_rank(config, saved.values())
    base, missing = _pretrained.network_of(network.auto, source, dtype, **options, **placing)
    # Heads that come with the adapter are missing only in the base.
    missing = [key for key in missing if not any(f".{key}".replace(".weight", "") in name for name in saved)]
    return _pretrained.adapted(base, folder), missing, source


@contextmanager
def quiet() -> Iterator[None]:
    """Hides the progress bars and reports of transformers while models are loaded and saved.

    The user's settings are restored. Bars of downloads, which may take long, are kept.
    """
    from transformers.utils import logging

    downloads: Any = import_module("huggingface_hub.utils")
    shown, hub_shown = logging.is_progress_bar_enabled(), not downloads.are_progress_bars_disabled()
    verbosity = logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if hub_shown:
        downloads.enable_progress_bars()
    logging.set_verbosity(max(verbosity, ERROR))
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
            if not hub_shown:
                downloads.disable_progress_bars()


def as_dtype(dtype: torch.dtype | str | None) -> torch.dtype:
    """A dtype by its name; single precision by default."""
    if isinstance(dtype, str):
        number_format = getattr(torch, dtype, None)
        if not isinstance(number_format, torch.dtype):
            raise TrothError(f"no number format is called {dtype!r}; use float32, bfloat16 or float16")
        return number_format
    return dtype or torch.float32


def first_line(error: BaseException) -> str:
    """The first line of a library's error message."""
    return str(error).strip().split("\n")[0]
