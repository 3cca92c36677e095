"""Several asks about one example as one: what two of them look at alike goes through the model once."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from troth.engine.jobs import Running
from troth.engine.looks import Ask, Look, T


def together(asks: Sequence[Ask[T]]) -> Ask[list[T]]:
    """The results of asks that differ in the class or label they ask about; equal looks share one set of passes."""
    running = [Running(ask) for ask in asks]
    while waiting := [each for each in running if not each.done and each.advance() is not None]:
        while waiting:
            first = waiting[0].look
            assert first is not None
            alike = [each for each in waiting if each.look is not None and _alike(each.look, first)]
            answer = yield first
            for each in alike:
                assert each.look is not None
                each.answer = replace(answer, question=each.look.question)
            waiting = [each for each in waiting if each not in alike]
    return [each.result for each in running]


def _alike(look: Look, other: Look) -> bool:
    """Whether the model's answers to both are the same numbers, whatever class is asked about."""
    if look is other:
        return True
    return (
        not look.want.about_target
        and (look.want, look.masking, look.purpose) == (other.want, other.masking, other.purpose)
        and look.question.encoding is other.question.encoding
        and (look.question.seed, look.question.erased_by) == (other.question.seed, other.question.erased_by)
        and torch.equal(look.question.left, other.question.left)
        and (look.question.base is None) == (other.question.base is None)
        and torch.equal(look.keep, other.keep)
        and (look.others is None) == (other.others is None)
        and (look.others is None or other.others is None or torch.equal(look.others, other.others))
    )
