"""How a causal language model reads a text: inside a prompt and followed by the answer; neither is ever erased.

The tokens of class words follow the prompt as a single tree.
"""

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import PROMPT, Encoding, Example
from troth.core.units import UnitKind
from troth.models import families
from troth.models._changes import borrowed
from troth.models._encoding import Units, require_fast
from troth.models._loading import CAUSAL
from troth.models._prompts import PAIR, SHOTS, TEXT, Filled, Template, Tokens
from troth.models.base import Segments, check_choices
from troth.models.encoder import Encoder

_WORTH_SHARING = 500_000_000  # minimum number of parameters on a GPU
_MASK_TEXT = " _"


@dataclass(frozen=True)
class Tree:
    """A prefix tree of the words' tokens; the network only reads tokens that another token follows."""

    words: tuple[tuple[int, ...], ...]

    @cached_property
    def nodes(self) -> tuple[tuple[int, ...], ...]:
        """The nodes: all proper prefixes of the words, shorter ones first."""
        beginnings = {word[:end]: None for word in self.words for end in range(1, len(word))}
        return tuple(sorted(beginnings, key=len))

    @property
    def ids(self) -> list[int]:
        """The last token of every node, in the order in which they follow the prompt."""
        return [node[-1] for node in self.nodes]

    @cached_property
    def branches(self) -> bool:
        """Whether the tree has more than one path."""
        return any(self.nodes[place][:-1] != (self.nodes[place - 1] if place else ()) for place in range(len(self)))

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def depths(self) -> Tensor:
        """[nodes] The distance of each node from the prompt's last token."""
        return torch.tensor([len(node) for node in self.nodes], dtype=torch.int64)

    @cached_property
    def sees(self) -> Tensor:
        """[nodes, nodes] Whether a node (row) attends to another (column): itself and its ancestors."""
        rows = [[node[: len(other)] == other for other in self.nodes] for node in self.nodes]
        return torch.tensor(rows, dtype=torch.bool).reshape(len(self), len(self))

    @cached_property
    def questions(self) -> tuple[tuple[int, int], ...]:
        """Distinct pairs (node that predicts, predicted token); node −1 is the prompt's last token."""
        return tuple(dict.fromkeys(question for word in self.words for question in self._asked(word)))

    @cached_property
    def shares(self) -> Tensor:
        """[questions, words] 1 if a word's log-probability includes that of the question, else 0."""
        places = {question: place for place, question in enumerate(self.questions)}
        shares = torch.zeros(len(places), len(self.words))
        for number, word in enumerate(self.words):
            shares[[places[question] for question in self._asked(word)], number] = 1
        return shares

    def positions(self, lengths: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """The position ids of tokens, given their row and index; nodes of the same depth share a position."""
        if not self.branches:
            return places
        node = places - (lengths[rows] - len(self))
        # Clamped, because padding follows the nodes.
        depths = self.depths.to(places.device)[node.clamp(min=0, max=len(self) - 1)]
        return torch.where(node < 0, places, lengths[rows] - len(self) - 1 + depths)

    def visible(self, lengths: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        """[queries, keys] False if both are nodes and the key is not an ancestor of the query.

        `lengths` ([queries]) are those of the queries' rows; `queries` and `keys` are token indices.
        """
        start = lengths[:, None] - len(self)
        of_query, of_key = queries[:, None] - start, keys - start
        sees = self.sees.to(queries.device)[of_query.clamp(0, len(self) - 1), of_key.clamp(0, len(self) - 1)]
        return (of_query < 0) | (of_key < 0) | sees

    def way(self, word: Sequence[int]) -> list[int]:
        """The nodes that are needed for one word alone."""
        return [self.nodes.index(tuple(word[:end])) for end in range(1, len(word))]

    def _asked(self, word: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        for place, token in enumerate(word):
            yield (self.nodes.index(word[:place]) if place else -1), token


class PromptReader(Encoder):
    """A causal language model, its tokenizer and a prompt; a subclass defines what follows the prompt."""

    network = CAUSAL
    reads_last = True
    pads = True  # padding is on the right, and tokens do not attend to the right
    template: Template
    tree = Tree(())  # the nodes that follow the prompt
    answer_length = 0  # maximum number of tokens that follow the prompt

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        prompt: str,
        chat: bool | None = None,
        labels: Iterable[str] | None = None,
        mask_text: str | None = None,
        max_length: int | None = None,
    ) -> None:
        from troth.models._prefix import KeptStates  # imports transformers, which other kinds of models do not need

        require_fast(tokenizer)
        both_ways = families.reads_both_ways(model.config) and not families.writes(model.config)
        if model.get_output_embeddings() is None or both_ways:
            raise TrothError(
                f"{name} ({type(model).__name__}) does not generate text: pass a causal language model "
                "(AutoModelForCausalLM), or leave the prompt out"
            )
        super().__init__(model, tokenizer, name=name, max_length=max_length, labels=labels)
        self.prompt = prompt
        has_chat = bool(getattr(tokenizer, "chat_template", None))
        if chat and not has_chat:
            raise TrothError(f"the tokenizer of {name} has no chat template; leave chat out")
        self.chat = has_chat if chat is None else chat
        self._mask_id, self.mask_text, self.masked_by = choose_mask(name, tokenizer, mask_text)
        # False computes the whole prompt for every row. For a small model on a GPU, that is faster than sharing with
        # its overhead (measured with 135 million parameters).
        small = self.device.type == "cuda" and model.num_parameters() < _WORTH_SHARING
        self.shares_prefix = not small
        self._prefixes, self._trunks = KeptStates(), KeptStates()

    @property
    def mask_id(self) -> int:
        return self._mask_id

    @property
    def begin_id(self) -> int:
        """The token that an otherwise empty text begins with."""
        ends = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, self.filler_id)
        return next(int(number) for number in ends if number is not None)

    # Implemented by subclasses

    @abstractmethod
    def follows(self, ids: list[int]) -> tuple[list[int], tuple[tuple[int, str], ...]]:
        """The tokens after these tokens of a prompt, and the written (or given) answer as pairs (token id, text)."""

    # Texts to tokens

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        check_choices(units, segments)
        examples = list(examples)
        prompts = [self.template.fill(example) for example in examples]
        tokens = self._tokenize([filled.text for filled in prompts])
        return [self._encoding(*parts, units, segments) for parts in zip(examples, prompts, tokens, strict=True)]

    def _tokenize(self, texts: list[str]) -> list[Tokens]:
        if not texts:
            return []
        # A chat template contains the special tokens.
        with borrowed(self.tokenizer):
            batch = self.tokenizer(texts, add_special_tokens=not self.chat, verbose=False)
        return [Tokens(encoding) for encoding in batch.encodings]

    def ids_of(self, text: str) -> list[int]:
        """The token ids of a filled prompt."""
        return self._tokenize([text])[0].ids

    @property
    def any_text(self) -> str:
        """The prompt filled with a sample text."""
        return self.template.fill(Example("", "text", "text" if self.template.has_pair else None)).text

    @property
    def _room(self) -> int:
        """The maximum number of tokens of a filled prompt."""
        return self.max_length - self.answer_length

    def _encoding(
        self, example: Example, filled: Filled, tokens: Tokens, units: UnitKind, segments: Segments
    ) -> Encoding:
        end, lost = None, 0
        if len(tokens) > self._room:
            before = len(tokens.inside(filled.spans[TEXT])[0])
            filled, tokens, end = self._shortened(example, tokens, filled)
            lost = before - len(tokens.inside(filled.spans[TEXT])[0])
        behind, written = self.follows(tokens.ids)
        assembled = Units(units, len(tokens) + len(behind), outside=PROMPT)
        for segment, (start, stop) in sorted(filled.spans.items()):
            here, pieces = tokens.inside((start, stop), free=assembled.of_token[: len(tokens)] == PROMPT)
            if segment in self.template.frozen:
                continue
            if segment == PAIR and segments == "first" and not self.template.explains_pair:
                assembled.of_token[here] = -1
            elif segment == TEXT:
                assembled.add(segment, example.text, here, pieces, end=end, lost_tokens=lost)
            else:
                whole = segment >= SHOTS and segment not in self.template.divided
                assembled.add(segment, filled.text[start:stop], here, pieces, whole=whole)
        around = self.template.parts
        if self.template.written is not None:  # except for the last token, which nothing follows
            ends = np.cumsum([0, *(len(text) for _, text in written[:-1])]).tolist()
            earlier = "".join(text for _, text in written[:-1])
            behind_tokens = len(tokens) + np.arange(len(behind))
            assembled.add(self.template.written, earlier, behind_tokens, list(itertools.pairwise(ends)))
            around = (*around, (self.template.written, earlier))
        return assembled.encoding(
            example,
            ids=torch.tensor([*tokens.ids, *behind]),
            prefix_length=int((assembled.of_token == PROMPT).astype(np.int64).cumprod().sum()),
            around=around,
            written=written,
        )

    def _shortened(self, example: Example, tokens: Tokens, filled: Filled) -> tuple[Filled, Tokens, int]:
        """Fills the prompt with as much of the start of the text as fits; tokenizes again to keep the prompt whole."""
        _, pieces = tokens.inside(filled.spans[TEXT])
        ends = [0, *(stop for _, stop in pieces)]
        for count in range(max(0, len(pieces) - (len(tokens) - self._room)), 0, -1):
            shorter = Example(example.id, example.text[: ends[count]], example.text_pair)
            filled = self.template.fill(shorter)
            (tokens,) = self._tokenize([filled.text])
            if len(tokens) <= self._room and ends[count]:
                return filled, tokens, ends[count]
        rest = len(self._tokenize([self.template.fill(Example("", "", example.text_pair)).text])[0])
        answer = f" and the answer {self.answer_length}" if self.answer_length else ""
        raise TrothError(
            f"example {example.id}: the prompt takes {rest}{answer} of {self.max_length} tokens, so no room is left "
            "for the text; shorten the prompt, use fewer shots or a larger max_length"
        )


def choose_mask(name: str, tokenizer: Any, mask_text: str | None) -> tuple[int, str | None, str]:
    """Chooses what replaces erased words: the user's text, else the mask token, else a real <unk>, else an underscore.

    Returns its id, its text (None for a special token of the tokenizer), and a note if it is not a mask token.
    """
    if mask_text is None and tokenizer.mask_token_id is not None:
        return int(tokenizer.mask_token_id), None, ""
    unknown = tokenizer.unk_token_id
    ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
    is_real = unknown is not None and unknown not in ends and "endoftext" not in tokenizer.unk_token
    if mask_text is None and is_real:
        return int(unknown), None, f"{name} has no mask token: erased words become {tokenizer.unk_token}"
    text = _MASK_TEXT if mask_text is None else mask_text
    # Some tokenizers add the space before a word themselves.
    for form in (text, text.removeprefix(" ")):
        with borrowed(tokenizer):
            ids = tokenizer(form, add_special_tokens=False)["input_ids"]
        if len(ids) == 1:
            why = "has no mask token" if mask_text is None else "is given mask_text"
            return int(ids[0]), text, f"{name} {why}: erased words become {text!r}"
    pieces = " ".join(tokenizer.convert_ids_to_tokens(ids))
    raise TrothError(f"mask_text {text!r} is not one token of {name} ({pieces}); choose another")
