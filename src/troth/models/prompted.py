"""Any causal language model asked for a class word: the last position's logits of these words are the classes' logits.

Only the text inside the prompt is explained. Keys and values of what stands before the text are computed once and lent
to all erased inputs, which are padded on the right; of the vocabulary only the class words' logits are computed.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import PROMPT, Encoding, Example, Rows
from troth.core.units import UnitKind
from troth.models._changes import unhooked
from troth.models._class_words import choose_mask, class_ids
from troth.models._encoding import require_fast
from troth.models._endpoint import is_url
from troth.models._loading import CAUSAL, fingerprint
from troth.models._prompts import PAIR, SHOTS, TEXT, Filled, Template, Tokens, as_shots, require_words, template
from troth.models._sharing import borrowed
from troth.models._units import Units
from troth.models.base import Output, Segments, TextClassifier, check_choices, refuse
from troth.models.encoder import Encoder


class Prompted(Encoder):
    """A causal language model, its tokenizer and a prompt."""

    kind = "a prompted language model"
    loaded_with = 'prompt="… {text} …"'
    options = ("prompt", "class_words", "shots", "chat", "mask_text", "explain_shots", "system", "explain_parts")
    network = CAUSAL
    reads_last = True
    pads = True  # padding is on the right, and no token looks to its right

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        prompt: str,
        class_words: Sequence[str] = (),
        shots: Iterable[Any] = (),
        chat: bool | None = None,
        labels: Iterable[str] | None = None,
        mask_text: str | None = None,
        explain_shots: bool = False,
        system: str | None = None,
        explain_parts: Sequence[str] | None = None,
        max_length: int | None = None,
    ) -> None:
        from troth.models._prefix import Prefixes  # imports transformers, which other kinds do without

        _require_question(prompt, class_words)
        require_fast(tokenizer)
        self.class_words = tuple(class_words)
        super().__init__(model, tokenizer, name=name, max_length=max_length, labels=labels)
        self.prompt = prompt
        has_chat = bool(getattr(tokenizer, "chat_template", None))
        if chat and not has_chat:
            raise TrothError(f"the tokenizer of {name} has no chat template; leave chat out")
        self.chat = has_chat if chat is None else chat
        self.shots = as_shots(shots, self.class_words, self.labels)
        self.explain_shots = explain_shots
        self.system, self.explain_parts = system, explain_parts
        self.template: Template = template(
            prompt, self.shots, tokenizer if self.chat else None, explain_shots,
            system=system, explain_parts=explain_parts,
        )  # fmt: skip
        any_text = self.template.fill(Example("", "text", "text" if self.template.has_pair else None)).text
        self.class_ids = class_ids(
            name, tokenizer, lambda text: self._tokenize([text])[0].ids, any_text, self.class_words
        )
        self._mask_id, self.mask_text, self.masked_by = choose_mask(name, tokenizer, mask_text)
        self.shares_prefix = True  # False runs the whole prompt for every row, to measure what sharing saves
        self._prefixes = Prefixes()

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        return "prompt" in options and not is_url(source)

    @classmethod
    def load(cls, source: Any, **options: Any) -> TextClassifier:
        _require_question(options["prompt"], options.get("class_words", ()))  # before the model is loaded
        return super().load(source, **options)

    def class_names(self, labels: tuple[str, ...] | None) -> tuple[str, ...]:
        labels = self.class_words if labels is None else labels
        if len(labels) != len(self.class_words):
            raise TrothError(f"{len(self.class_words)} class words, but {len(labels)} labels: {', '.join(labels)}")
        return labels

    @property
    def spec(self) -> dict[str, Any]:
        shots = [{"text": shot.text, "text_pair": shot.text_pair, "label": word} for shot, word in self.shots]
        spec: dict[str, Any] = {"prompt": self.prompt, "class_words": list(self.class_words), "chat": self.chat}
        if self.labels != self.class_words:
            spec["labels"] = list(self.labels)
        if shots:
            spec |= {"shots": shots, "explain_shots": self.explain_shots}
        if self.mask_text is not None:
            spec["mask_text"] = self.mask_text
        if self.system is not None:
            spec["system"] = self.system
        if self.explain_parts is not None:
            spec["explain_parts"] = list(self.explain_parts)
        return spec

    @cached_property
    def fingerprint(self) -> str:
        frozen = [sorted(self.template.frozen)] if self.explain_parts is not None else []
        about = json.dumps([fingerprint(self.model), self.template.parts, self.class_ids, self._mask_id, *frozen])
        return hashlib.sha256(about.encode()).hexdigest()[:16]

    @property
    def mask_id(self) -> int:
        return self._mask_id

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

    def _encoding(
        self, example: Example, filled: Filled, tokens: Tokens, units: UnitKind, segments: Segments
    ) -> Encoding:
        end, lost = None, 0
        if len(tokens) > self.max_length:
            before = len(tokens.inside(filled.spans[TEXT])[0])
            filled, tokens, end = self._shortened(example, tokens, filled)
            lost = before - len(tokens.inside(filled.spans[TEXT])[0])
        assembled = Units(units, len(tokens), outside=PROMPT)
        for segment, (start, stop) in sorted(filled.spans.items()):
            here, pieces = tokens.inside((start, stop), free=assembled.of_token == PROMPT)
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
            ids=torch.tensor(tokens.ids),
            prefix_length=int((assembled.of_token == PROMPT).astype(np.int64).cumprod().sum()),
            around=self.template.parts,
        )

    def _shortened(self, example: Example, tokens: Tokens, filled: Filled) -> tuple[Filled, Tokens, int]:
        """The prompt around as much of the text as fits, from its start; tokenized again, so the prompt stays whole."""
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

    # Tokens to logits

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if rows.output_factor is not None:
            raise refuse(self.name, "embedding layer of its own", 'use at="word"')
        from troth.models._prefix import lending

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
        # Paths, which have many rows, share the prompt; a plain gradient, one row per example, runs it whole.
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
        from troth.models._prefix import shared

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
            ours = self._head(self._body(input_ids=ids, use_cache=False).last_hidden_state[:, -1])[0]
        return torch.allclose(whole.to(ours.dtype), ours, rtol=2e-2, atol=2e-2 * float(ours.abs().max()))


def _require_question(prompt: str, class_words: Sequence[str]) -> None:
    template(prompt)
    require_words(class_words)
