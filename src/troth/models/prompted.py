"""Any causal language model asked for a class word: the last position's logits of these words are the classes' logits.

Only the text inside the prompt is explained. Keys and values of what stands before the text are computed once and lent
to all erased inputs, which are padded on the right; of the vocabulary only the class words' logits are computed.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import PROMPT, Encoding, Example, Rows
from troth.core.units import Span, UnitKind, join, sentence_spans, word_spans
from troth.models import Output, Segments, check_choices, refuse
from troth.models._changes import unhooked
from troth.models._loading import bring, fingerprint
from troth.models._prefix import Prefixes, lending, shared
from troth.models._prompts import PAIR, SHOTS, TEXT, Filled, Template, Tokens, as_shots, template
from troth.models._sharing import borrowed
from troth.models.encoder import Encoder

MASK_TEXT = " _"
_TRIED = "text"  # stands for any text where the end of the prompt is tokenized


class Prompted(Encoder):
    """A causal language model, its tokenizer and a prompt."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        prompt: str,
        class_words: Sequence[str],
        shots: Iterable[Any] = (),
        chat: bool | None = None,
        labels: Sequence[str] | None = None,
        mask_text: str | None = None,
        explain_shots: bool = False,
        max_length: int | None = None,
    ) -> None:
        if isinstance(class_words, str) or len(set(class_words)) < max(2, len(class_words)):
            raise TrothError(f"class_words must be two different words or more, not {class_words!r}")
        if not getattr(tokenizer, "is_fast", False):
            raise TrothError(f"{type(tokenizer).__name__} gives no character offsets; use this model's fast tokenizer")
        self.class_words = tuple(class_words)
        super().__init__(model, tokenizer, name=name, max_length=max_length, labels=labels)
        self.reads_last = True
        self.prompt = prompt
        has_chat = bool(getattr(tokenizer, "chat_template", None))
        if chat and not has_chat:
            raise TrothError(f"the tokenizer of {name} has no chat template; leave chat out")
        self.chat = has_chat if chat is None else chat
        self.shots = as_shots(shots, self.class_words, self.labels)
        self.explain_shots = explain_shots
        self.template: Template = template(prompt, self.shots, tokenizer if self.chat else None, explain_shots)
        self.class_ids = self._class_ids()
        self.mask_text = mask_text
        self._mask_id, self.masked_by = self._choose_mask()
        self._said = False
        self.shares_prefix = True  # False runs the whole prompt for every row, to measure what sharing saves
        self._prefixes = Prefixes()

    def _labels(self, given: Sequence[str] | None) -> tuple[str, ...]:
        labels = self.class_words if given is None else tuple(given)
        if len(labels) != len(self.class_words):
            raise TrothError(f"{len(self.class_words)} class words, but {len(labels)} labels: {', '.join(labels)}")
        return labels

    @property
    def pads(self) -> bool:
        return True  # padding is on the right, and no token looks to its right

    @property
    def spec(self) -> dict[str, Any]:
        """Options of `load_model` that make this model again, with what was chosen by itself."""
        shots = [{"text": shot.text, "text_pair": shot.text_pair, "label": word} for shot, word in self.shots]
        spec: dict[str, Any] = {"prompt": self.prompt, "class_words": list(self.class_words), "chat": self.chat}
        if self.labels != self.class_words:
            spec["labels"] = list(self.labels)
        if shots:
            spec |= {"shots": shots, "explain_shots": self.explain_shots}
        if self.mask_text is not None:
            spec["mask_text"] = self.mask_text
        return spec

    @cached_property
    def fingerprint(self) -> str:
        about = json.dumps([fingerprint(self.model), self.template.parts, self.class_ids, self._mask_id])
        return hashlib.sha256(about.encode()).hexdigest()[:16]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of a result should know."""
        return (self.masked_by,) if self._said else ()

    @property
    def mask_id(self) -> int:
        if self.masked_by and not self._said:
            self._said = True
            warnings.warn(self.masked_by, UserWarning, stacklevel=2)
        return self._mask_id

    # Texts to tokens

    def encode(
        self, examples: Iterable[Example], units: UnitKind = "word", segments: Segments = "first"
    ) -> list[Encoding]:
        check_choices(units, segments)
        examples = list(examples)
        filled = [self.template.fill(example) for example in examples]
        tokens = self._tokenize([one.text for one in filled])
        return [self._encoding(*one, units, segments) for one in zip(examples, filled, tokens, strict=True)]

    def _tokenize(self, texts: list[str]) -> list[Tokens]:
        if not texts:
            return []
        # A chat template writes its special tokens itself.
        with borrowed(self.tokenizer):
            batch = self.tokenizer(texts, add_special_tokens=not self.chat, verbose=False)
        return [Tokens(encoding) for encoding in batch.encodings]

    def _encoding(
        self, example: Example, filled: Filled, tokens: Tokens, units: UnitKind, segments: Segments
    ) -> Encoding:
        whole, end = tokens, len(example.text)
        if len(tokens) > self.max_length:
            filled, tokens, end = self._shortened(example, tokens, filled)
        of_token = np.full(len(tokens), PROMPT)
        spans: list[Span] = []
        of_unit: list[int] = []
        texts: list[str] = []
        truncated = 0
        for segment in sorted(filled.spans):
            here, pieces = tokens.inside(filled.spans[segment], free=of_token == PROMPT)
            text = filled.text[slice(*filled.spans[segment])]
            if segment == PAIR and segments == "first":
                of_token[here] = -1
                continue
            if segment >= SHOTS:
                found, joined = [(0, len(text))], np.zeros(len(here), dtype=np.int64)
            elif units == "token":
                found, joined = pieces, np.arange(len(here))
                if segment == TEXT and end < len(example.text):
                    truncated = len(whole.inside(self.template.fill(example).spans[TEXT])[0]) - len(here)
            else:
                text = example.text if segment == TEXT else text
                found = word_spans(text) if units == "word" else sentence_spans(text)
                if segment == TEXT and end < len(text):
                    within = [span for span in found if span[0] < end]
                    truncated, found = len(found) - len(within), within
                joined = join(pieces, found)
            of_token[here] = np.where(joined < 0, -1, joined + len(spans))
            spans += found
            of_unit += [segment] * len(found)
            texts += [text[start:stop] for start, stop in found]
        return Encoding(
            example=example,
            ids=torch.tensor(tokens.ids),
            units=torch.from_numpy(of_token),
            unit_texts=tuple(texts),
            unit_spans=tuple(spans),
            unit_segments=tuple(of_unit),
            prefix_length=int((of_token == PROMPT).astype(np.int64).cumprod().sum()),
            truncated=truncated,
            around=self.template.parts,
        )

    def _shortened(self, example: Example, tokens: Tokens, filled: Filled) -> tuple[Filled, Tokens, int]:
        """The prompt around as much of the text's beginning as fits; tokenized anew, so that the prompt stays whole."""
        _, pieces = tokens.inside(filled.spans[TEXT])
        ends = [0, *(stop for _, stop in pieces)]
        for count in range(max(0, len(pieces) - (len(tokens) - self.max_length)), 0, -1):
            shorter = Example(example.id, example.text[: ends[count]], example.text_pair)
            filled = self.template.fill(shorter)
            (tokens,) = self._tokenize([filled.text])
            if len(tokens) <= self.max_length and ends[count]:
                return filled, tokens, ends[count]
        rest = len(self._tokenize([self.template.fill(Example("", "", example.text_pair)).text])[0])
        raise TrothError(
            f"example {example.id}: the prompt takes {rest} of {self.max_length} tokens, so no room is left for the "
            "text; shorten the prompt, use fewer shots or a larger max_length"
        )

    def _class_ids(self) -> tuple[int, ...]:
        """The one token that each class word adds to the prompt, behind a space unless white space is there already."""
        has_pair = any(segment == PAIR for segment, _ in self.template.parts)
        prompt = self.template.fill(Example("", _TRIED, _TRIED if has_pair else None)).text
        spaces = ("", " ") if prompt[-1:].isspace() else (" ", "")
        before = self._tokenize([prompt])[0].ids
        ids: list[int] = []
        for word in self.class_words:
            forms = [tokens.ids for tokens in self._tokenize([f"{prompt}{space}{word}" for space in spaces])]
            added = [form[-1] for form in forms if len(form) == len(before) + 1 and form[:-1] == before]
            if not added:
                pieces = self.tokenizer.convert_ids_to_tokens(forms[0][len(before) :])
                raise TrothError(
                    f"class word {word!r} is not one token of {self.name} ({' '.join(pieces)}); choose a shorter word"
                )
            if added[0] in ids:
                other = self.class_words[ids.index(added[0])]
                raise TrothError(f"class words {other!r} and {word!r} begin with the same token; choose other words")
            ids.append(added[0])
        return tuple(ids)

    def _choose_mask(self) -> tuple[int, str]:
        """What erased words become, and how that is told where it is no mask token."""
        tokenizer = self.tokenizer
        if self.mask_text is None and tokenizer.mask_token_id is not None:
            return int(tokenizer.mask_token_id), ""
        unknown = tokenizer.unk_token_id
        ends = (tokenizer.bos_token_id, tokenizer.eos_token_id)
        counts = unknown is not None and unknown not in ends and "endoftext" not in tokenizer.unk_token
        if self.mask_text is None and counts:
            return int(unknown), f"{self.name} has no mask token: erased words become {tokenizer.unk_token}"
        chosen = self.mask_text
        self.mask_text = MASK_TEXT if chosen is None else chosen
        # Some tokenizers write the space before a word by themselves.
        for form in (self.mask_text, self.mask_text.removeprefix(" ")):
            with borrowed(tokenizer):
                ids = tokenizer(form, add_special_tokens=False)["input_ids"]
            if len(ids) == 1:
                why = "has no mask token" if chosen is None else "is given mask_text"
                return int(ids[0]), f"{self.name} {why}: erased words become {self.mask_text!r}"
        pieces = " ".join(tokenizer.convert_ids_to_tokens(ids))
        raise TrothError(f"mask_text {self.mask_text!r} is not one token of {self.name} ({pieces}); choose another")

    # Tokens to logits

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if rows.output_factor is not None:
            raise refuse(self.name, "embedding layer of its own", 'use at="word"')
        with self.at_rest(attentions=attentions), unhooked(self.model) if attentions or hidden else nullcontext():
            begun = 0 if attentions or hidden else self._begun(rows)
            lent = self._prefixes.of(self._body, rows.ids[0, :begun]) if begun else None
            begun = begun if lent is not None else 0
            inputs = self._inputs(rows, begun)
            inputs |= {"output_attentions": attentions, "output_hidden_states": hidden}
            everyone, last = torch.arange(len(rows), device=rows.ids.device), rows.lengths - 1 - begun
            plain = self._has_plain_head
            with lending(self.model.config, lent) as options:
                output = (self._body if plain else self.model)(**inputs, **options)
            if plain:
                logits = self._head(output.last_hidden_state[everyone, last])
            else:
                logits = output.logits[everyone, last][:, list(self.class_ids)]
        if attentions and (not output.attentions or output.attentions[-1] is None):
            raise refuse(self.name, "attention weights to read", "use gradient or leave_one_out")
        return Output(logits, tuple(output.attentions or ()), tuple(output.hidden_states or ()))

    def bytes_per_row(self, length: int, *, backward: bool, attentions: bool) -> int:
        own = length if attentions else max(1, length - self._usual_prefix)
        # Paths, which have many rows, share the prompt; a plain gradient, one row an example, runs it whole.
        own = max(own, length // 4) if backward else own
        lent = 16 * (length - own) * int(self.model.config.hidden_size)
        return super().bytes_per_row(own, backward=backward, attentions=attentions) + lent

    @cached_property
    def _usual_prefix(self) -> int:
        """How many tokens stand before the text, roughly."""
        words = self.template.parts[0][1] if self.template.parts[0][0] is None else ""
        return max(0, len(self._tokenize([words])[0]) - 1)

    @property
    def _body(self) -> Any:
        return self.model.base_model

    def _begun(self, rows: Rows) -> int:
        """How many tokens of the prompt need not be run again."""
        window = getattr(self.model.config, "sliding_window", None)
        if not self.shares_prefix or (window is not None and window < rows.ids.shape[1]):
            return 0
        vectors = rows.embeddings
        if vectors is None:
            return shared(rows.ids, rows.units < 0, rows.lengths)
        if torch.is_grad_enabled() and vectors.requires_grad and not rows.prompt_is_fixed:
            return 0
        return shared(rows.ids, rows.units == PROMPT, rows.lengths)

    def _inputs(self, rows: Rows, begun: int) -> dict[str, Any]:
        width = rows.ids.shape[1]
        places = torch.arange(begun, width, device=rows.ids.device)
        inputs: dict[str, Any] = {"position_ids": places.expand(len(rows), -1)}
        if rows.embeddings is None:
            inputs["input_ids"] = rows.ids[:, begun:]
        else:
            inputs["inputs_embeds"] = rows.embeddings[:, begun:]
        # What comes later is never seen, so padding on the right needs no mask.
        inputs["attention_mask"] = None if rows.attention is None else self._additive_mask(rows, places)
        return inputs

    def _additive_mask(self, rows: Rows, places: Tensor) -> Tensor:
        """[rows, 1, queries, length] what is added to the attention logits: the rows' own, and next to −∞ for later."""
        window = getattr(self.model.config, "sliding_window", None)
        if self._implementation not in ("eager", "sdpa") or (window is not None and window < rows.ids.shape[1]):
            raise TrothError(f"{self.name} takes no additive attention mask; use masking zero, soft or delete")
        assert rows.attention is not None
        lowest = torch.finfo(self.dtype).min
        bias = rows.attention.to(self.dtype).clamp(min=lowest / 2)[:, None, None, :]
        later = torch.arange(rows.ids.shape[1], device=places.device) > places[:, None]
        # Below even what nobody attends to: a first token that is erased must not look ahead.
        return bias.expand(-1, 1, len(places), -1).masked_fill(later, lowest)

    def _head(self, states: Tensor) -> Tensor:
        """[rows, hidden] -> [rows, classes]"""
        head = self.model.get_output_embeddings()
        chosen = torch.tensor(self.class_ids, device=head.weight.device)
        bias = getattr(head, "bias", None)
        weight, single = head.weight[chosen], torch.promote_types(states.dtype, torch.float32)
        return torch.nn.functional.linear(
            states.to(single), weight.to(single), None if bias is None else bias[chosen].to(single)
        )

    @cached_property
    def _has_plain_head(self) -> bool:
        """Whether logits are nothing but the head's product: some families scale or cap them."""
        head = self.model.get_output_embeddings()
        if head is None or not hasattr(self._body, "forward") or self._body is self.model:
            return False
        ids = torch.tensor([list(self.class_ids)], device=self.device)
        with torch.no_grad():
            whole = self.model(input_ids=ids, use_cache=False).logits[0, -1, list(self.class_ids)]
            found = self._head(self._body(input_ids=ids, use_cache=False).last_hidden_state[:, -1])[0]
        return torch.allclose(whole.to(found.dtype), found, rtol=2e-2, atol=2e-2 * float(found.abs().max()))


def load(
    model: Any,
    tokenizer: Any = None,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    **options: Any,
) -> Prompted:
    """A causal language model from a folder, a hub name, an adapter, a GGUF file or memory, and how it is asked."""
    model, tokenizer, name = bring(model, tokenizer, "causal language model", device=device, dtype=dtype)
    return Prompted(model, tokenizer, name=name, **options)
