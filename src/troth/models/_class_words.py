"""The tokens that each class word is, all of them as one tree, and the token that erased words become."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.models._changes import borrowed

_MASK_TEXT = " _"


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


def choose_mask(name: str, tokenizer: Any, mask_text: str | None) -> tuple[int, str | None, str]:
    """What stands for an erased word: the user's text, else the mask token, else a real <unk>, else an underscore.

    Its id, its text (None: a token of the tokenizer's own), and a note where it is not a mask token.
    """
    if mask_text is None and tokenizer.mask_token_id is not None:
        return int(tokenizer.mask_token_id), None, ""
    unknown = tokenizer.unk_token_id
    ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
    is_real = unknown is not None and unknown not in ends and "endoftext" not in tokenizer.unk_token
    if mask_text is None and is_real:
        return int(unknown), None, f"{name} has no mask token: erased words become {tokenizer.unk_token}"
    text = _MASK_TEXT if mask_text is None else mask_text
    # Some tokenizers write the space before a word by themselves.
    for form in (text, text.removeprefix(" ")):
        with borrowed(tokenizer):
            ids = tokenizer(form, add_special_tokens=False)["input_ids"]
        if len(ids) == 1:
            why = "has no mask token" if mask_text is None else "is given mask_text"
            return int(ids[0]), text, f"{name} {why}: erased words become {text!r}"
    pieces = " ".join(tokenizer.convert_ids_to_tokens(ids))
    raise TrothError(f"mask_text {text!r} is not one token of {name} ({pieces}); choose another")


@dataclass(frozen=True)
class Tree:
    """The tokens of the words; only those that another one follows are run."""

    words: tuple[tuple[int, ...], ...]

    @cached_property
    def nodes(self) -> tuple[tuple[int, ...], ...]:
        """What is run: each beginning that a word continues, shorter ones first."""
        beginnings = {word[:end]: None for word in self.words for end in range(1, len(word))}
        return tuple(sorted(beginnings, key=len))

    @property
    def ids(self) -> list[int]:
        """The last token of every node: they stand behind the prompt in this order."""
        return [node[-1] for node in self.nodes]

    @cached_property
    def branches(self) -> bool:
        """Whether there is more than one way through it."""
        return any(self.nodes[place][:-1] != (self.nodes[place - 1] if place else ()) for place in range(len(self)))

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def depths(self) -> Tensor:
        """[nodes] how far behind the prompt's last token each stands."""
        return torch.tensor([len(node) for node in self.nodes], dtype=torch.int64)

    @cached_property
    def sees(self) -> Tensor:
        """[nodes, nodes] True where a node (the first) sees another: itself and those before it on its way."""
        rows = [[node[: len(other)] == other for other in self.nodes] for node in self.nodes]
        return torch.tensor(rows, dtype=torch.bool).reshape(len(self), len(self))

    @cached_property
    def questions(self) -> tuple[tuple[int, int], ...]:
        """(the node it is asked at, the token asked for), each once; node −1 is the prompt's last token."""
        return tuple(dict.fromkeys(question for word in self.words for question in self._asked(word)))

    @cached_property
    def shares(self) -> Tensor:
        """[questions, words] 1 where a word's log-probability is made of the question's."""
        places = {question: place for place, question in enumerate(self.questions)}
        shares = torch.zeros(len(places), len(self.words))
        for number, word in enumerate(self.words):
            shares[[places[question] for question in self._asked(word)], number] = 1
        return shares

    def positions(self, lengths: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Where tokens stand for the network, given their row and place: nodes side by side share a position."""
        if not self.branches:
            return places
        node = places - (lengths[rows] - len(self))
        depths = self.depths.to(places.device)[node.clamp(min=0, max=len(self) - 1)]  # behind them is padding
        return torch.where(node < 0, places, lengths[rows] - len(self) - 1 + depths)

    def visible(self, lengths: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        """[queries, keys] False where both are nodes, and the key's is not on the query's way.

        Of rows of these lengths ([queries]); places of queries [queries] and keys [keys].
        """
        start = lengths[:, None] - len(self)
        of_query, of_key = queries[:, None] - start, keys - start
        sees = self.sees.to(queries.device)[of_query.clamp(0, len(self) - 1), of_key.clamp(0, len(self) - 1)]
        return (of_query < 0) | (of_key < 0) | sees

    def way(self, word: Sequence[int]) -> list[int]:
        """The nodes that are run for one word alone."""
        return [self.nodes.index(tuple(word[:end])) for end in range(1, len(word))]

    def _asked(self, word: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        for place, token in enumerate(word):
            yield (self.nodes.index(word[:place]) if place else -1), token
