"""Copies of one small model as a single batched one: their weights are stacked, [copies, …], as are their inputs."""

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
from troth.models.encoder import Encoder


def why_not(model: Encoder) -> str | None:
    """Why copies of a model cannot be trained as one; None where they can."""
    kind = model.model.config.model_type
    if kind == "bilstm_attention" or kind in families.MAPPED:
        return None
    known = ", ".join(("bilstm_attention", *families.MAPPED))
    return f"{model.name} ({kind}) cannot be stacked, only {known}; train its seeds one by one or in several processes"


def build(models: Sequence[Encoder]) -> Stack:
    """The stack of some models of one architecture."""
    problem = why_not(models[0])
    if problem is not None:
        raise TrothError(problem)
    shapes = [{name: tensor.shape for name, tensor in model.model.state_dict().items()} for model in models]
    if any(shape != shapes[0] for shape in shapes):
        raise TrothError("only models of one architecture and vocabulary can be stacked")
    if models[0].model.config.model_type == "bilstm_attention":
        from troth.training._bilstm_stack import BilstmStack

        return BilstmStack(models)
    return MappedStack(models)


class Stack(ABC):
    """Weights of all copies; `parameters[name]` is [copies, …]."""

    def __init__(self, models: Sequence[Encoder]) -> None:
        self.first = models[0]
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
        self.network: nn.Module = self.first.model

    def logits(self, rows: Rows, *, training: bool) -> Tensor:
        inputs = self.first.inputs(rows)
        # Building a mask from a 2-D one looks at its values, which cannot be mapped; a 4-D one is taken as it is.
        lowest = torch.finfo(self.first.dtype).min
        length = rows.ids.shape[1]
        bias = torch.zeros(rows.ids.shape, device=rows.ids.device).masked_fill(~rows.real, lowest)
        inputs["attention_mask"] = bias[:, None, None, :].expand(-1, 1, length, -1)
        inputs.pop("position_ids", None)
        if families.takes(self.first.model, "position_ids"):
            steps = torch.arange(length, device=rows.ids.device)
            inputs["position_ids"] = (steps + (self.first.first_position or 0)).expand_as(rows.ids)
        if "token_type_ids" not in inputs and hasattr(self.first.model.config, "type_vocab_size"):
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
