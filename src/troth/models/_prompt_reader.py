"""How a causal language model reads a text: inside a prompt, with the answer behind it; neither is ever erased."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from troth.core.errors import TrothError
from troth.core.types import PROMPT, Encoding, Example
from troth.core.units import UnitKind
from troth.models import families
from troth.models._changes import borrowed
from troth.models._class_words import Tree, choose_mask
from troth.models._encoding import require_fast
from troth.models._loading import CAUSAL
from troth.models._prompts import PAIR, SHOTS, TEXT, Filled, Template, Tokens
from troth.models._units import Units
from troth.models.base import Segments, check_choices
from troth.models.encoder import Encoder

_WORTH_SHARING = 500_000_000  # parameters


class PromptReader(Encoder):
    """A causal language model, its tokenizer and a prompt; a kind says what follows the prompt."""

    network = CAUSAL
    reads_last = True
    pads = True  # padding is on the right, and no token looks to its right
    template: Template
    tree = Tree(())  # what stands behind the prompt, where that branches
    answer_length = 0  # how many tokens may stand behind the prompt

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
        from troth.models._prefix import KeptStates  # imports transformers, which other kinds do without

        require_fast(tokenizer)
        both_ways = families.reads_both_ways(model.config) and not families.writes(model.config)
        if model.get_output_embeddings() is None or both_ways:
            raise TrothError(
                f"{name} ({type(model).__name__}) does not write: pass a causal language model "
                "(AutoModelForCausalLM), or leave the prompt out"
            )
        super().__init__(model, tokenizer, name=name, max_length=max_length, labels=labels)
        self.prompt = prompt
        has_chat = bool(getattr(tokenizer, "chat_template", None))
        if chat and not has_chat:
            raise TrothError(f"the tokenizer of {name} has no chat template; leave chat out")
        self.chat = has_chat if chat is None else chat
        self._mask_id, self.mask_text, self.masked_by = choose_mask(name, tokenizer, mask_text)
        # False runs the whole prompt for every row. A GPU does that sooner than what sharing takes beside it, where the
        # model is small (measured on 135 million parameters).
        small = self.device.type == "cuda" and model.num_parameters() < _WORTH_SHARING
        self.shares_prefix = not small
        self._prefixes, self._trunks = KeptStates(), KeptStates()

    @property
    def mask_id(self) -> int:
        return self._mask_id

    @property
    def begin_id(self) -> int:
        """What a text begins with that has nothing else to begin with."""
        ends = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, self.filler_id)
        return next(int(number) for number in ends if number is not None)

    # What a kind says

    @abstractmethod
    def follows(self, ids: list[int]) -> tuple[list[int], tuple[tuple[int, str], ...]]:
        """What stands behind these tokens of a prompt, and what the model wrote (or is asked about), with its texts."""

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
        # A chat template writes its special tokens itself.
        with borrowed(self.tokenizer):
            batch = self.tokenizer(texts, add_special_tokens=not self.chat, verbose=False)
        return [Tokens(encoding) for encoding in batch.encodings]

    def ids_of(self, text: str) -> list[int]:
        """The tokens of a filled prompt."""
        return self._tokenize([text])[0].ids

    @property
    def any_text(self) -> str:
        """The prompt around some text."""
        return self.template.fill(Example("", "text", "text" if self.template.has_pair else None)).text

    @property
    def _room(self) -> int:
        """How many tokens a filled prompt may take."""
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
                assembled.add(segment, filled.text[start:stop], here, pieces, whole=segment >= SHOTS)
        return assembled.encoding(
            example,
            ids=torch.tensor([*tokens.ids, *behind]),
            prefix_length=int((assembled.of_token == PROMPT).astype(np.int64).cumprod().sum()),
            around=self.template.parts,
            written=written,
        )

    def _shortened(self, example: Example, tokens: Tokens, filled: Filled) -> tuple[Filled, Tokens, int]:
        """The prompt around as much of the text as fits, from its start; tokenized again, so the prompt stays whole."""
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
