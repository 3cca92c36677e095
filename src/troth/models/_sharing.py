"""Models and tokenizers belong to the user and are shared, by wrappers and by threads: whoever changes one holds its
lock and puts everything back.
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from troth.core.user_calls import calling

_LOCKS: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_GUARD = threading.Lock()


def lock_of(shared: Any) -> threading.RLock:
    """The one lock of a model or tokenizer; two classifiers on one encoder have one lock."""
    owner = getattr(shared, "base_model", shared)
    with _GUARD:
        return _LOCKS.setdefault(owner, threading.RLock())


@contextmanager
def borrowed(tokenizer: Any, given: str = "") -> Iterator[None]:
    """The tokenizer to oneself; a call without truncation and padding takes those settings off for good.

    It may be the user's, and a library's may panic: what is called inside is called as user code is.
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
