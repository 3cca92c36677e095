"""Copies of one small model as a single batched one: their weights are stacked, [copies, …], as are their inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from troth.errors import TrothError
from troth.models.encoder import Encoder
from troth.types import Rows

# Families whose forward pass has no step that depends on the values it computes, checked by the tests.
_MAPPED = ("bert", "roberta", "distilbert", "electra")


def why_not(model: Encoder) -> str | None:
    """Why copies of a model cannot be trained as one; None where they can."""
    kind = model.model.config.model_type
    if kind == "bilstm_attention" or kind in _MAPPED:
        return None
    known = ", ".join(("bilstm_attention", *_MAPPED))
    return f"{model.name} ({kind}) cannot be stacked, only {known}; train its seeds one by one or in several processes"


def build(models: Sequence[Encoder]) -> Stack:
    """The stack of some models of one architecture."""
    problem = why_not(models[0])
    if problem is not None:
        raise TrothError(problem)
    shapes = [{name: tensor.shape for name, tensor in model.model.state_dict().items()} for model in models]
    if any(one != shapes[0] for one in shapes):
        raise TrothError("only models of one architecture and vocabulary can be stacked")
    kind = BilstmStack if models[0].model.config.model_type == "bilstm_attention" else MappedStack
    return kind(models)


class Stack(ABC):
    """Weights of all copies; `parameters[name]` is [copies, …]."""

    def __init__(self, models: Sequence[Encoder]) -> None:
        self.one = models[0]
        self.copies = len(models)
        networks = [model.model for model in models]
        parameters, self.buffers = stack_module_state(networks)
        trained = {name for name, parameter in networks[0].named_parameters() if parameter.requires_grad}
        self.parameters: dict[str, Tensor] = {
            name: tensor.detach().requires_grad_(name in trained) for name, tensor in parameters.items()
        }

    @abstractmethod
    def logits(self, rows: Rows, *, training: bool) -> Tensor:
        """Rows of all copies one after the other, as many of each. [copies · rows, …] -> [copies · rows, classes]"""

    def write_back(self, models: Sequence[Encoder], weights: dict[str, Tensor]) -> None:
        """Each copy's weights into its own model."""
        with torch.no_grad():
            for number, model in enumerate(models):
                for name, parameter in model.model.named_parameters():
                    parameter.copy_(weights[name][number])


class MappedStack(Stack):
    """Any transformer that `vmap` can map over its weights."""

    def __init__(self, models: Sequence[Encoder]) -> None:
        super().__init__(models)
        self.network: nn.Module = self.one.model

    def logits(self, rows: Rows, *, training: bool) -> Tensor:
        inputs = self.one.inputs(rows)
        # Building a mask from a 2-D one looks at its values, which cannot be mapped; a 4-D one is taken as it is.
        lowest = torch.finfo(self.one.dtype).min
        length = rows.ids.shape[1]
        bias = torch.zeros(rows.ids.shape, device=rows.ids.device).masked_fill(~rows.real, lowest)
        inputs["attention_mask"] = bias[:, None, None, :].expand(-1, 1, length, -1)
        inputs["position_ids"] = self._positions(rows)
        if self.one.model.config.model_type == "distilbert":
            del inputs["position_ids"]
        if "token_type_ids" not in inputs and hasattr(self.one.model.config, "type_vocab_size"):
            inputs["token_type_ids"] = torch.zeros_like(rows.ids)
        tensors = {name: value for name, value in inputs.items() if isinstance(value, Tensor)}
        stacked = {name: value.reshape(self.copies, -1, *value.shape[1:]) for name, value in tensors.items()}
        self.network.train(training)

        def call(parameters: dict[str, Tensor], buffers: dict[str, Tensor], given: dict[str, Tensor]) -> Tensor:
            output: Any = functional_call(self.network, (parameters, buffers), kwargs=given)
            logits: Tensor = output.logits
            return logits

        logits: Tensor = vmap(call, randomness="different")(self.parameters, self.buffers, stacked)
        return logits.flatten(0, 1)

    def _positions(self, rows: Rows) -> Tensor:
        steps = torch.arange(rows.ids.shape[1], device=rows.ids.device)
        return (steps + (self.one._position_offset or 0)).expand_as(rows.ids)


class BilstmStack(Stack):
    """The BiLSTM with attention by hand: every product is one batched over copies (and directions)."""

    def __init__(self, models: Sequence[Encoder]) -> None:
        super().__init__(models)
        self.config = self.one.model.config

    def logits(self, rows: Rows, *, training: bool) -> Tensor:
        copies, config, length = self.copies, self.config, rows.ids.shape[1]
        real = rows.real.reshape(copies, -1, length)
        vectors = self._embed("bilstm.embeddings", rows)
        if not config.pair:
            states, _ = self._read("first", vectors, real)
            return self._decode(self._attend(states, real, None), None)
        assert rows.token_types is not None  # a word tokenizer gives them
        is_second = (rows.token_types == 1).reshape(copies, -1, length)
        if not config.shared_embedding:
            vectors = torch.where(is_second[..., None], self._embed("bilstm.second_embeddings", rows), vectors)
        in_first, in_second = real & ~is_second, real & is_second
        _, query = self._read("second", vectors, in_second)
        states, _ = self._read("first", vectors, in_first)
        return self._decode(self._attend(states, in_first, query), query)

    def _embed(self, layer: str, rows: Rows) -> Tensor:
        """[copies, rows, length, vector] each copy's own vectors; the padding token's never learn."""
        weight = self.parameters[f"{layer}.word_embeddings.weight"]
        ids = rows.ids.reshape(self.copies, -1, rows.ids.shape[1])
        offsets = torch.arange(self.copies, device=ids.device)[:, None, None] * weight.shape[1]
        vectors = nn.functional.embedding(ids + offsets, weight.flatten(0, 1))
        return torch.where((ids == self.config.pad_token_id)[..., None], vectors.detach(), vectors)

    def _read(self, text: str, vectors: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """States of the chosen tokens where they stand, [copies, rows, length, 2 hidden], and the last ones."""
        order = torch.argsort((~chosen).to(torch.uint8), dim=-1, stable=True)
        lengths = chosen.sum(-1).clamp(min=1)
        steps = torch.arange(chosen.shape[-1], device=chosen.device)
        # Backwards from each row's own end; what lies behind it stays where it is and is never looked at.
        backwards = torch.where(steps < lengths[..., None], lengths[..., None] - 1 - steps, steps)
        both = torch.stack([order, order.gather(-1, backwards)])  # [directions, copies, rows, length]
        taken = vectors.expand(2, *vectors.shape).gather(3, _wide(both, vectors.shape[-1]))
        states = self._recur(text, taken)
        last = states.gather(3, _wide((lengths - 1).expand(2, *lengths.shape)[..., None], states.shape[-1]))[:, :, :, 0]
        placed = torch.zeros_like(states).scatter(3, _wide(both, states.shape[-1]), states)
        return placed.movedim(0, -2).flatten(-2) * chosen[..., None], last.movedim(0, -2).flatten(-2)

    def _recur(self, text: str, vectors: Tensor) -> Tensor:
        """The LSTM, copies and directions side by side: [2, copies, rows, length, vector] to […, hidden]."""

        def weight(name: str) -> Tensor:
            parts = [self.parameters[f"bilstm.{text}.{name}_l0{direction}"] for direction in ("", "_reverse")]
            return torch.cat(parts)  # [2 · copies, …]

        _, copies, rows, length, _ = vectors.shape
        given = vectors.flatten(0, 1).flatten(1, 2)  # [2 · copies, rows · length, vector]
        biases = (weight("bias_ih") + weight("bias_hh"))[:, None]
        gates = torch.baddbmm(biases, given, weight("weight_ih").mT)
        gates = (
            gates.reshape(2 * copies, rows, length, -1).movedim(2, 0).contiguous()
        )  # [length, 2 · copies, rows, 4 hidden]
        recurrent = weight("weight_hh").mT
        hidden = gates.new_zeros(2 * copies, rows, recurrent.shape[1])
        cell, states = hidden, []
        for step in range(length):
            hidden, cell = _lstm_cell(gates[step], torch.bmm(hidden, recurrent), cell)
            states.append(hidden)
        return torch.stack(states, dim=2).reshape(2, copies, rows, length, -1)

    def _attend(self, states: Tensor, chosen: Tensor, query: Tensor | None) -> Tensor:
        """[copies, rows, 2 hidden] the context of the first text."""
        copies, rows, length, _ = states.shape
        inner = self._linear("bilstm.attention.states", states.flatten(1, 2)).reshape(copies, rows, length, -1)
        if query is not None:
            inner = inner + self._linear("bilstm.attention.query", query)[:, :, None]
        scores = self._linear("bilstm.attention.score", inner.tanh().flatten(1, 2)).reshape(copies, rows, length)
        weights = scores.masked_fill(~chosen, torch.finfo(states.dtype).min).softmax(-1)
        return torch.einsum("crl,crlh->crh", weights, states)

    def _decode(self, context: Tensor, query: Tensor | None) -> Tensor:
        if query is not None:
            context = (self._linear("decoder.context", context) + self._linear("decoder.query", query)).tanh()
        return self._linear("decoder.output", context).flatten(0, 1)

    def _linear(self, layer: str, given: Tensor) -> Tensor:
        """[copies, rows, in] -> [copies, rows, out]"""
        weight = self.parameters[f"{layer}.weight"].mT
        bias = self.parameters.get(f"{layer}.bias")
        return torch.bmm(given, weight) if bias is None else torch.baddbmm(bias[:, None], given, weight)


def _lstm_cell(given: Tensor, recurrent: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One step: gates [groups, rows, 4 hidden] in torch's order (input, forget, new, output)."""
    if given.is_cuda:
        # One kernel for all of it, the one nn.LSTMCell uses; it takes matrices.
        found = torch.ops.aten._thnn_fused_lstm_cell(given.flatten(0, 1), recurrent.flatten(0, 1), cell.flatten(0, 1))
        return found[0].view_as(cell), found[1].view_as(cell)
    into, forget, new, out = (given + recurrent).chunk(4, dim=-1)
    cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


def _wide(index: Tensor, size: int) -> Tensor:
    """An index that gathers whole vectors. [...] -> [..., size]"""
    return index[..., None].expand(*index.shape, size)
