"""Temporary changes of a model or tokenizer; each one is undone afterwards, also after an exception.

Both belong to the user and are shared by wrappers and threads, so every change is made while holding their lock.
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from troth.core.user_code import calling
from troth.models.base import refuse

_LOCKS: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_GUARD = threading.Lock()


def lock_of(shared: Any) -> threading.RLock:
    """The lock of a model or tokenizer; two classifiers on one encoder share it."""
    owner = getattr(shared, "base_model", shared)
    with _GUARD:
        return _LOCKS.setdefault(owner, threading.RLock())


@contextmanager
def borrowed(tokenizer: Any, given: str = "") -> Iterator[None]:
    """Locks the tokenizer and restores its settings: calling it without truncation and padding would remove them
    permanently.

    The tokenizer may be the user's, and a library's may panic, so it is called like user code.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    with calling(type(tokenizer).__name__, given), lock_of(tokenizer):
        if backend is None:
            yield
            return
        truncation, padding, splits = backend.truncation, backend.padding, backend.encode_special_tokens
        try:
            yield
        finally:
            if truncation is not None:
                backend.enable_truncation(**truncation)
            if padding is not None:
                backend.enable_padding(**padding)
            backend.encode_special_tokens = splits


@contextmanager
def frozen(model: Any) -> Iterator[None]:
    """Evaluation mode, and parameters without gradients."""
    training = [module for module in model.modules() if module.training]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    offloaded = (
        []
        if not any(parameter.is_meta for parameter in trained)
        else [
            (module, name)
            for module in model.modules()
            for name, parameter in module.named_parameters(recurse=False)
            if parameter.requires_grad and parameter.is_meta
        ]
    )
    try:
        for module in training:
            module.training = False
        for parameter in trained:
            parameter.requires_grad = False
        yield
    finally:
        for module in training:
            module.training = True
        for parameter in trained:
            parameter.requires_grad = True
        for module, name in offloaded:  # each forward pass replaces these parameters
            getattr(module, name).requires_grad = True


@contextmanager
def eager(model: Any) -> Iterator[None]:
    """Eager attention, which returns its weights."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def swapped(owner: Any, **values: Any) -> Iterator[None]:
    """Replaces attributes, such as the attention function of a configuration."""
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextmanager
def unhooked(model: Any) -> Iterator[None]:
    """Removes the hooks that transformers leaves on a model after it has returned attentions or hidden states."""
    before = {module: set(module._forward_hooks) for module in model.modules()}
    mark = "_output_capturing_hooks_installed"
    unmarked = [module for module in before if mark not in vars(module)]
    try:
        yield
    finally:
        for module, own in before.items():
            for hook in set(module._forward_hooks) - own:
                del module._forward_hooks[hook]
        for module in unmarked:
            vars(module).pop(mark, None)


@contextmanager
def own_attention_type(model: Any) -> Iterator[None]:
    """Restores BigBird's sparse attention, which it gives up permanently after reading a short text."""
    body = model.base_model
    before = getattr(body, "attention_type", None)
    try:
        yield
    finally:
        if before is not None and body.attention_type != before:
            body.set_attention_type(before)


@contextmanager
def scaled_output(model: Any, name: str, factor: Tensor) -> Iterator[None]:
    """Multiplies the output of the embedding layer by `factor`."""
    layer = getattr(model.base_model, "embeddings", None)
    if layer is None:
        raise refuse(name, "embedding layer of its own", 'use at="word"')
    handle = layer.register_forward_hook(lambda _module, _inputs, output: output * factor)
    try:
        yield
    finally:
        handle.remove()
