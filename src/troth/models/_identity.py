"""The identity of a model: all of its weights, its configuration, its tokenizer, and user code.

A model has the same identity in memory and in a folder, in every process and on every device. Another dtype is another
identity, because it gives other numbers. Facts that do not change outputs are left out: where the model came from, the
version it was saved with, the attention kernel.
"""

import copy
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from troth.core.hashing import DIGITS, digest, files_digest, is_users, tensors_digest
from troth.core.hashing import fingerprint as code_of
from troth.models import _placement
from troth.models._changes import borrowed

# Fields of a configuration that are left out: the dtype is that of the weights, the others change no output.
_UNRELATED = {
    "_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype", "_commit_hash", "use_cache",
    "_attn_implementation", "attn_implementation", "_attn_implementation_internal", "output_attentions",
    "output_hidden_states", "return_dict", "torchscript", "gradient_checkpointing",
}  # fmt: skip
_HASHED: weakref.WeakKeyDictionary[nn.Module, tuple[Any, str]] = weakref.WeakKeyDictionary()


def network(model: nn.Module) -> list[Any]:
    """The identity of a network: its class, user code in it, its configuration and every byte of its weights."""
    users = {type(module) for module in model.modules() if is_users(type(module))}
    code = sorted((cls.__qualname__, code_of(cls)) for cls in users)
    config = configuration(getattr(model, "config", None))
    return [type(model).__name__, code, config, _edits(model), _weights(model)]


def fingerprint(model: nn.Module) -> str:
    """The identity of a bare network."""
    return digest(network(model))


def configuration(config: Any) -> Any:
    """The settings that differ from the defaults of the configuration's class; settings added by later versions change
    nothing.
    """
    if not hasattr(config, "to_dict"):
        return None
    try:
        usual = type(config)().to_dict()
    except Exception:  # its constructor may need arguments, and raise any error without
        usual = {}
    own = _related(config.to_dict())
    kept = {name: value for name, value in own.items() if name not in usual or value != _related(usual)[name]}
    return [getattr(config, "model_type", ""), kept]


def tokenizer(source: Any) -> Any:
    """Everything that decides how a text is tokenized, except truncation and padding, which each call sets."""
    if source is None:
        return None
    backend: Any = getattr(source, "backend_tokenizer", None)
    if hasattr(backend, "to_str"):
        with borrowed(source):
            backend.no_truncation()
            backend.no_padding()
            state = backend.to_str()
    else:
        state = [type(source).__name__, *_files_of(source)]
    added = {number: repr(token) for number, token in getattr(source, "added_tokens_decoder", {}).items()}
    special = {name: str(token) for name, token in getattr(source, "special_tokens_map", {}).items()}
    names = ("chat_template", "model_input_names", "split_special_tokens")
    return [digest(state), added, special, *(getattr(source, name, None) for name in names)]


def stamp(model: nn.Module) -> Any:
    """A value that changes with every ordinary change of the weights; None if changes cannot be seen."""
    tensors = model.state_dict()
    if any(tensor.is_inference() for tensor in tensors.values()):
        return None
    return tuple(
        (name, tensor.data_ptr(), tensor._version, tensor.dtype, tensor.shape) for name, tensor in tensors.items()
    )


def forget(model: Any) -> None:
    """Discards the fingerprint of a network's weights, so that they are read again."""
    if isinstance(model, nn.Module):
        _HASHED.pop(model, None)


def is_older(known: str) -> bool:
    """Whether a fingerprint was made by an earlier version of troth, which read only a sample of the weights."""
    return len(known.partition("-")[0]) < DIGITS


def _weights(model: nn.Module) -> str:
    now = stamp(model)
    before = _HASHED.get(model)
    if before is not None and now is not None and before[0] == now:
        return before[1]
    tensors = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    others = {name: repr(value) for name, value in model.state_dict().items() if name not in tensors}
    found = digest([tensors_digest(tensors, partial(_placement.weight_named, model)), others])
    _HASHED[model] = now, found
    return found


def _edits(model: nn.Module) -> list[Any]:
    """Manual changes after the model was built: layers, their settings, hooks and forward functions.

    It is compared with a model that is built without weights, so an unchanged one has none in any version.
    """
    edits: list[Any] = []
    for name, module in model.named_modules():
        hooks = [vars(module).get("forward"), *module._forward_hooks.values(), *module._forward_pre_hooks.values()]
        edits += [[name, code_of(hook)] for hook in hooks if hook is not None and is_users(hook)]
    if is_users(type(model)) or not hasattr(model, "config"):
        return edits  # its source code says how it is built
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            built: Any = type(model)(copy.deepcopy(model.config))
    except Exception:  # a class that needs more than its configuration
        return edits
    usual = dict(built.named_modules())
    for name, module in model.named_modules():
        if type(usual.get(name)) is not type(module):
            edits.append([name, type(module).__name__])
            continue
        for key, value in vars(usual[name]).items():
            own = vars(module).get(key)
            if not key.startswith("_") and key != "training" and isinstance(value, int | float | str) and own != value:
                edits.append([name, key, own])
    return [*edits, sorted(usual.keys() - dict(model.named_modules()).keys())]


def _related(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _related(value) if isinstance(value, Mapping) and name not in ("id2label", "label2id") else value
        for name, value in config.items()
        if name not in _UNRELATED
    }


def _files_of(source: Any) -> list[Any]:
    """The identity of a tokenizer written in Python: its vocabulary files, its vocabulary, and its code if it is the
    user's.
    """
    code = code_of(type(source)) if is_users(type(source)) else ""
    with tempfile.TemporaryDirectory() as folder:
        with suppress(NotImplementedError, AttributeError, ValueError):  # tokenizers of characters or bytes have none
            source.save_vocabulary(folder)
        return [code, files_digest(Path(folder)), getattr(source, "get_vocab", dict)()]
