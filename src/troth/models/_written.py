"""What a language model wrote: the text of each of its tokens."""

from collections.abc import Sequence
from typing import Any


def texts_of(tokenizer: Any, before: Sequence[int], ids: Sequence[int]) -> list[str]:
    """What each token adds to the text behind `before`; of a character of several tokens the last has it."""

    def text_of(some: Sequence[int]) -> str:
        return str(tokenizer.decode(list(some), clean_up_tokenization_spaces=False))

    texts, shown = [], len(text_of(before))
    for end in range(1, len(ids) + 1):
        text = text_of([*before, *ids[:end]])
        whole = not text.endswith("\ufffd") or end == len(ids)
        texts.append(text[shown:] if whole else "")
        shown = len(text) if whole else shown
    return texts
