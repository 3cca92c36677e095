"""Questions to an endpoint, several at a time: each is asked once, and its answer kept before the next is sent."""

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from troth.core import arguments
from troth.core.errors import TrothError
from troth.models._answers import Answers, Usage, key_of
from troth.models._endpoint import Endpoint
from troth.models._protocols import Asked, Listed, NoLogProbabilities, Protocol

_BATCH = 16  # questions per request, where a server takes several
Prices = Sequence[float]  # per million tokens read, and written


class Asking:
    """An endpoint, the protocol it speaks, what it has answered so far, and what that has cost."""

    def __init__(
        self, endpoint: Endpoint, protocol: Protocol, answers: Answers, parallel: int, prices: Prices | None
    ) -> None:
        self.endpoint, self.protocol, self.parallel, self.prices = endpoint, protocol, parallel, prices
        self.reused = 0  # answers that were known
        self._answers, self._before = answers, answers.usage

    def answers(self, asked: Sequence[Asked]) -> Iterator[Listed]:
        """What the endpoint says to each question; those that it was asked before cost nothing."""
        keys = [key_of(self.endpoint.url, question.body) for question in asked]
        self._answers.refresh()
        new = {key: question for key, question in zip(keys, asked, strict=True) if key not in self._answers}
        self.reused += len(set(keys)) - len(new)
        waiting = list(new.items())
        step = _BATCH if self.protocol.joins else 1
        with ThreadPoolExecutor(self.parallel) as pool:
            requests = [pool.submit(self._ask, waiting[at : at + step]) for at in range(0, len(waiting), step)]
            try:
                for request in requests:
                    request.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # answers to what is under way are still kept
                raise
        self._answers.refresh()
        return iter([self._answers[key] for key in keys])

    def _ask(self, questions: Sequence[tuple[str, Asked]]) -> None:
        protocol, asked = self.protocol, [question for _, question in questions]
        reply = self.endpoint.post(protocol.path, protocol.join(asked), protocol.name)
        try:
            found, tokens = protocol.read(reply, asked), protocol.tokens(reply)
        except NoLogProbabilities:
            raise TrothError(
                f"endpoint {self.endpoint.url} gives no log-probabilities for model {self.endpoint.model!r}, which "
                "explaining needs; use a server that does (OpenAI, vLLM, TGI), or another api="
            ) from None
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self.endpoint.garbled(protocol.name) from None
        usage = Usage(1, *tokens)
        for (key, _), answer in zip(questions, found, strict=True):
            self._answers.add(key, answer, usage)
            usage = Usage()  # a request is counted once, whatever it answers

    @property
    def usage(self) -> Usage:
        """Requests and tokens since this began, by all processes that share its answers."""
        self._answers.refresh()
        return self._answers.usage - self._before

    @property
    def cost(self) -> float | None:
        """What that cost, at the prices given."""
        if self.prices is None:
            return None
        usage = self.usage
        return (usage.read * self.prices[0] + usage.written * self.prices[1]) / 1e6

    def spent(self) -> Iterator[str]:
        """The same in words."""
        usage, cost = self.usage, self.cost
        yield f"{usage.requests:,} request{'' if usage.requests == 1 else 's'} to {self.endpoint.url}"
        if self.reused:
            yield f"{self.reused:,} answer{'' if self.reused == 1 else 's'} known from before"
        if usage.read or usage.written:
            yield f"{usage.read:,} tokens read, {usage.written:,} written"
        if cost is not None:
            yield f"cost {cost:,.4f} at the prices given"


def check_options(
    *, top: Any, parallel: Any, retries: Any, timeout: Any, backoff: Any, prices: Any, key_variable: str | None
) -> None:
    """One line for an option of an endpoint that cannot be."""
    for name, value, least in (("top", top, 1), ("parallel", parallel, 1), ("retries", retries, 0)):
        arguments.of_kind(name, value, int, "a whole number")
        if value < least:
            raise TrothError(f"{name} must be {least} or more, not {value}")
    for name, value in (("timeout", timeout), ("backoff", backoff)):
        if not _is_number(value) or not value > 0:
            raise TrothError(f"{name} must be a number of seconds above 0, not {value!r}")
    is_pair = isinstance(prices, list | tuple) and len(prices) == 2
    if prices is not None and not (is_pair and all(_is_number(price) and price >= 0 for price in prices)):
        raise TrothError(f"prices must be two numbers, per million tokens read and written, not {prices!r}")
    if key_variable and not os.environ.get(key_variable):
        raise TrothError(
            f"the environment variable {key_variable} is not set; put the key there: export {key_variable}=…"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
