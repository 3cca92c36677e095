"""The tokens that each class word is, and the one that erased words become."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from troth.core.errors import TrothError
from troth.models._sharing import borrowed

_MASK_TEXT = " _"


class Mask(NamedTuple):
    """What stands for an erased word."""

    id: int
    text: str | None  # None: a token of the tokenizer's own
    note: str  # says so where that is not a mask token


def class_tokens(
    name: str, ids_of: Callable[[str], list[int]], prompt: str, words: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """The tokens that each word adds to a filled prompt, after a space unless there is white space already.

    Where one of the two forms is a single token, that form is taken.
    """
    spaces = ("", " ") if prompt[-1:].isspace() else (" ", "")
    before = ids_of(prompt)
    tokens: list[tuple[int, ...]] = []
    for word in words:
        forms = [ids_of(f"{prompt}{space}{word}") for space in spaces]
        added = [
            tuple(form[len(before) :]) for form in forms if form[: len(before)] == before and len(form) > len(before)
        ]
        if not added:
            raise TrothError(
                f"class word {word!r} changes how {name} reads the end of the prompt; end the prompt with another word"
            )
        tokens.append(min(added, key=lambda ids: len(ids) > 1))
        if tokens[-1] in tokens[:-1]:
            other = words[tokens.index(tokens[-1])]
            raise TrothError(f"class words {other!r} and {word!r} are the same tokens; choose other words")
    return tuple(tokens)


def choose_mask(name: str, tokenizer: Any, mask_text: str | None) -> Mask:
    """The user's text, else the mask token, else a real <unk>, else an underscore."""
    if mask_text is None and tokenizer.mask_token_id is not None:
        return Mask(int(tokenizer.mask_token_id), None, "")
    unknown = tokenizer.unk_token_id
    ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
    is_real = unknown is not None and unknown not in ends and "endoftext" not in tokenizer.unk_token
    if mask_text is None and is_real:
        return Mask(int(unknown), None, f"{name} has no mask token: erased words become {tokenizer.unk_token}")
    text = _MASK_TEXT if mask_text is None else mask_text
    # Some tokenizers write the space before a word by themselves.
    for form in (text, text.removeprefix(" ")):
        with borrowed(tokenizer):
            ids = tokenizer(form, add_special_tokens=False)["input_ids"]
        if len(ids) == 1:
            why = "has no mask token" if mask_text is None else "is given mask_text"
            return Mask(int(ids[0]), text, f"{name} {why}: erased words become {text!r}")
    pieces = " ".join(tokenizer.convert_ids_to_tokens(ids))
    raise TrothError(f"mask_text {text!r} is not one token of {name} ({pieces}); choose another")
