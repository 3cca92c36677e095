"""Words that may follow a prompt, as one tree: what they begin with alike is run once, after the prompt, in one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


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
