"""Shared by prompted models and continuations: from the tokens of a prompt to the predictions of the language model.

Keys and values of the prompt before the text are computed once and shared by all erased inputs, which are padded on the
right; if erased inputs start like the whole text, the states of that beginning are shared, too.
"""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from inspect import Parameter, signature
from typing import Any, NamedTuple

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import PROMPT, Rows
from troth.models import _placement, _reading, families
from troth.models._changes import unhooked
from troth.models._prompt_reader import PromptReader, Tree
from troth.models._row_edits import chosen, extended
from troth.models.base import ERASING, Output, refuse

_NUMBERS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
_VOCABULARY_BYTES = 64 << 20  # maximum bytes of logits over the vocabulary held at a time


class TokenQuestions(NamedTuple):
    """The tokens whose probabilities are needed, and the positions in the row that predict them."""

    places: Tensor  # [rows, questions]
    ids: Tensor  # [rows, questions]


class Causal(PromptReader):
    """A model that predicts tokens after a prompt; a subclass defines which tokens, and the columns of its logits."""

    @abstractmethod
    def asked(self, rows: Rows) -> TokenQuestions:
        """The tokens that are needed for each row."""

    @abstractmethod
    def logits_of(self, rows: Rows, asked: TokenQuestions, states: Tensor) -> Tensor:
        """[rows, columns] The logits, from the states (or vocabulary logits) at the needed positions."""

    def ready(self, level: str, *, backward: bool) -> None:
        super().ready(level, backward=backward)
        ids = signature(self.model.forward).parameters.get("input_ids")
        if (backward or level == "embeddings") and ids is not None and ids.default is Parameter.empty:
            raise refuse(self.name, "word vectors as input (its forward needs input_ids)", ERASING)

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        if rows.output_factor is not None:
            raise refuse(self.name, "embedding layer of its own", 'use at="word"')
        if attentions and self.answer_length:
            raise refuse(
                self.name, "one position that decides: its answer has several tokens", "use gradient or leave_one_out"
            )
        insides = attentions or hidden
        with self.at_rest(attentions=attentions), unhooked(self.model) if insides else nullcontext():
            asked = self.asked(rows)
            nothing = asked.places[:, 0] < 0
            if not insides and bool(nothing.any()):
                return self._forward_from_nothing(rows, nothing)
            states, output = self._states(rows, asked, self.tree, attentions, hidden)
            logits = self.logits_of(rows, asked, states)
        if attentions and (not output.attentions or output.attentions[-1] is None):
            raise refuse(self.name, "attention weights to read", "use gradient or leave_one_out")
        return _reading.brought_back(replace(self.read(output), logits=logits), rows.ids.device)

    def _forward_from_nothing(self, rows: Rows, nothing: Tensor) -> Output:
        """As `forward`, if nothing precedes the answer (all was deleted): a begin token predicts its first token."""
        some, others = (torch.nonzero(which)[:, 0] for which in (nothing, ~nothing))
        bare = chosen(rows, some)
        begin = bare.ids.new_full((1,), self.begin_id)
        begun = extended(
            bare, self, begin, unit=PROMPT, lengths=bare.lengths + 1, join=lambda own, more: torch.cat([more, own], 1)
        )
        logits = Causal.forward(self, begun).logits
        if len(others):
            logits = torch.cat([logits, Causal.forward(self, chosen(rows, others)).logits])
        return Output(logits[torch.cat([some, others]).argsort()])

    def _states(
        self, rows: Rows, asked: TokenQuestions, tree: Tree, attentions: bool = False, hidden: bool = False
    ) -> tuple[Tensor, Any]:
        """[rows, questions, hidden] The last layer's states at the needed positions, or logits over the vocabulary.

        The latter for families whose head is not a plain linear layer.
        """
        from troth.models._prefix import lending

        begun = 0 if attentions or hidden else self._begun(rows, asked)
        kept = self._prefixes.of(self._body, self.model.config, [rows.ids[0, :begun]]) if begun else None
        lent, begun = (None, 0) if kept is None else (kept[0], begun)
        plain = self._has_plain_head
        if (
            plain
            and not (attentions or hidden)
            and (states := self._branched(rows, asked, begun, lent, tree)) is not None
        ):
            return states, None
        inputs = self._inputs(rows, begun, tree)
        inputs |= {"output_attentions": attentions, "output_hidden_states": hidden}
        with lending(self.model.config, lent) as options:
            output = (self._body if plain else self.model)(**inputs, **options)
        everyone = torch.arange(len(rows), device=rows.ids.device)[:, None]
        states = (output.last_hidden_state if plain else output.logits).to(rows.ids.device)
        return states[everyone, asked.places - begun], output

    def _branched(self, rows: Rows, asked: TokenQuestions, begun: int, lent: Any, tree: Tree) -> Tensor | None:
        """As `_states`, for rows that start like the whole text, whose states are shared; None if it saves little."""
        changed = rows.embeddings is not None or rows.attention is not None
        if changed or torch.is_grad_enabled() or not self._lends(rows):
            return None
        if self.model.config.model_type not in families.PLAIN_ATTENTION:
            return None
        from troth.models import _branches

        plan = _branches.plan(rows, asked.places[:, 0], begun, lambda text: self._trunks.has(text, begun))
        if plan is None:
            return None
        config = self.model.config
        trunks = self._trunks.of(self._body, config, plan.trunks, lent)
        if trunks is None:
            return None
        return _branches.run(self._body, config, rows, plan, lent, trunks, tree)[plan.index(asked.places)]

    def bytes_per_row(self, length: int, *, backward: bool, attentions: bool) -> int:
        whole = attentions or not self.shares_prefix
        own = length if whole else max(1, length - self._usual_prefix)
        # Interpolation paths, which have many rows, share the prompt; plain gradients, with one row per text, do not.
        own = max(own, length // 4) if backward else own
        lent = 16 * (length - own) * int(self.model.config.hidden_size)
        # Derivatives need the vocabulary logits of every token of an answer, three times.
        said = 12 * (self.answer_length + 1) * len(self._word_layer.weight) if backward and self.answer_length else 0
        return super().bytes_per_row(own, backward=backward, attentions=attentions) + lent + said

    @cached_property
    def _usual_prefix(self) -> int:
        """The approximate number of tokens before the text."""
        words = self.template.parts[0][1] if self.template.parts[0][0] is None else ""
        return max(0, len(self._tokenize([words])[0]) - 1)

    @property
    def _body(self) -> Any:
        return self.model.base_model

    def _lends(self, rows: Rows) -> bool:
        """Whether the common beginning of rows may be shared; not if a sliding window is shorter than the rows."""
        window = getattr(self.model.config, "sliding_window", None)
        return self.shares_prefix and (window is None or window >= rows.ids.shape[1])

    def _begun(self, rows: Rows, asked: TokenQuestions) -> int:
        """The number of prompt tokens whose states are shared."""
        from troth.models._prefix import shared

        vectors = rows.embeddings
        if not self._lends(rows):
            return 0
        longest = max((len(encoding.ids) for encoding in rows.encodings), default=0)
        if vectors is None:
            return shared(rows.ids, rows.units < 0, asked.places[:, 0] + 1, longest)
        if torch.is_grad_enabled() and vectors.requires_grad and not rows.prompt_is_fixed:
            return 0
        return shared(rows.ids, rows.units == PROMPT, asked.places[:, 0] + 1, longest)

    def _inputs(self, rows: Rows, begun: int, tree: Tree) -> dict[str, Any]:
        width = rows.ids.shape[1]
        places = torch.arange(begun, width, device=rows.ids.device)
        everyone = torch.arange(len(rows), device=places.device)[:, None]
        inputs: dict[str, Any] = {"position_ids": tree.positions(rows.lengths, everyone, places.expand(len(rows), -1))}
        if rows.embeddings is None:
            inputs["input_ids"] = rows.ids[:, begun:]
        else:
            inputs["inputs_embeds"] = rows.embeddings[:, begun:]
        # Causal attention never looks ahead, so padding on the right needs no mask.
        masked = rows.attention is not None or tree.branches
        inputs["attention_mask"] = self._additive_mask(rows, places, tree) if masked else None
        return inputs

    def _additive_mask(self, rows: Rows, places: Tensor, tree: Tree) -> Tensor:
        """[rows, 1, queries, length] An additive attention mask: the rows' values, nearly −∞ for later tokens."""
        window = getattr(self.model.config, "sliding_window", None)
        if self._implementation not in ("eager", "sdpa") or (window is not None and window < rows.ids.shape[1]):
            raise TrothError(f"{self.name} takes no additive attention mask; use masking zero, soft or delete")
        lowest = torch.finfo(self.dtype).min
        every = torch.arange(rows.ids.shape[1], device=places.device)
        bias = torch.zeros(rows.ids.shape, device=places.device) if rows.attention is None else rows.attention
        bias = bias.to(self.dtype).clamp(min=lowest / 2)[:, None, None, :]
        unseen = every > places[:, None]
        if tree.branches:
            rows_of = rows.lengths[:, None].expand(-1, len(places))
            visible = torch.stack([tree.visible(lengths, places, every) for lengths in rows_of])
            unseen = unseen | ~visible[:, None]
        # Lower than the mask of erased tokens: a first token that is erased must not attend to later ones.
        return bias.expand(-1, 1, len(places), -1).masked_fill(unseen, lowest)

    def log_probabilities(self, states: Tensor, ids: Tensor) -> Tensor:
        """Log-probabilities: [rows, questions, hidden or vocabulary], ids [rows, questions] -> [rows, questions]"""
        single = torch.promote_types(states.dtype, torch.float32)
        if not self._has_plain_head:
            return states.to(single).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        weight, bias = (None if each is None else each.to(single) for each in self._head_weights)
        assert weight is not None, "only of a plain head"
        states, asked = states.to(weight.device), ids.to(weight.device)

        def of_chosen(some: Tensor, of: Tensor) -> Tensor:
            logits = torch.nn.functional.linear(some.to(single), weight, bias)
            return logits.log_softmax(-1).gather(-1, of[..., None])[..., 0]

        if torch.is_grad_enabled():
            return of_chosen(states, asked).to(ids.device)
        most = max(1, _VOCABULARY_BYTES // (4 * len(weight)))
        parts = zip(torch.split(states.flatten(0, 1), most), torch.split(asked.flatten(), most), strict=True)
        return torch.cat([of_chosen(*part) for part in parts]).view_as(ids).to(ids.device)

    @cached_property
    def _has_plain_head(self) -> bool:
        """Whether logits are a plain linear function of the last states; some families scale or cap them."""
        head = self.model.get_output_embeddings()
        if head is None or not hasattr(self._body, "forward") or self._body is self.model:
            return False
        if head.weight.dtype not in _NUMBERS:  # quantized weights
            return False
        some = self.ids_of(self.any_text)[-8:]
        ids = torch.tensor([some], device=self.device)
        with torch.no_grad():
            whole = self.model(input_ids=ids, use_cache=False).logits[0, -1, some]
            ours = self._head(self._body(input_ids=ids, use_cache=False).last_hidden_state[:, -1], some)[0]
        return torch.allclose(whole.to(ours.dtype), ours, rtol=2e-2, atol=2e-2 * float(ours.abs().max()))

    def _head(self, states: Tensor, ids: Sequence[int]) -> Tensor:
        """The logits of these tokens only: [rows, hidden] -> [rows, ids]"""
        weight, bias = self._head_weights
        assert weight is not None, "only of a plain head"
        chosen, single = torch.tensor(ids, device=weight.device), torch.promote_types(states.dtype, torch.float32)
        return torch.nn.functional.linear(
            states.to(weight.device, single),
            weight[chosen].to(single),
            None if bias is None else bias[chosen].to(single),
        )

    @property
    def _head_weights(self) -> tuple[Tensor | None, Tensor | None]:
        """Weight and bias of the head, loaded if they are offloaded."""
        head = self.model.get_output_embeddings()
        return _placement.weight_of(head), _placement.weight_of(head, "bias")
