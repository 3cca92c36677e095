"""Several copies of one small model as a single batched model: weights and inputs are stacked, [copies, …].

The time of one step of a small recurrent network is dominated by launching kernels. So the BiLSTM with attention has
its own stack, in which every product is batched over copies and directions: two kernels per step in the forward pass,
three in the backward pass, and one product for the weights' gradients at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from troth.core.errors import TrothError
from troth.core.types import Rows
from troth.models import families
from troth.models.bilstm_attention import attended
from troth.models.encoder import Encoder


def why_not(model: Encoder) -> str | None:
    """Why the copies of a model cannot be trained as one; None if they can."""
    kind = model.model.config.model_type
    if kind == "bilstm_attention" or kind in families.MAPPED:
        return None
    known = ", ".join(("bilstm_attention", *families.MAPPED))
    return f"{model.name} ({kind}) cannot be stacked, only {known}; train its seeds one by one or in several processes"


def build(models: Sequence[Encoder]) -> Stack:
    """Builds the stack of several models of one architecture."""
    problem = why_not(models[0])
    if problem is not None:
        raise TrothError(problem)
    shapes = [{name: tensor.shape for name, tensor in model.model.state_dict().items()} for model in models]
    if any(shape != shapes[0] for shape in shapes):
        raise TrothError("only models of one architecture and vocabulary can be stacked")
    if models[0].model.config.model_type == "bilstm_attention":
        return BilstmStack(models)
    return MappedStack(models)


class Stack(ABC):
    """The weights of all copies; `parameters[name]` is [copies, …]."""

    def __init__(self, models: Sequence[Encoder]) -> None:
        self.first, self.copies = models[0], len(models)
        self.network: nn.Module = self.first.model
        self.config = self.first.model.config
        networks = [model.model for model in models]
        parameters, self.buffers = stack_module_state(networks)
        trained = {name for name, parameter in networks[0].named_parameters() if parameter.requires_grad}
        self.parameters: dict[str, Tensor] = {
            name: tensor.detach().requires_grad_(name in trained) for name, tensor in parameters.items()
        }

    @abstractmethod
    def logits(self, rows: Rows, *, training: bool) -> Tensor:
        """The logits for rows of all copies, one copy after the other, the same number of rows each. [copies · rows, …]
        -> [copies · rows, classes]
        """

    @torch.no_grad()
    def write_back(self, models: Sequence[Encoder]) -> None:
        """Copies the weights into the model of each copy."""
        for number, model in enumerate(models):
            for name, parameter in model.model.named_parameters():
                parameter.copy_(self.parameters[name][number])
            model.model.eval()


class MappedStack(Stack):
    """Any transformer whose forward pass can be mapped over its weights with `vmap`."""

    def logits(self, rows: Rows, *, training: bool) -> Tensor:
        inputs = self.first.inputs(rows)
        # transformers inspects the values of a 2-D mask, which vmap does not allow; a 4-D mask is used as it is.
        lowest = torch.finfo(self.first.dtype).min
        length = rows.ids.shape[1]
        bias = torch.zeros(rows.ids.shape, device=rows.ids.device).masked_fill(~rows.real, lowest)
        inputs["attention_mask"] = bias[:, None, None, :].expand(-1, 1, length, -1)
        inputs.pop("position_ids", None)
        if families.takes(self.network, "position_ids"):
            steps = torch.arange(length, device=rows.ids.device)
            inputs["position_ids"] = (steps + (self.first.first_position or 0)).expand_as(rows.ids)
        if "token_type_ids" not in inputs and hasattr(self.config, "type_vocab_size"):
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


class BilstmStack(Stack):
    """The BiLSTM with attention; rows are those of all copies, one copy after the other."""

    def logits(self, rows: Rows, *, training: bool) -> Tensor:
        shape = (self.copies, -1, rows.ids.shape[1])
        ids, real = rows.ids.reshape(shape), rows.real.reshape(shape)
        in_first, query = real, None
        if self.config.pair:
            assert rows.token_types is not None  # the word tokenizer always sets them
            is_second = rows.token_types.reshape(shape) == 1
            in_first, second = real & ~is_second, _Order(real & is_second)
            of_second = "embeddings" if self.config.shared_embedding else "second_embeddings"
            query = second.last(self._recur("second", self._embed(of_second, ids, second)))
        first = _Order(in_first)
        states = first.in_place(self._recur("first", self._embed("embeddings", ids, first)))
        return self._decode(self._attend(states, attended(self.config.first_attended_id, ids, in_first), query), query)

    def _embed(self, layer: str, ids: Tensor, order: _Order) -> Tensor:
        """[2, copies, rows, length, vector] each copy's word vectors; that of the padding token is never updated."""
        weight = self.parameters[f"bilstm.{layer}.word_embeddings.weight"]
        taken = ids.expand(2, *ids.shape).gather(-1, order.taken)
        offsets = torch.arange(self.copies, device=ids.device)[:, None, None] * weight.shape[1]
        vectors = nn.functional.embedding(taken + offsets, weight.flatten(0, 1))
        return torch.where((taken == self.config.pad_token_id)[..., None], vectors.detach(), vectors)

    def _recur(self, text: str, vectors: Tensor) -> Tensor:
        """Runs the LSTM for all copies and directions at once: [2, copies, rows, length, vector] to […, hidden]."""

        def weight(name: str) -> Tensor:
            parts = [self.parameters[f"bilstm.{text}.{name}_l0{direction}"] for direction in ("", "_reverse")]
            return torch.cat(parts)  # [2 · copies, …]

        _, copies, rows, length, _ = vectors.shape
        # Time is the first dimension, so that the gates of one step are contiguous.
        given = vectors.permute(0, 1, 3, 2, 4).reshape(2 * copies, length * rows, -1)
        biases = (weight("bias_ih") + weight("bias_hh"))[:, None]
        gates = torch.baddbmm(biases, given, weight("weight_ih").mT)
        gates = gates.reshape(2 * copies, length, rows, -1).transpose(0, 1).contiguous()
        states: Tensor = _Recurrence.apply(gates, weight("weight_hh").mT.contiguous())  # type: ignore[no-untyped-call]
        return states.reshape(length, 2, copies, rows, -1).permute(1, 2, 3, 0, 4)

    def _attend(self, states: Tensor, chosen: Tensor, query: Tensor | None) -> Tensor:
        """[copies, rows, 2 hidden] the context vector of the first text."""
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


class _Order:
    """The selected tokens of each row in both directions, then the others. `chosen` is [copies, rows, length]."""

    def __init__(self, chosen: Tensor) -> None:
        self.chosen = chosen
        self.lengths = chosen.sum(-1).clamp(min=1)
        self.longest = int(self.lengths.max())  # a short question takes few steps, even after a long story
        order = torch.argsort((~chosen).to(torch.uint8), dim=-1, stable=True)
        steps = torch.arange(chosen.shape[-1], device=chosen.device)
        # Reversed from the end of each row; positions behind it keep their place and are never read.
        backwards = torch.where(steps < self.lengths[..., None], self.lengths[..., None] - 1 - steps, steps)
        self.order = torch.stack([order, order.gather(-1, backwards)])  # [directions, copies, rows, length]
        self.taken = self.order[..., : self.longest]

    def in_place(self, states: Tensor) -> Tensor:
        """Puts states back at the positions of their tokens, 0 elsewhere: [2, copies, rows, steps, hidden] -> [copies,
        …, 2 hidden].
        """
        back = torch.argsort(self.order, dim=-1).clamp(max=self.longest - 1)
        placed: Tensor = _Permuted.apply(states, back, self.taken)  # type: ignore[no-untyped-call]
        return placed.movedim(0, -2).flatten(-2) * self.chosen[..., None]

    def last(self, states: Tensor) -> Tensor:
        """The state after the last token of each row, both directions: [copies, rows, 2 hidden]."""
        index = (self.lengths - 1).expand(2, *self.lengths.shape)[..., None]
        return states.gather(3, _wide(index, states.shape[-1]))[:, :, :, 0].movedim(0, -2).flatten(-2)


class _Permuted(torch.autograd.Function):
    """Permutes vectors along dimension 3. Autograd's own gather would sum gradients, which is not needed for a
    permutation.

    If several positions read one vector, all but one of them are multiplied by 0 afterwards.
    """

    @staticmethod
    def forward(ctx: Any, given: Tensor, order: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(back)
        return given.gather(3, _wide(order, given.shape[-1]))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (back,) = ctx.saved_tensors
        return gradient.gather(3, _wide(back, gradient.shape[-1])), None, None


class _Recurrence(torch.autograd.Function):
    """Iterates hidden, cell = cell(gates[step] + hidden · recurrent, cell) and returns all hidden states.

    `gates` is [length, groups, rows, 4 hidden] in torch's order (input, forget, new, output), `recurrent` is [groups,
    hidden, 4 hidden].
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, recurrent: Tensor) -> Tensor:
        length, groups, rows, wide = gates.shape
        cell = gates.new_zeros(groups * rows, wide // 4)
        states, cells, spaces = [cell.view(groups, rows, -1)], [cell], []
        for step in range(length):
            added = torch.bmm(states[-1], recurrent)
            hidden, cell, space = _cell(gates[step].view(-1, wide), added.view(-1, wide), cell)
            states.append(hidden.view(groups, rows, -1))
            cells.append(cell)
            spaces.append(space)
        stacked = torch.stack(states)
        ctx.save_for_backward(recurrent, stacked, *cells, *spaces)
        return stacked[1:]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        recurrent, states, *rest = ctx.saved_tensors
        length, groups, rows, _ = gradient.shape
        cells, spaces = rest[: length + 1], rest[length + 1 :]
        toward, of_hidden = recurrent.mT.contiguous(), gradient.contiguous()
        of_gates: list[Tensor] = []
        of_cell = torch.zeros_like(cells[0])
        later: Tensor | None = None
        for step in reversed(range(length)):
            total = of_hidden[step] if later is None else of_hidden[step] + later
            found, of_cell = _cell_backward(total.flatten(0, 1), of_cell, cells[step], cells[step + 1], spaces[step])
            of_gates.append(found.view(groups, rows, -1))
            later = torch.bmm(of_gates[-1], toward)
        stacked = torch.stack(of_gates[::-1])  # [length, groups, rows, 4 hidden]
        before = states[:-1].transpose(0, 1).flatten(1, 2)
        of_recurrent = torch.bmm(before.mT, stacked.transpose(0, 1).flatten(1, 2))
        return stacked, of_recurrent


def _cell(given: Tensor, recurrent: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One step on matrices [rows, 4 hidden]; also returns the gates' values for the backward pass."""
    if given.is_cuda:
        found = torch.ops.aten._thnn_fused_lstm_cell(given, recurrent, cell)  # one kernel, the same as in nn.LSTMCell
        return found[0], found[1], found[2]
    gates = given + recurrent
    into, forget, new, out = gates.chunk(4, dim=1)
    for gate in (into, forget, out):
        gate.sigmoid_()
    new.tanh_()
    later = forget * cell + into * new
    return out * later.tanh(), later, gates


def _cell_backward(
    of_hidden: Tensor, of_cell: Tensor, cell: Tensor, later: Tensor, gates: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of the gates before their activation functions and of the previous cell state."""
    if of_hidden.is_cuda:
        found = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(of_hidden, of_cell, cell, later, gates, False)
        return found[0], found[1]
    into, forget, new, out = gates.chunk(4, dim=1)
    squashed = later.tanh()
    total = of_cell + of_hidden * out * (1 - squashed * squashed)
    parts = (
        total * new * into * (1 - into),
        total * cell * forget * (1 - forget),
        total * into * (1 - new * new),
        of_hidden * squashed * out * (1 - out),
    )
    return torch.cat(parts, dim=1), total * forget


def _wide(index: Tensor, size: int) -> Tensor:
    """Expands an index so that it gathers whole vectors. [...] -> [..., size]"""
    return index[..., None].expand(*index.shape, size)
