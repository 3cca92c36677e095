"""The only module in which transformers and peft build objects from files.

The files are checked first. Code in them is never run: `trust_remote_code=False` is passed everywhere, so that
transformers does not ask on standard input either. Any error becomes one line that names the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from troth.core.errors import TrothError
from troth.models import _folder_checks, families
from troth.models._folder_checks import BadFileError

_LONGEST = 300  # characters of a library's message
_OWN_CODE = (
    "needs code of its own (auto_map), which is never run; load the model and its tokenizer with transformers yourself "
    "and pass both: load_model(model, tokenizer=…)"
)


@contextmanager
def loading(what: str, way_out: str = "") -> Iterator[None]:
    """Turns any error into `cannot load <what>: <why>`; a panic in Rust is not even an Exception."""
    try:
        yield
    except (KeyboardInterrupt, TrothError) as error:
        if not isinstance(error, BadFileError):
            raise
        raise TrothError(f"cannot load {what}: {error}{way_out}") from None
    except BaseException as error:
        raise TrothError(f"cannot load {what}: {reason(error)}{way_out}") from None


def config_of(source: str, **options: Any) -> Any:
    """The configuration of a folder or a hub name, with all numbers within their bounds."""
    from transformers import AutoConfig

    if "gguf_file" not in options:
        _check_folder(source)
    with _of(options.get("gguf_file", "config.json")):
        config = AutoConfig.from_pretrained(source, trust_remote_code=False, **options)
        if "gguf_file" in options:
            _folder_checks.check_config({**config.to_dict(), "id2label": None})
        return config


def tokenizer_of(source: str, **options: Any) -> Any:
    """The tokenizer of a folder or a hub name."""
    from transformers import AutoTokenizer

    if "gguf_file" not in options:
        _check_folder(source)
        _folder_checks.check_tokenizer(source)
    with _of(options.get("gguf_file", "tokenizer.json")):
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **options)
        _folder_checks.check_vocabulary(tokenizer)
    return tokenizer


def network_of(auto: str, source: str, dtype: torch.dtype, **options: Any) -> tuple[Any, list[str]]:
    """The network with its weights, and the names of weights that are missing in its files; `auto` is the class that
    loads it.
    """
    of_config = {name: options.pop(name) for name in ("num_labels", "id2label", "label2id") if name in options}
    gguf = {"gguf_file": options["gguf_file"]} if "gguf_file" in options else {}
    config = config_of(source, **of_config, **gguf)
    # The placement is then decided by transformers.
    placed = "device_map" in options or "quantization_config" in options
    _empty(auto, config, dtype, fits=placed or bool(getattr(config, "quantization_config", None)))
    if not gguf:
        options["use_safetensors"] = True
    with _of(gguf.get("gguf_file", "model.safetensors")):
        model, report = _class(auto).from_pretrained(
            source, config=config, dtype=dtype, output_loading_info=True, trust_remote_code=False, **options
        )
    return model, sorted(report["missing_keys"])


def untrained(auto: str, source: str, dtype: torch.dtype) -> Any:
    """The network that config.json describes, with random weights."""
    config = config_of(source)
    _empty(auto, config, dtype)
    with _of("config.json"):
        return _class(auto).from_config(config, dtype=dtype, trust_remote_code=False)


def adapted(base: Any, folder: Path) -> Any:
    """The base with the adapter of a folder merged in; peft loads only safetensors and no code."""
    from peft import PeftModel

    with _of("adapter_model.safetensors"):
        return PeftModel.from_pretrained(base, str(folder)).merge_and_unload()


def _check_folder(source: str) -> None:
    """Refuses files that cannot be read; registers a model class of ours with the Auto classes if the folder needs
    it.
    """
    _folder_checks.check_files(Path(source))
    model_type = _folder_checks.config_of(source).get("model_type")
    module = families.OWN.get(model_type) if isinstance(model_type, str) else None
    if module is not None:
        import_module(module)  # importing it registers the class


def _empty(auto: str, config: Any, dtype: torch.dtype, *, fits: bool = False) -> None:
    """Builds the network without memory, in 10 to 40 ms, to find out whether it can be built and would fit."""
    from transformers.initialization import no_init_weights

    # no_init_weights imports torch._dynamo, which some versions of PyTorch cannot do under the meta device.
    quiet, empty = no_init_weights(), torch.device("meta")
    with _of("config.json"), torch.random.fork_rng(devices=[]), quiet, empty:
        network = _class(auto).from_config(config, trust_remote_code=False)
        if not fits:
            _folder_checks.check_size(network, dtype.itemsize)


def _class(auto: str) -> Any:
    import transformers

    return getattr(transformers, auto)


@contextmanager
def _of(file: str) -> Iterator[None]:
    """Names the file in errors while something is built from it; a missing model is not a file's fault."""
    try:
        yield
    except (KeyboardInterrupt, TrothError, OSError):
        raise
    except BaseException as error:
        if "custom code which must be executed" in str(error) or "references custom code" in str(error):
            raise BadFileError(f"it {_OWN_CODE}") from None
        if "ignore_mismatched_sizes" in str(error):
            raise BadFileError("its weights do not fit its config.json") from None
        raise BadFileError(f"{file}: {reason(error)}") from None


def reason(error: BaseException) -> str:
    """The message of a library's error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines[:2]) if lines and lines[0].endswith(":") else lines[0] if lines else ""
    plain = isinstance(error, OSError | ValueError | RuntimeError) or type(error) is Exception
    return (said if plain and said else f"{type(error).__name__}: {said}".rstrip(": "))[:_LONGEST]
