"""The model, the tokenizer and the random generators are left as they were."""

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from troth.refereeing import rule
from troth.refereeing.known import PRODUCT
from troth.refereeing.situations import Situation, known, tiny
from troth.refereeing.subject import DoesNotApplyError, Subject, ViolationError, seeded
from troth.refereeing.tokenizers import begin_only

TEXT = "not very good film"
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def mode_kept(subject: Subject) -> None:
    """Every layer is left in training or evaluation mode, as it was."""
    for training in (False, True):
        place = tiny()
        place.model.train(training)
        _unchanged(subject, place, lambda place: [module.training for module in place.model.modules()], _modes)


def hooks_removed(subject: Subject) -> None:
    """No hook is left on any layer."""
    place = tiny()
    _unchanged(
        subject,
        place,
        lambda place: [sum(len(getattr(module, kind)) for kind in _HOOKS) for module in place.model.modules()],
        lambda before, after: f"{sum(after) - sum(before)} hooks",
    )


def gradients_kept(subject: Subject) -> None:
    """The parameters' stored gradients and `requires_grad` flags are left unchanged."""
    place = tiny()
    for number, parameter in enumerate(place.model.parameters()):
        parameter.grad = torch.ones_like(parameter) if number % 2 else None
        parameter.requires_grad_(number % 3 > 0)

    def state(place: Situation) -> list[Any]:
        return [
            (None if each.grad is None else float(each.grad.sum()), each.requires_grad)
            for each in place.model.parameters()
        ]

    _unchanged(subject, place, state, lambda before, after: _count(before, after, "parameters"))


def weights_kept(subject: Subject) -> None:
    """The weights, their dtype and the layers themselves are left unchanged."""

    def state(place: Situation) -> list[Any]:
        model = place.model
        weights = [(name, each.dtype, float(each.double().sum())) for name, each in model.state_dict().items()]
        return [*weights, *(id(module) for module in model.modules()), id(model.get_input_embeddings().weight)]

    for place in _with_and_without_mask(subject):
        _unchanged(subject, place, state, lambda before, after: _count(before, after, "weights or layers"))


def settings_kept(subject: Subject) -> None:
    """The model's configuration is left unchanged."""

    def state(place: Situation) -> list[Any]:
        config = place.model.config.to_dict() | {"attention": place.model.config._attn_implementation}
        return sorted((name, str(value)) for name, value in config.items())

    for place in _with_and_without_mask(subject):
        _unchanged(subject, place, state, _first_difference)


def tokenizer_kept(subject: Subject) -> None:
    """The tokenizer's padding side, truncation side, maximum length and special tokens are left unchanged."""

    def state(place: Situation) -> list[Any]:
        # Not what transformers itself sets in every call: the padding and truncation of the Rust tokenizer.
        own = place.tokenizer
        facts = {
            "padding_side": own.padding_side, "truncation_side": own.truncation_side, "size": len(own),
            "model_max_length": own.model_max_length, "special tokens": sorted(own.special_tokens_map.items()),
        }  # fmt: skip
        return sorted((name, str(value)) for name, value in facts.items())

    for place in _with_and_without_mask(subject):
        _unchanged(subject, place, state, _first_difference)


def random_state_kept(subject: Subject) -> None:
    """The global random generators are left as they were; a sampling method may draw from them, but not seed them."""
    sources: dict[str, Callable[[], Any]] = {
        "random": random.getstate,
        "numpy.random": lambda: [part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()],
        "torch": lambda: torch.get_rng_state().tolist(),
    }
    place = tiny()
    draws = subject.noise(place, TEXT) > 0
    ended = []
    for seed in (11, 12):
        with seeded(seed):
            before = {name: state() for name, state in sources.items()}
            subject.call(place, [TEXT], seed=None)
            ended.append({name: (before[name], state()) for name, state in sources.items()})
    for name in sources:
        (before, first), (_, second) = ended[0][name], ended[1][name]
        if before != first and (first == second or not draws):
            got = (
                "it was seeded"
                if first == second
                else "random numbers were drawn, although the scores do not depend on them"
            )
            raise ViolationError(f"the state of {name} as before", got, TEXT)


@rule(unless=["class_free"])
def bfloat16(subject: Subject) -> None:
    """A model in bfloat16 gets about the same scores as in float32."""
    (wanted,) = subject(known("logit", PRODUCT), [TEXT])
    place = known("logit", PRODUCT)
    place.model.to(torch.bfloat16)
    (got,) = subject(place, [TEXT])
    if np.abs(wanted.scores - got.scores).max() > (0.1 + 4 * subject.spread) * np.abs(wanted.scores).max():
        raise ViolationError(f"{wanted} (as in float32)", str(got), TEXT)


def _with_and_without_mask(subject: Subject) -> Iterator[Situation]:
    """A model whose tokenizer has all special tokens, and if supported one whose tokenizer cannot pad or mask."""
    yield tiny()
    place = subject.known(PRODUCT, begin_only)
    with contextlib.suppress(DoesNotApplyError, ViolationError):  # an error is reported by begin_token_only
        subject.call(subject.known(PRODUCT, begin_only), [TEXT])
        yield place


def _unchanged(
    subject: Subject,
    place: Situation,
    state: Callable[[Situation], list[Any]],
    describe: Callable[[list[Any], list[Any]], str],
) -> None:
    before = state(place)
    subject.call(place, [TEXT, "good film"] if place.tokenizer.pad_token else [TEXT])
    after = state(place)
    if before != after:
        raise ViolationError("no change", describe(before, after), TEXT)


def _modes(before: list[bool], after: list[bool]) -> str:
    word = "training" if sum(after) > sum(before) else "evaluation"
    return f"{sum(a != b for a, b in zip(before, after, strict=True))} layers in {word} mode"


def _count(before: list[Any], after: list[Any], what: str) -> str:
    if len(before) != len(after):
        return f"{len(after)} {what} instead of {len(before)}"
    return f"{sum(a != b for a, b in zip(before, after, strict=True))} {what} changed"


def _first_difference(before: list[Any], after: list[Any]) -> str:
    for one, other in zip(before, after, strict=False):
        if one != other:
            return f"{other[0]} {other[1]} instead of {one[1]}"
    return f"{len(after)} settings instead of {len(before)}"
