"""Explains why a causal language model wrote a text: the log-probability of a continuation of its prompt.

Column 0 is the log-probability of the whole continuation, which is the sum of the other columns: those of its tokens,
each given the prompt and the tokens before it. With `generate`, the continuation of each text is what the model writes
itself by greedy decoding: the most probable token at each step, up to that many, or until it ends. With a foil
(`against`), the only column is the log-probability of the continuation minus that of the foil.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from troth.core.errors import TrothError
from troth.core.types import PROMPT, Encoding, Rows
from troth.models._causal import Causal, TokenQuestions
from troth.models._changes import borrowed
from troth.models._endpoint import is_url
from troth.models._loading import is_encoder_decoder
from troth.models._prompts import template
from troth.models._row_edits import distinct_encodings, extended, rearranged, shortened
from troth.models._written import greedily, texts_of
from troth.models.base import Output, TextClassifier, refuse

WHOLE = "the whole continuation"


class Continuation(Causal):
    """A causal language model, its tokenizer, an optional prompt, and a given or generated continuation."""

    kind = "a language model's continuation"
    loaded_with = 'continuation="…" (or generate=40)'
    options = (
        "prompt", "chat", "mask_text", "continuation", "generate", "against", "system", "explain_parts", "reasoning",
    )  # fmt: skip
    outputs = "values"

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        prompt: str = "{text}",
        continuation: str | None = None,
        generate: int | None = None,
        against: str | None = None,
        system: str | None = None,
        explain_parts: Sequence[str] | None = None,
        reasoning: str | None = None,
        labels: Iterable[str] | None = None,
        **options: Any,
    ) -> None:
        require_one(prompt, continuation, generate, against)
        self.continuation, self.generate, self.against = continuation, generate, against
        self.ids: tuple[int, ...] = ()  # set before the base class calls class_names
        super().__init__(model, tokenizer, prompt=prompt, **options)
        if labels is not None:
            raise TrothError("labels are names of classes, and a continuation has no classes; leave labels out")
        self.system, self.explain_parts, self.reasoning = system, explain_parts, reasoning
        parts: dict[str, Any] = {"system": system, "explain_parts": explain_parts, "reasoning": reasoning}
        self.template = template(prompt, (), tokenizer if self.chat else None, continues=True, **parts)
        if against is not None and self.template.written is not None:
            raise TrothError(
                "explain_parts: written and against cannot be combined: the two continuations have different "
                "tokens; leave one of them out"
            )
        if continuation is not None:
            self.ids = self._continued(continuation)
        self.foil: Continuation | None = None
        if against is not None:
            self.foil = Continuation(model, tokenizer, prompt=prompt, continuation=against, **parts, **options)
            # Both share the states of the same prompts.
            self.foil._prefixes, self.foil._trunks = self._prefixes, self._trunks
            if self.foil.ids == self.ids:
                raise TrothError(f"continuation and against are the same tokens: {against!r}; pass two different ones")
        self.continues = self.foil is None
        count = max(generate or len(self.ids), 0 if self.foil is None else len(self.foil.ids))
        self.answer_length = count - 1  # nothing follows the last token, so the network does not read it
        if count >= self.max_length:
            raise TrothError(
                f"the continuation takes {count} of {self.max_length} tokens, so no room is left for a text; shorten it"
            )
        tokens = self._texts(self.ids_of(self.any_text)[-1:], self.ids) or map(str, range(1, count + 1))
        self.labels = (WHOLE, *tokens) if against is None else (f"{WHOLE} rather than “{against.strip()}”",)

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        writes = "continuation" in options or "generate" in options
        return writes and not is_url(source) and not is_encoder_decoder(source)

    @classmethod
    def load(cls, source: Any, **options: Any) -> TextClassifier:
        require_one(options.get("prompt", "{text}"), *map(options.get, ("continuation", "generate", "against")))
        return super().load(source, **options)

    def class_names(self, labels: tuple[str, ...] | None) -> tuple[str, ...]:
        return (WHOLE,)

    def labels_of(self, encoding: Encoding) -> tuple[str, ...]:
        return self.labels if self.foil else (WHOLE, *(text for _, text in encoding.written))

    @property
    def spec(self) -> dict[str, Any]:
        options: dict[str, Any] = {"prompt": self.prompt, "continuation": self.continuation, "generate": self.generate}
        options |= {"system": self.system, "reasoning": self.reasoning, "against": self.against}
        options["explain_parts"] = None if self.explain_parts is None else list(self.explain_parts)
        spec = {**options, "chat": self.chat, "mask_text": self.mask_text}
        return {name: value for name, value in spec.items() if value is not None}

    @property
    def state(self) -> list[Any]:
        ends = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        foil = [self.foil.ids] if self.foil else []
        frozen = [sorted(self.template.frozen)] if self.template.frozen else []
        return [self.template.parts, self.ids or [self.generate, ends], self._mask_id, *foil, *frozen]

    # What follows the prompt

    def follows(self, ids: list[int]) -> tuple[list[int], tuple[tuple[int, str], ...]]:
        written = self.ids or tuple(self._write(ids))
        return list(written[:-1]), tuple(zip(written, self._texts(ids[-1:], written), strict=True))

    def _continued(self, continuation: str) -> tuple[int, ...]:
        """The tokens that it adds to a filled prompt, after a space if it would merge with the prompt's last word."""
        prompt = self.any_text
        wide = unicodedata.east_asian_width(continuation[0]) in "WF"  # scripts written without spaces
        sticks = continuation[0].isalnum() and not wide and not prompt[-1:].isspace()
        text = f" {continuation}" if sticks else continuation
        before, whole = self.ids_of(prompt), self.ids_of(prompt + text)
        if whole[: len(before)] == before and len(whole) > len(before):
            return tuple(whole[len(before) :])
        with borrowed(self.tokenizer):  # tokenized alone, since it would change the tokens at the end of the prompt
            return tuple(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _texts(self, before: Sequence[int], ids: Sequence[int]) -> list[str]:
        return texts_of(self.tokenizer, before, ids)

    def _write(self, ids: list[int]) -> list[int]:
        """The tokens that the model generates after these tokens."""
        assert self.generate is not None
        ends = {self.tokenizer.eos_token_id}
        named = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        ends |= set(named) if isinstance(named, list) else {named}
        begun = torch.tensor([ids or [self.begin_id]], device=self.device)
        with torch.no_grad(), self.at_rest():
            written = greedily(
                lambda step, memory: self.model(input_ids=step, past_key_values=memory, use_cache=True),
                begun,
                self.generate,
                ends,
            )
        if not written:
            raise TrothError(
                f"{self.name} generates nothing after this prompt, since its first token ends the text; pass "
                "the continuation "
                "that you want explained"
            )
        return written

    # Forward passes

    def passes(self, rows: Rows) -> int:
        return len(rows) if self.foil is None else 2 * len(rows)

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if self.foil is not None:
            if attentions:
                raise refuse(self.name, "one position that decides between two answers", "use gradient")
            own, other = self._read(rows, hidden=hidden), self.foil._read(self._with_foil(rows, self.foil))
            return replace(own, logits=own.logits[:, :1] - other.logits[:, :1])
        return self._read(rows, attentions=attentions, hidden=hidden)

    def _with_foil(self, rows: Rows, foil: "Continuation") -> Rows:
        """The rows with the foil instead of the continuation."""
        distinct, of_row = distinct_encodings(rows)
        device, width = rows.ids.device, rows.ids.shape[1]
        written = torch.tensor([len(encoding.written) - 1 for encoding in distinct], device=device)
        behind = torch.tensor(foil.ids[:-1], dtype=torch.int64, device=device)
        encodings = [_continued_by(encoding, behind.cpu()) for encoding in distinct]
        context = rows.lengths - written[of_row.to(device)]
        lengths = context + len(behind)
        longer = extended(rows, self, behind, unit=PROMPT, lengths=lengths)
        places = torch.arange(int(lengths.max()) if len(rows) else 0, device=device)
        index = torch.where(places < context[:, None], places, width + places - context[:, None])
        swapped = rearranged(longer, index.clamp(max=longer.ids.shape[1] - 1), lengths)
        return replace(swapped, encodings=[encodings[number] for number in of_row.tolist()])

    def _read(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        asked = None if attentions or hidden else self._of_one_token(rows)
        if asked is None:
            return super().forward(rows, attentions=attentions, hidden=hidden)
        with self.at_rest():
            states, _ = self._states(shortened(rows, asked.places[:, 0] + 1), asked, self.tree)
            found = self.log_probabilities(states, asked.ids)
        return Output(found.new_zeros(len(rows), len(self.labels)).scatter(1, rows.target[:, None], found))

    def _of_one_token(self, rows: Rows) -> TokenQuestions | None:
        """The only token that the derivatives of one token need, as later ones do not affect it; None otherwise."""
        vectors = rows.embeddings
        if vectors is None or not (torch.is_grad_enabled() and vectors.requires_grad):
            return None
        if bool((rows.target < 1).any() | (rows.against >= 0).any()):
            return None
        asked, number = self.asked(rows), rows.target[:, None] - 1
        one = TokenQuestions(asked.places.gather(1, number), asked.ids.gather(1, number))
        return None if bool((one.places < 0).any()) else one

    def asked(self, rows: Rows) -> TokenQuestions:
        if self.ids:
            ids = torch.tensor(self.ids, device=rows.ids.device).expand(len(rows), -1)
            lengths = torch.full_like(rows.lengths, len(self.ids))
        else:
            distinct, of_row = distinct_encodings(rows)
            written = [torch.tensor([token for token, _ in encoding.written]) for encoding in distinct]
            ids = pad_sequence(written, batch_first=True)[of_row].to(rows.ids.device)
            lengths = torch.tensor([len(one) for one in written])[of_row].to(rows.ids.device)
        if self.template.written is not None:
            self._require_written(rows)
        places = (rows.lengths - lengths)[:, None] + torch.arange(ids.shape[1], device=ids.device)
        return TokenQuestions(torch.minimum(places, rows.lengths[:, None] - 1), ids)

    def _require_written(self, rows: Rows) -> None:
        """Raises an error if a written token was deleted: each position is needed to predict the next token."""
        distinct, of_row = distinct_encodings(rows)
        # Written tokens come last, and so do their units.
        firsts = [each.n_units - each.unit_segments.count(self.template.written or 0) for each in distinct]
        counts = [int((encoding.units >= first).sum()) for encoding, first in zip(distinct, firsts, strict=True)]
        first, count = (torch.tensor(numbers)[of_row].to(rows.ids.device) for numbers in (firsts, counts))
        if bool(((rows.units >= first[:, None]).sum(1) < count).any()):
            raise TrothError(
                "the continuation cannot be deleted, since each of its tokens predicts the next one; use "
                "masking mask_token or zero, or leave written out of explain_parts"
            )

    def logits_of(self, rows: Rows, asked: TokenQuestions, states: Tensor) -> Tensor:
        found = self.log_probabilities(states, asked.ids)
        if not self.ids:  # shorter generated texts have log-probability 0 for the missing tokens
            lengths = torch.tensor([len(encoding.written) for encoding in rows.encodings], device=found.device)
            found = found * (torch.arange(found.shape[1], device=found.device) < lengths[:, None])
            found = torch.nn.functional.pad(found, (0, self.answer_length + 1 - found.shape[1]))
        return torch.cat([found.sum(1, keepdim=True), found], dim=1)


def _continued_by(encoding: Encoding, behind: Tensor) -> Encoding:
    """The encoding with other tokens after its prompt."""
    end = len(encoding.ids) - (len(encoding.written) - 1)
    units = torch.cat([encoding.units[:end], torch.full_like(behind, PROMPT)])
    return replace(encoding, ids=torch.cat([encoding.ids[:end], behind]), units=units)


def require_one(prompt: str, continuation: str | None, generate: int | None, against: str | None = None) -> None:
    template(prompt)
    if (continuation is None) == (generate is None):
        raise TrothError("pass either a continuation, or generate=40 to let the model write one, not both")
    if continuation is not None and (not isinstance(continuation, str) or not continuation.strip()):
        raise TrothError(f"the continuation must be a text, not {continuation!r}: there is nothing to explain")
    if against is not None and (not isinstance(against, str) or not against.strip()):
        raise TrothError(f"against must be another continuation, not {against!r}; leave it out to explain one alone")
    if generate is not None and (not isinstance(generate, int) or isinstance(generate, bool) or generate < 1):
        raise TrothError(f"generate must be a number of tokens, 1 or more, not {generate!r}")
