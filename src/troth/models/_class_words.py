"""The one token that each class word is, and the one that erased words become."""

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


def class_ids(
    name: str, tokenizer: Any, ids_of: Callable[[str], list[int]], prompt: str, words: Sequence[str]
) -> tuple[int, ...]:
    """The token that each word adds to a filled prompt, after a space unless there is white space already."""
    spaces = ("", " ") if prompt[-1:].isspace() else (" ", "")
    before = ids_of(prompt)
    ids: list[int] = []
    for word in words:
        forms = [ids_of(f"{prompt}{space}{word}") for space in spaces]
        added = [form[-1] for form in forms if len(form) == len(before) + 1 and form[:-1] == before]
        if not added:
            pieces = tokenizer.convert_ids_to_tokens(forms[0][len(before) :])
            raise TrothError(
                f"class word {word!r} is not one token of {name} ({' '.join(pieces)}); choose a shorter word"
            )
        if added[0] in ids:
            other = words[ids.index(added[0])]
            raise TrothError(f"class words {other!r} and {word!r} begin with the same token; choose other words")
        ids.append(added[0])
    return tuple(ids)


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
