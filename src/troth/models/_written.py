"""Greedy generation by a language model, and the text of each generated token."""

from collections.abc import Callable, Container, Sequence
from typing import Any

import torch
from torch import Tensor


def greedily(read: Callable[[Tensor, Any], Any], begun: Tensor, most: int, ends: Container[int | None]) -> list[int]:
    """Generates the most probable token at each step, at most `most` tokens, or until one that ends the text.

    `read` is called with the tokens that the model has not read yet and its cache for all others.
    """
    written: list[int] = []
    memory, every, step = None, begun, begun
    while len(written) < most:
        output = read(step, memory)
        token = int(output.logits[0, -1].argmax())
        if token in ends:
            break
        written.append(token)
        memory, last = getattr(output, "past_key_values", None), step.new_tensor([[token]])
        every = torch.cat([every, last], dim=1)
        step = every if memory is None else last
    return written


def texts_of(tokenizer: Any, before: Sequence[int], ids: Sequence[int]) -> list[str]:
    """The text that each token adds after `before`; a character made of several tokens belongs to the last of them."""

    def text_of(some: Sequence[int]) -> str:
        return str(tokenizer.decode(list(some), clean_up_tokenization_spaces=False))

    texts, shown = [], len(text_of(before))
    for end in range(1, len(ids) + 1):
        text = text_of([*before, *ids[:end]])
        whole = not text.endswith("\ufffd") or end == len(ids)
        texts.append(text[shown:] if whole else "")
        shown = len(text) if whole else shown
    return texts
