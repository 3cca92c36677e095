"""The requests that servers understand and the replies that they send: one class per protocol.

`chat`, `completions` and `generate` read the most likely next tokens. `echo`, `prompt_logprobs` and `prefill` read the
log-probabilities of the tokens of a prompt, and so of any text at its end. Each can also let the server write.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from troth.core.errors import unknown

LEAST = math.log(1e-12)  # as a black box's probabilities are clipped

Messages = Sequence[tuple[str, str]]  # (role, content); a prompt without roles is one message with an empty role
Listed = list[list[Any]]  # [token, log-probability]: the most likely ones first, or those of the prompt's end in order
Tokens = tuple[int, int]  # read and written


class Request(NamedTuple):
    """One question."""

    body: dict[str, Any]
    tail: str = ""  # the end of the prompt whose log-probability is requested
    writes: bool = False  # whether the server is asked to write a text


class NoLogProbabilities(Exception):  # noqa: N818  (an expected case, turned into a TrothError by the caller)
    """The reply of the server holds no log-probabilities."""


@dataclass(frozen=True)
class Protocol(ABC):
    """One protocol. `top` is the number of tokens listed; `extra` is added to every request unchanged."""

    path: ClassVar[str]
    name: ClassVar[str]
    has_roles: ClassVar[bool] = False
    joins: ClassVar[bool] = False  # several questions may share a request
    reads_prompt: ClassVar[bool] = False  # log-probabilities of the prompt's own tokens
    usual_top: ClassVar[int] = 20

    model: str
    top: int
    extra: Mapping[str, Any] = field(default_factory=dict)

    @abstractmethod
    def questions(self, messages: Messages, words: Sequence[str]) -> list[Request]:
        """The questions about one text: how likely these words follow the messages."""

    @abstractmethod
    def writing(self, messages: Messages, most: int, temperature: float, seed: int | None) -> Request:
        """The question what the model writes: at most so many tokens."""

    @abstractmethod
    def texts(self, reply: Any, asked: Sequence[Request]) -> list[str]:
        """What was written, for each of the questions that a reply answers."""

    @abstractmethod
    def read(self, reply: Any, asked: Sequence[Request]) -> list[Listed]:
        """The log-probabilities in a reply, for each of the questions that it answers."""

    def join(self, asked: Sequence[Request]) -> dict[str, Any]:
        """The body of one request for several questions."""
        (question,) = asked
        return question.body

    def tokens(self, reply: Any) -> Tokens:
        """How many tokens were read and written, if the server reports it."""
        usage = (reply.get("usage") if isinstance(reply, dict) else None) or {}
        return int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)

    def values(self, answers: Sequence[Listed], words: Sequence[str]) -> list[float | None]:
        """The log-probability of every class word; None if it is not listed."""
        if self.reads_prompt:
            return [max(LEAST, sum(number for _, number in answer)) for answer in answers]
        return [_listed(word, answers[0]) for word in words]


@dataclass(frozen=True)
class Chat(Protocol):
    """OpenAI's chat completions: OpenAI, vLLM, TGI, llama.cpp, Ollama and many more."""

    path = "/chat/completions"
    name = "OpenAI's chat protocol"
    has_roles = True

    def questions(self, messages: Messages, words: Sequence[str]) -> list[Request]:
        asked = {"max_tokens": 1, "temperature": 0, "logprobs": True, "top_logprobs": self.top}
        return [Request({"model": self.model, "messages": _sent(messages), **asked, **self.extra})]

    def writing(self, messages: Messages, most: int, temperature: float, seed: int | None) -> Request:
        asked = {"max_tokens": most, **_sampling(temperature, seed)}
        return Request({"model": self.model, "messages": _sent(messages), **asked, **self.extra}, writes=True)

    def texts(self, reply: Any, asked: Sequence[Request]) -> list[str]:
        return [str(reply["choices"][0]["message"]["content"] or "")]

    def read(self, reply: Any, asked: Sequence[Request]) -> list[Listed]:
        return [_first_listed(reply["choices"][0].get("logprobs"))]


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

    def writing(self, messages: Messages, most: int, temperature: float, seed: int | None) -> Request:
        ((_, prompt),) = messages
        asked = {"max_tokens": most, **_sampling(temperature, seed)}
        return Request({"model": self.model, "prompt": prompt, **asked, **self.extra}, writes=True)

    def texts(self, reply: Any, asked: Sequence[Request]) -> list[str]:
        return [str(choice["text"] or "") for choice in _in_order(reply, len(asked))]

    def join(self, asked: Sequence[Request]) -> dict[str, Any]:
        first = asked[0].body
        return {**first, "prompt": [each.body["prompt"] for each in asked]} if len(asked) > 1 else first

    def read(self, reply: Any, asked: Sequence[Request]) -> list[Listed]:
        choices = _in_order(reply, len(asked))
        if not all(choice.get("logprobs") for choice in choices):
            raise NoLogProbabilities
        return [self._one(choice, each.tail) for choice, each in zip(choices, asked, strict=True)]

    def _one(self, choice: Any, tail: str) -> Listed:
        listed = (choice["logprobs"].get("top_logprobs") or [None])[0]
        return _sorted(listed.items()) if listed else _first_listed(choice["logprobs"])  # the latter: llama.cpp


@dataclass(frozen=True)
class Echo(Completions):
    """Completions that repeat the prompt with its log-probabilities: vLLM, llama.cpp's Python server."""

    reads_prompt = True

    def questions(self, messages: Messages, words: Sequence[str]) -> list[Request]:
        ((_, prompt),) = messages
        asked = {"max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True, **self.extra}
        tails = [word if prompt[-1:].isspace() or word[:1].isspace() else f" {word}" for word in words]
        return [Request({"model": self.model, "prompt": prompt + tail, **asked}, tail) for tail in tails]

    def _one(self, choice: Any, tail: str) -> Listed:
        if "tokens" not in choice["logprobs"]:
            raise NoLogProbabilities  # llama.cpp's own server ignores `echo`
        # The last token is a new one: few servers repeat a prompt and write nothing.
        tokens, numbers = (choice["logprobs"][name][:-1] for name in ("tokens", "token_logprobs"))
        return _end_of(tokens, numbers, tail)


@dataclass(frozen=True)
class PromptLogprobs(Chat):
    """vLLM's chat completions with `prompt_logprobs`: the words are the beginning of the model's own message."""

    name = "vLLM's chat protocol with prompt_logprobs"
    reads_prompt = True

    def questions(self, messages: Messages, words: Sequence[str]) -> list[Request]:
        asked = {
            "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0, "add_generation_prompt": False,
            "continue_final_message": True, **self.extra,
        }  # fmt: skip
        sent = [[*_sent(messages), {"role": "assistant", "content": word}] for word in words]
        return [
            Request({"model": self.model, "messages": each, **asked}, word)
            for each, word in zip(sent, words, strict=True)
        ]

    def read(self, reply: Any, asked: Sequence[Request]) -> list[Listed]:
        if not reply.get("prompt_logprobs"):
            raise NoLogProbabilities
        # Of each place the prompt's own token comes first; of the first place nothing is known.
        own = [next(iter(each.values())) for each in reply["prompt_logprobs"] if each]
        tokens, numbers = ([each[name] for each in own] for name in ("decoded_token", "logprob"))
        return [_end_of(tokens, numbers, asked[0].tail)]


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

    def writing(self, messages: Messages, most: int, temperature: float, seed: int | None) -> Request:
        ((_, prompt),) = messages
        asked: dict[str, Any] = {"max_new_tokens": most, "do_sample": temperature > 0, "return_full_text": False}
        if temperature > 0:
            asked |= _sampling(temperature, seed)
        return Request({"inputs": prompt, "parameters": {**asked, **self.extra}}, writes=True)

    def texts(self, reply: Any, asked: Sequence[Request]) -> list[str]:
        return [str((reply[0] if isinstance(reply, list) else reply)["generated_text"] or "")]

    def read(self, reply: Any, asked: Sequence[Request]) -> list[Listed]:
        reply = reply[0] if isinstance(reply, list) else reply
        details = reply.get("details") if "generated_text" in reply else reply["details"]
        return [self._listed(details or {}, asked[0].tail)]

    def _listed(self, details: Mapping[str, Any], tail: str) -> Listed:
        listed = (details.get("top_tokens") or [None])[0]
        if not listed:
            raise NoLogProbabilities
        return _sorted((each["text"], each["logprob"]) for each in listed)

    def tokens(self, reply: Any) -> Tokens:
        details = (reply[0] if isinstance(reply, list) else reply).get("details") or {}
        return len(details.get("prefill") or ()), int(details.get("generated_tokens") or 0)


@dataclass(frozen=True)
class Prefill(Generate):
    """TGI's /generate with `decoder_input_details`: the log-probability of every token of the prompt."""

    reads_prompt = True

    def questions(self, messages: Messages, words: Sequence[str]) -> list[Request]:
        ((_, prompt),) = messages
        asked = {"max_new_tokens": 1, "details": True, "decoder_input_details": True, "do_sample": False, **self.extra}
        tails = [word if prompt[-1:].isspace() or word[:1].isspace() else f" {word}" for word in words]
        return [Request({"inputs": prompt + tail, "parameters": asked}, tail) for tail in tails]

    def _listed(self, details: Mapping[str, Any], tail: str) -> Listed:
        if not (prefill := details.get("prefill")):
            raise NoLogProbabilities
        return _end_of([each["text"] for each in prefill], [each["logprob"] for each in prefill], tail)


PROTOCOLS: dict[str, type[Protocol]] = {
    "chat": Chat, "completions": Completions, "echo": Echo, "generate": Generate, "prompt_logprobs": PromptLogprobs,
    "prefill": Prefill,
}  # fmt: skip


def api_of(protocol: type[Protocol]) -> str:
    """The name by which a protocol is chosen."""
    return next(name for name, each in PROTOCOLS.items() if each is protocol)


def protocol_of(url: str, api: str | None, usual: str = "chat") -> type[Protocol]:
    """By name, else by how the URL ends."""
    if api is not None and api not in PROTOCOLS:
        raise unknown("api", str(api), PROTOCOLS)
    ends = (name for name, each in PROTOCOLS.items() if url.rstrip("/").endswith(each.path))
    return PROTOCOLS[api or next(ends, usual)]


def _sent(messages: Messages) -> list[dict[str, str]]:
    return [{"role": role or "user", "content": content} for role, content in messages]


def _first_listed(found: Any) -> Listed:
    """The most likely tokens at the first place, as chat completions list them."""
    content = found.get("content") if isinstance(found, dict) else None
    if not content:
        raise NoLogProbabilities
    listed = content[0].get("top_logprobs") or [content[0]]
    return _sorted((each["token"], each["logprob"]) for each in listed)


def _sampling(temperature: float, seed: int | None) -> dict[str, Any]:
    return {"temperature": temperature, **({} if seed is None else {"seed": seed})}


def _in_order(reply: Any, count: int) -> list[Any]:
    """The choices of a reply, one for each question."""
    choices = sorted(reply["choices"], key=lambda choice: choice["index"])
    if [choice["index"] for choice in choices] != list(range(count)):
        raise ValueError
    return choices


def _end_of(tokens: Sequence[str], numbers: Sequence[float | None], tail: str) -> Listed:
    """The last tokens, as many as spell the tail; the first of them may begin before it."""
    found: Listed = []
    left = len(tail)
    for token, number in zip(reversed(tokens), reversed(numbers), strict=True):
        if left <= 0:
            break
        if number is None:
            raise NoLogProbabilities
        found.append([str(token), float(number)])
        left -= max(1, len(token))
    if left > 0:
        raise ValueError
    return found[::-1]


def _sorted(listed: Any) -> Listed:
    pairs = [[str(token), max(LEAST, float(number))] for token, number in listed]
    return sorted(pairs, key=lambda pair: -pair[1])


def _listed(word: str, listed: Listed) -> float | None:
    """The log-probability of a word: of all listed tokens that spell it, with or without white space around it."""
    same = [math.exp(number) for token, number in listed if bare(token) == word]
    return max(LEAST, math.log(sum(same))) if same else None


def bare(token: str) -> str:
    """A token without white space, and without the marks that tokenizers use for it."""
    return token.strip("ĠĊ▁").strip()
