"""The arguments of a call of a transformers classifier, given what was found on first use (`_first_use`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from troth.core.errors import TrothError
from troth.core.types import Rows
from troth.models import families
from troth.models._loading import first_line
from troth.models._row_edits import extended
from troth.models.base import ERASING, Output

if TYPE_CHECKING:
    from troth.models.encoder import Encoder

Start = Literal["config", "last"]
Reads = Literal["first", "last", "end", "all"]

# Errors of a model that cannot read its input; their message is passed on.
FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, AssertionError)


@dataclass(frozen=True)
class CallConvention:
    """How a network must be called; the defaults are a plain call."""

    reads: Reads = "first"  # the position that is classified; end: that of the last end-of-text token
    needs_mask: bool = False  # no mask gives another result than a mask of ones
    # Set if it derives positions from ids, so they are passed explicitly, starting here.
    first_position: int | None = None
    decoder_start: Start | None = None  # set if a decoder also reads the text, shifted by one, after this token
    width: int | None = None  # set if it reads only rows of this length, to which shorter ones are padded


def inputs(model: Encoder, rows: Rows, *, attentions: bool, hidden: bool) -> dict[str, Any]:
    """The arguments of a plain call."""
    network, convention = model.model, model.call_convention
    given: dict[str, Any] = {"output_attentions": attentions, "output_hidden_states": hidden}
    if rows.embeddings is not None:
        # A copy, because CTRL scales its input in place.
        given["inputs_embeds"] = rows.embeddings.clone()
    if rows.embeddings is None or families.reads_ids_beside_vectors(network):
        given["input_ids"] = rows.ids
    if rows.token_types is not None:
        given["token_type_ids"] = rows.token_types
    steps = torch.arange(rows.ids.shape[1], device=rows.ids.device)
    if convention.first_position is not None:
        # If derived from the ids, positions after a padding id within the text would shift.
        given["position_ids"] = (steps + convention.first_position).expand_as(rows.ids)
    if families.takes(network, "global_attention_mask"):
        # Longformer's default, the first token, is derived from ids, which are missing beside word vectors.
        given["global_attention_mask"] = (steps == 0).long().expand_as(rows.ids)
    given["attention_mask"] = _attention_mask(model, rows)
    return given


def _attention_mask(model: Encoder, rows: Rows) -> Tensor | dict[str, Tensor] | None:
    if rows.attention is not None:
        return _additive_mask(model, rows, rows.attention)
    if not rows.is_padded and not model.call_convention.needs_mask:
        return None
    if rows.is_padded and model.masks_padding:
        return _additive_mask(model, rows, torch.zeros(rows.ids.shape, device=rows.ids.device))
    return rows.real.long()


def _additive_mask(model: Encoder, rows: Rows, attention: Tensor) -> Tensor | dict[str, Tensor]:
    config, length = model.model.config, rows.ids.shape[1]
    lowest = torch.finfo(model.dtype).min
    bias = attention.to(model.dtype).clamp(min=lowest).masked_fill(~rows.real, lowest)
    everywhere = bias[:, None, None, :].expand(-1, 1, length, -1)
    if config.model_type not in families.WINDOWED_MASK:
        return everywhere
    steps = torch.arange(length, device=bias.device)
    outside = (steps[:, None] - steps).abs() > config.sliding_window
    return {"full_attention": everywhere, "sliding_attention": everywhere.masked_fill(outside, lowest)}


def through_decoder(model: Encoder, rows: Rows, given: dict[str, Any], start: Start) -> dict[str, Any]:
    """The same call of a network whose decoder reads the text, too, with the decoder's input made here.

    Encoder and decoder read the same word vectors, which a plain call does not take. Ids are left only to find the
    last end-of-text token, whose state is classified: those that a user typed must not count.
    """
    network = model.model
    last = rows.ids.gather(1, rows.lengths[:, None] - 1)
    first = last if start == "last" else torch.full_like(last, network.config.decoder_start_token_id)
    read = {name: given[name] for name in ("input_ids", "inputs_embeds") if name in given}
    states = network.get_encoder()(attention_mask=given["attention_mask"], **read)
    given = {name: value for name, value in given.items() if name not in read}
    if rows.embeddings is None:
        given["decoder_input_ids"] = torch.cat([first, rows.ids[:, :-1]], dim=1)
    else:
        given["decoder_inputs_embeds"] = torch.cat([model.embed(first), rows.embeddings[:, :-1]], dim=1)
    end = network.config.eos_token_id
    typed = torch.arange(rows.ids.shape[1], device=rows.ids.device) < end_place(rows, end)[:, None]
    other = 0 if end else 1
    return given | {
        "encoder_outputs": states,
        "input_ids": rows.ids.masked_fill((rows.ids == end) & typed, other),
        "use_cache": False,
    }


def end_place(rows: Rows, end: int) -> Tensor:
    """[rows] the position of each row's last end-of-text token."""
    steps = torch.arange(rows.ids.shape[1], device=rows.ids.device)
    return torch.where((rows.ids == end) & rows.real, steps, 0).amax(1)


def filled(model: Encoder, rows: Rows, width: int | None) -> Rows:
    """Pads shorter rows to this length."""
    missing = (width or 0) - rows.ids.shape[1]
    if missing <= 0:
        return rows
    return extended(rows, model, rows.ids.new_full((missing,), model.filler_id), unit=-1, lengths=rows.lengths)


def cut(output: Output, length: int, width: int) -> Output:
    """Outputs for rows of this length, without those for padding."""
    if length == width:
        return output
    return Output(
        output.logits,
        tuple(layer[:, :, :length, :length] for layer in output.attentions),
        tuple(layer[:, :length] for layer in output.hidden),
    )


def brought_back(output: Output, device: torch.device) -> Output:
    """The outputs on the device of the inputs; parts of a network may be on other devices."""
    attentions, hidden = (tuple(layer.to(device) for layer in layers) for layers in (output.attentions, output.hidden))
    return Output(output.logits.to(device), attentions, hidden)


def are_attention(weights: tuple[Any, ...], rows: Rows) -> bool:
    """Whether the values of each layer are attention weights rather than logits before the softmax."""
    return bool(weights) and all(
        layer is not None
        and layer.dim() == 4
        and (len(layer), layer.shape[-1]) == tuple(rows.ids.shape)
        and not bool((layer < 0).any() | (layer.sum(-1) > 1.05).any())
        for layer in weights
    )


def refusal(model: Encoder, rows: Rows, error: BaseException) -> TrothError:
    """The error for a network that cannot read these rows, in the user's terms."""
    does, why = f"{model.name} ({model.model.config.model_type}) cannot", first_line(error) or type(error).__name__
    length, width = rows.ids.shape[1], model.call_convention.width
    if width is not None and length > width:
        return TrothError(f"{does} read texts of {length} tokens, only of {width}: load it with max_length={width}")
    if rows.embeddings is not None:
        return TrothError(f"{does} read word vectors: {why}; {ERASING}")
    return TrothError(
        f"{does} read texts of {length} tokens: {why}; give load_model a function from texts to probabilities that "
        "calls it as it needs to be called"
    )


def bytes_per_row(config: Any, length: int, held: int, *, scores: bool, backward: bool) -> int:
    """The approximate memory of a row: a number of hidden vectors per token and layer, plus attention weights if
    needed.
    """
    layers = config.num_hidden_layers if backward else 2
    heads = getattr(config, "num_attention_heads", 1)
    weights = 4 * heads * length * layers * (3 if backward else 1) if scores else 0
    return int(length * (4 * config.hidden_size * held * layers + weights))
