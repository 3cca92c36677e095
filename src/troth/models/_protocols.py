"""How a server is asked for the log-probabilities of class words, and what its answers look like: one class each.

`chat`, `completions` and `generate` read the likeliest next tokens, `echo` the log-probability of every class word.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from troth.core.errors import unknown

LEAST = math.log(1e-12)  # as a black box's probabilities are clipped

Messages = Sequence[tuple[str, str]]  # (role, content); of a prompt without roles one, whose role is empty
Listed = list[list[Any]]  # [token, log-probability], likeliest first
Tokens = tuple[int, int]  # read and written


class Request(NamedTuple):
    """One question."""

    body: dict[str, Any]
    tail: str = ""  # the end of the prompt whose log-probability is wanted


class NoLogProbabilities(Exception):  # noqa: N818  (it says what is missing; nobody but the model sees it)
    """The server answers, but without them."""


@dataclass(frozen=True)
class Protocol(ABC):
    """One way to ask. `top` is how many tokens are listed, `extra` goes into every request as it is."""

    path: ClassVar[str]
    name: ClassVar[str]
    has_roles: ClassVar[bool] = False
    joins: ClassVar[bool] = False  # several questions may share a request
    usual_top: ClassVar[int] = 20

    model: str
    top: int
    extra: Mapping[str, Any] = field(default_factory=dict)

    @abstractmethod
    def questions(self, messages: Messages, words: Sequence[str]) -> list[Request]:
        """All that is asked about one text."""

    @abstractmethod
    def read(self, reply: Any, asked: Sequence[Request]) -> list[Listed]:
        """What is kept of an answer, for each of the questions that it answers."""

    def join(self, asked: Sequence[Request]) -> dict[str, Any]:
        """Several questions as one request."""
        (question,) = asked
        return question.body

    def tokens(self, reply: Any) -> Tokens:
        """How many tokens were read and written, where the server says so."""
        usage = (reply.get("usage") if isinstance(reply, dict) else None) or {}
        return int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)

    def values(self, answers: Sequence[Listed], words: Sequence[str]) -> list[float | None]:
        """The log-probability of every class word; None where it is not listed."""
        return [_listed(word, answers[0]) for word in words]


@dataclass(frozen=True)
class Chat(Protocol):
    """OpenAI's chat completions: OpenAI, vLLM, TGI, llama.cpp, Ollama and many more."""

    path = "/chat/completions"
    name = "OpenAI's chat protocol"
    has_roles = True

    def questions(self, messages: Messages, words: Sequence[str]) -> list[Request]:
        sent = [{"role": role or "user", "content": content} for role, content in messages]
        asked = {"max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": self.top}
        return [Request({"model": self.model, "messages": sent, **asked, **self.extra})]

    def read(self, reply: Any, asked: Sequence[Request]) -> list[Listed]:
        found = reply["choices"][0].get("logprobs")
        content = found.get("content") if isinstance(found, dict) else None
        if not content:
            raise NoLogProbabilities
        listed = content[0].get("top_logprobs") or [content[0]]
        return [_sorted((each["token"], each["logprob"]) for each in listed)]


@dataclass(frozen=True)
class Completions(Protocol):
    """OpenAI's completions of plain text: vLLM and other servers that take a prompt as it is."""

    path = "/completions"
    name = "OpenAI's completions protocol"
    joins = True

    def questions(self, messages: Messages, words: Sequence[str]) -> list[Request]:
        ((_, prompt),) = messages
        asked = {"max_tokens": 1, "temperature": 0, "logprobs": self.top}
        return [Request({"model": self.model, "prompt": prompt, **asked, **self.extra})]

    def join(self, asked: Sequence[Request]) -> dict[str, Any]:
        first = asked[0].body
        return {**first, "prompt": [each.body["prompt"] for each in asked]} if len(asked) > 1 else first

    def read(self, reply: Any, asked: Sequence[Request]) -> list[Listed]:
        choices = sorted(reply["choices"], key=lambda choice: choice["index"])
        if [choice["index"] for choice in choices] != list(range(len(asked))):
            raise ValueError
        if not all(choice.get("logprobs") for choice in choices):
            raise NoLogProbabilities
        return [self._one(choice, each.tail) for choice, each in zip(choices, asked, strict=True)]

    def _one(self, choice: Any, tail: str) -> Listed:
        listed = (choice["logprobs"].get("top_logprobs") or [None])[0]
        if not listed:
            raise NoLogProbabilities
        return _sorted(listed.items())


@dataclass(frozen=True)
class Echo(Completions):
    """Completions that repeat the prompt with its log-probabilities (vLLM): class words of any length, none missing."""

    def questions(self, messages: Messages, words: Sequence[str]) -> list[Request]:
        ((_, prompt),) = messages
        asked = {"max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True, **self.extra}
        tails = [word if prompt[-1:].isspace() else f" {word}" for word in words]
        return [Request({"model": self.model, "prompt": prompt + tail, **asked}, tail) for tail in tails]

    def _one(self, choice: Any, tail: str) -> Listed:
        # The last token is a new one: few servers repeat a prompt and write nothing.
        tokens, numbers = (choice["logprobs"][name][:-1] for name in ("tokens", "token_logprobs"))
        left, total = len(tail), 0.0
        for token, number in zip(reversed(tokens), reversed(numbers), strict=True):
            if left <= 0:
                break
            if number is None:
                raise NoLogProbabilities
            left, total = left - max(1, len(token)), total + float(number)
        if left > 0:
            raise ValueError
        return [[tail, total]]

    def values(self, answers: Sequence[Listed], words: Sequence[str]) -> list[float | None]:
        return [max(LEAST, answer[0][1]) for answer in answers]


@dataclass(frozen=True)
class Generate(Protocol):
    """Hugging Face's text-generation-inference (TGI)."""

    path = "/generate"
    name = "TGI's protocol"
    usual_top = 5  # what such a server allows, unless it was started with --max-top-n-tokens

    def questions(self, messages: Messages, words: Sequence[str]) -> list[Request]:
        ((_, prompt),) = messages
        asked = {"max_new_tokens": 1, "details": True, "top_n_tokens": self.top, "do_sample": False}
        return [Request({"inputs": prompt, "parameters": {**asked, **self.extra}})]

    def read(self, reply: Any, asked: Sequence[Request]) -> list[Listed]:
        reply = reply[0] if isinstance(reply, list) else reply
        details = reply.get("details") if "generated_text" in reply else reply["details"]
        listed = ((details or {}).get("top_tokens") or [None])[0]
        if not listed:
            raise NoLogProbabilities
        return [_sorted((each["text"], each["logprob"]) for each in listed)]

    def tokens(self, reply: Any) -> Tokens:
        details = (reply[0] if isinstance(reply, list) else reply).get("details") or {}
        return len(details.get("prefill") or ()), int(details.get("generated_tokens") or 0)


PROTOCOLS: dict[str, type[Protocol]] = {"chat": Chat, "completions": Completions, "echo": Echo, "generate": Generate}


def protocol_of(url: str, api: str | None) -> type[Protocol]:
    """By name, else by how the URL ends; OpenAI's chat by default."""
    if api is not None and api not in PROTOCOLS:
        raise unknown("api", str(api), PROTOCOLS)
    ends = (name for name, each in PROTOCOLS.items() if url.rstrip("/").endswith(each.path))
    return PROTOCOLS[api or next(ends, "chat")]


def _sorted(listed: Any) -> Listed:
    pairs = [[str(token), max(LEAST, float(number))] for token, number in listed]
    return sorted(pairs, key=lambda pair: -pair[1])


def _listed(word: str, listed: Listed) -> float | None:
    """The log-probability of a word: of all tokens that are it, with white space around it or without."""
    same = [math.exp(number) for token, number in listed if bare(token) == word]
    return max(LEAST, math.log(sum(same))) if same else None


def bare(token: str) -> str:
    """A token without white space, also as tokenizers write it."""
    return token.strip("ĠĊ▁").strip()
