"""How a network must be called, and where it reads: tried on it, never looked up in a list of families."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Rows
from troth.models import _trial, families
from troth.models._reading import FAILURES, Habits, Reads, end_place

if TYPE_CHECKING:
    from troth.models.encoder import Encoder


def habits(model: Encoder) -> Habits:
    """How the network must be called; while it is tried, what is being tried."""
    return _trial.once(model, "habits", lambda model: _Finding(model).find())


class _Finding:
    """Calls a network in one way after the other. A way is a set of habits that differs from a plain call's."""

    def __init__(self, model: Encoder) -> None:
        self.model = model
        self.plain = Habits(reads="last" if hasattr(model.model, "score") else "first")
        self.short, self.long = _trial.short_and_long(model)

    def find(self) -> Habits:
        model, network = self.model, self.model.model
        alone = self._first_answer()
        first = families.first_position(network)
        if _trial.agree(model, alone, self._says(self.long)):
            _trial.note_silence(model)
            return replace(self.plain, first_position=first)
        # A mask of ones counts where tokens that look like padding would otherwise be left out, too.
        padding = model.tokenizer.pad_token_id
        if not self._same(self.long if padding is None else _trial.with_inside(self.long, padding), needs_mask=True):
            self.plain = replace(self.plain, needs_mask=True)
        # Positions come from the ids if a padding id in the text shifts those after it.
        if first is not None and self._same(self.long, first_position=first):
            shifts = not self._same(_trial.with_inside(self.long, first - 1), first_position=first)
            self.plain = replace(self.plain, first_position=first if shifts else None)
        if families.takes(network, "decoder_inputs_embeds"):
            for start in ("config", "last"):
                if self._same(self.long, decoder_start=start):
                    self.plain = replace(self.plain, decoder_start=start)
                    break
        _trial.noted(model)["habits"] = self.plain
        return replace(self.plain, reads=self._reads())

    def _first_answer(self) -> Tensor:
        """What it says of the short text, called as plainly as it can be."""
        try:
            return self._says(self.short)
        except TrothError as error:
            masked = replace(self.plain, needs_mask=True)
            for way in (masked, *(replace(self.plain, width=width) for width in self._widths())):
                with suppress(TrothError):
                    self.plain = way
                    answer = self._says(self.short)
                    self.long = _trial.short_and_long(self.model, self.plain.width)[1]
                    return answer
            raise error from None

    def _widths(self) -> list[int]:
        """Numbers in the configuration that may be the one length a network reads."""
        numbers = {value for value in vars(self.model.model.config).values() if type(value) is int}
        return sorted(number for number in numbers if self.short.ids.shape[1] < number <= self.model.max_length)

    def _says(self, rows: Rows, **way: Any) -> Tensor:
        _trial.noted(self.model)["habits"] = replace(self.plain, **way)
        return _trial.logits(self.model, rows)

    def _same(self, rows: Rows, **way: Any) -> bool:
        """Whether this way to call it gives what the plain one gives; it does not where it cannot be gone."""
        with suppress(TrothError):
            return _trial.agree(self.model, self._says(rows), self._says(rows, **way))
        return False

    def _reads(self) -> Reads:
        """The positions at which its last states reach the logits."""
        slopes = self._slopes()
        if slopes is None:
            return self.plain.reads
        length, end = self.long.ids.shape[1], self.model.model.config.eos_token_id
        places = slopes[0].abs().sum(-1).nonzero()[:, 0].tolist()
        if self.plain.decoder_start is not None and places == end_place(self.long, end).tolist():
            return "end"
        names = {(0,): "first", (length - 1,): "last", tuple(range(length)): "all"}
        return cast(Reads, names.get(tuple(places), self.plain.reads))

    def _slopes(self) -> Tensor | None:
        """[1, length, hidden] how the logits change with the states below the head; None where that cannot be seen."""
        states: list[Any] = []
        hook = self.model.model.base_model.register_forward_hook(lambda _module, _inputs, output: states.append(output))
        try:
            with torch.enable_grad():
                vectors = self.long.vectors(self.model).detach().requires_grad_()
                output = self.model.plain_forward(replace(self.long, embeddings=vectors))
                (slopes,) = torch.autograd.grad(output.logits.sum(), states[0][0], allow_unused=True)
        except (TrothError, *FAILURES):
            return None
        finally:
            hook.remove()
        return slopes if slopes is not None and slopes.dim() == 3 else None
