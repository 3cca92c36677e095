"""Probes a network on first use: what it can do, how it must be called, and which positions it classifies.

The network is tried, never looked up in a list of families; what it cannot do is refused by name before any
computation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Rows
from troth.models import _trial, families
from troth.models._loading import first_line
from troth.models._reading import FAILURES, CallConvention, Reads, end_place, filled
from troth.models._row_edits import stacked
from troth.models.base import ERASING

if TYPE_CHECKING:
    from troth.models.encoder import Encoder


_FAR = 128  # tokens; longer texts would take seconds to try


def pads(model: Encoder) -> bool:
    """Whether the output for a text is the same however much padding follows it."""
    return not families.is_block_sparse(model.model) and _trial.once(model, f"pads up to {model.max_length}", _pads)


def require(model: Encoder, level: str, *, backward: bool) -> None:
    """Refuses what this network was found unable to do: read word vectors, give gradients, or take a soft mask."""
    trials: dict[str, Callable[[Encoder], str]] = {}
    if backward or level == "embeddings":
        trials["vectors"] = _why_no_vectors
    if backward:
        trials["gradients"] = _why_no_gradients
    if level == "attention":
        trials[_mask_trial(model)] = _why_no_attention_mask
    for what, find in trials.items():
        if refusal := _trial.once(model, what, find):
            raise TrothError(refusal)


def takes_attention_mask(model: Encoder) -> bool:
    """Whether it adds our mask to its attention logits."""
    return not _trial.once(model, _mask_trial(model), _why_no_attention_mask)


def _mask_trial(model: Encoder) -> str:
    return f"mask for {model._implementation}"


def embedding_output_size(model: Encoder) -> int:
    """The size of the vectors that the embedding layer returns."""
    return _trial.once(model, "embedding output", _output_size)


def _pads(model: Encoder) -> bool:
    if model.call_convention.reads == "last":
        return False  # the last token must not be padding
    short, long = _trial.short_and_long(model, model.call_convention.width)
    length = long.ids.shape[1]
    if short.ids.shape[1] == length:
        return False  # it reads so few tokens that both texts are truncated alike, and nothing can be shown
    rows = [short, _trial.shortened(long, length // 3), _trial.shortened(long, length * 2 // 3), long]
    alone = torch.cat([_trial.logits(model, row) for row in rows])
    if _trial.agree(model, alone[:1], alone[-1:]):
        _trial.note_silence(model)
        return True
    together = stacked([filled(model, row, length) for row in rows])
    ways = [(together, alone)]
    if not _trial.once(model, "vectors", _why_no_vectors):
        ways.append((replace(together, embeddings=together.vectors(model)), alone))
    try:
        if 0 < (reach := families.reach(model.model.config)) <= min(_FAR, model.max_length - 1):
            # Padding may only matter for texts longer than a chunk or window.
            longer = _trial.of_length(long, reach + 1)
            wide = filled(model, longer, min(3 * reach, model.max_length))
            ways.append((wide, _trial.logits(model, longer)))
        return all(_trial.agree(model, _trial.logits(model, rows), answers) for rows, answers in ways)
    except TrothError:
        return False


def _why_no_vectors(model: Encoder) -> str:
    _, rows = _trial.short_and_long(model, model.call_convention.width)
    try:
        by_vectors = _trial.logits(model, replace(rows, embeddings=rows.vectors(model)))
    except TrothError as error:
        return str(error)
    if _trial.agree(model, by_vectors, _trial.logits(model, rows)):
        return ""
    return f"{_name(model)} says other things of the word vectors of a text than of its ids; {ERASING}"


def _why_no_gradients(model: Encoder) -> str:
    _, rows = _trial.short_and_long(model, model.call_convention.width)
    try:
        with torch.enable_grad():
            vectors = rows.vectors(model).detach().requires_grad_()
            logits = model.plain_forward(replace(rows, embeddings=vectors)).logits
            torch.autograd.grad(logits.sum(), vectors)
    except (TrothError, *FAILURES) as error:
        return f"{_name(model)} gives no gradients: {first_line(error)}; {ERASING}"
    return ""


def _why_no_attention_mask(model: Encoder) -> str:
    """A network adds the mask to its attention logits if adding a constant changes nothing, adding it to some positions
    does, and fully masked tokens cannot change the logits.
    """
    network, kind = model.model, model._implementation
    head = ", mean pooling" if model.call_convention.reads == "all" else ""
    refusal = (
        f"{model.name} ({network.config.model_type}, {kind} attention{head}) takes no additive attention mask; "
        "use masking zero, soft or delete"
    )
    if kind not in ("eager", "sdpa") or families.sees_only_parts(network, model.max_length):
        return refusal
    _, rows = _trial.short_and_long(model, model.call_convention.width)
    some = (torch.arange(rows.ids.shape[1], device=model.device) % 3 == 1).float()[None]
    plain = _trial.logits(model, rows)

    def says(bias: Tensor, ids: Tensor) -> Tensor:
        return _trial.logits(model, replace(rows, ids=ids, attention=bias))

    try:
        everywhere, somewhere = says(torch.full_like(some, -1.0), rows.ids), says(-some, rows.ids)
        others = torch.where(some > 0, rows.ids[:, [-1]], rows.ids)
        unseen = [says(some * torch.finfo(some.dtype).min, ids) for ids in (rows.ids, others)]
    except TrothError:
        return refusal
    changes = _trial.is_silent(model) or bool((somewhere - plain).abs().max() > 1e-6 * plain.abs().max())
    return "" if changes and _trial.agree(model, everywhere, plain) and _trial.agree(model, *unseen) else refusal


def _output_size(model: Encoder) -> int:
    layer = getattr(model.model.base_model, "embeddings", None)
    if layer is None:
        return model.embedding_size
    sizes: list[int] = []
    hook = layer.register_forward_hook(lambda _module, _inputs, output: sizes.append(output.shape[-1]))
    try:
        _trial.logits(model, _trial.short_and_long(model)[0])
    finally:
        hook.remove()
    return sizes[0]


def _name(model: Encoder) -> str:
    return f"{model.name} ({model.model.config.model_type})"


def call_convention(model: Encoder) -> CallConvention:
    """How the network must be called; during the trial, the convention that is being tried."""
    return _trial.once(model, "call convention", lambda model: _Finding(model).find())


class _Finding:
    """Calls the network with one convention after the other, each a difference from a plain call."""

    def __init__(self, model: Encoder) -> None:
        self.model = model
        self.plain = CallConvention(reads="last" if hasattr(model.model, "score") else "first")
        self.short, self.long = _trial.short_and_long(model)

    def find(self) -> CallConvention:
        model, network = self.model, self.model.model
        alone = self._first_answer()
        first = families.first_position(network)
        if _trial.agree(model, alone, self._says(self.long)):
            _trial.note_silence(model)
            return replace(self.plain, first_position=first)
        # An explicit mask of ones matters if tokens that look like padding would otherwise be ignored.
        padding = model.tokenizer.pad_token_id
        if not self._same(self.long if padding is None else _trial.with_inside(self.long, padding), needs_mask=True):
            self.plain = replace(self.plain, needs_mask=True)
        # Positions are derived from ids if a padding id within the text shifts those after it.
        if first is not None and self._same(self.long, first_position=first):
            shifts = not self._same(_trial.with_inside(self.long, first - 1), first_position=first)
            self.plain = replace(self.plain, first_position=first if shifts else None)
        if families.takes(network, "decoder_inputs_embeds"):
            for start in ("config", "last"):
                if self._same(self.long, decoder_start=start):
                    self.plain = replace(self.plain, decoder_start=start)
                    break
        _trial.noted(model)["call convention"] = self.plain
        return replace(self.plain, reads=self._reads())

    def _first_answer(self) -> Tensor:
        """The output for the short text from a call as plain as possible."""
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
        """Numbers in the configuration that may be the only length the network reads."""
        numbers = {value for value in vars(self.model.model.config).values() if type(value) is int}
        return sorted(number for number in numbers if self.short.ids.shape[1] < number <= self.model.max_length)

    def _says(self, rows: Rows, **way: Any) -> Tensor:
        _trial.noted(self.model)["call convention"] = replace(self.plain, **way)
        return _trial.logits(self.model, rows)

    def _same(self, rows: Rows, **way: Any) -> bool:
        """Whether a convention gives the same output as the plain call; False if it raises an error."""
        with suppress(TrothError):
            return _trial.agree(self.model, self._says(rows), self._says(rows, **way))
        return False

    def _reads(self) -> Reads:
        """The positions of the last hidden states that influence the logits."""
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
        """[1, length, hidden] the gradient of the logits with respect to the states below the head; None if it cannot
        be read.
        """
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
