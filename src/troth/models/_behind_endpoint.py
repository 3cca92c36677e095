"""What all models behind an endpoint share: a prompt, requests for erased texts, and what they have cost.

The server is sent whole prompts in which units were deleted or replaced, so only methods that erase can explain it.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import torch

from troth.core.display import counted
from troth.core.errors import TrothError
from troth.core.hashing import digest
from troth.core.types import Encoding, Example, Rows
from troth.core.units import UnitKind
from troth.models._asking import Asking, Prices, Usage, is_number
from troth.models._encoding import Units
from troth.models._endpoint import is_url
from troth.models._prompts import PAIR, SHOTS, TEXT, Roles, Template
from troth.models._protocols import Messages, Protocol, Request, api_of, protocol_of
from troth.models.base import Output, Segments, TextClassifier
from troth.models.black_box import BlackBox, erased_texts

# What an option is, how the command line takes it, and an example in Python.
_OPTIONS = {
    "model": ("the model's name", "--model {url}#gpt-4o-mini", '"gpt-4o-mini"'),
    "prompt": ("a prompt", '--prompt "… {{text}} …"', '"… {text} …"'),
    "class_words": ("class words", "--class-words good,bad", '["good", "bad"]'),
}
_CHARACTERS = 4  # per token, roughly: for estimates before anything is sent


class BehindEndpoint(BlackBox):
    """An endpoint, the name of a model there, and a prompt; a kind says what is asked about each erased text."""

    kind = "a model behind an endpoint"
    dtype = torch.float32
    examples_under_way = 16
    needs: ClassVar[Sequence[str]] = ("model", "prompt")  # names of options
    shared: ClassVar[tuple[str, ...]] = (
        "model", "prompt", "system", "explain_parts", "mask_text", "api", "top", "parallel", "retries", "timeout",
        "backoff", "key_variable", "prices", "max_requests", "cache", "extra",
    )  # fmt: skip
    template: Template

    def connect(
        self,
        url: str,
        protocol: type[Protocol],
        *,
        model: str,
        top: int | None,
        mask_text: str,
        prices: Prices | None,
        extra: Mapping[str, Any] | None,
        connection: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Prepares the requests; returns the options that identify the model."""
        top = protocol.usual_top if top is None else top
        self.url = url
        self.protocol = protocol(model, top, dict(extra or {}))
        self.asking = Asking(url, self.protocol, **connection)
        is_pair = isinstance(prices, list | tuple) and len(prices) == 2
        if prices is not None and not (is_pair and all(is_number(price) and price >= 0 for price in prices)):
            raise TrothError(f"prices must be two numbers, per million tokens read and written, not {prices!r}")
        self.name, self.mask_text, self.prices = f"{url}#{model}", mask_text, prices
        return {
            "model": model, "mask_text": mask_text, "api": api_of(protocol), "top": top, "extra": extra,
            "key_variable": connection.get("key_variable"),
        }  # fmt: skip

    @staticmethod
    def protocol_for(url: str, api: str | None, usual: str = "chat") -> tuple[type[Protocol], Roles | None]:
        """The protocol, and the marks of messages where it is sent roles."""
        protocol = protocol_of(url, api, usual)
        return protocol, Roles() if protocol.has_roles else None

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        return is_url(source)

    @classmethod
    def load(
        cls, source: Any, *, tokenizer: Any = None, max_length: int | None = None, device: Any = None,
        dtype: Any = None, **options: Any,
    ) -> TextClassifier:  # fmt: skip
        """From a URL; the model's name may follow it after a #."""
        for name, value in (("tokenizer", tokenizer), ("max_length", max_length)):
            if value is not None:
                raise TrothError(f"{name} cannot be used with an endpoint, which tokenizes texts itself; leave it out")
        url, _, after = source.partition("#")
        if after:
            options = {"model": after, **options}
        for name in cls.needs:
            if not options.get(name):
                what, option, example = _OPTIONS[name]
                raise TrothError(
                    f"the endpoint {url} needs {what}: {option.format(url=url)} (in Python: {name}={example})"
                )
        return cls(url, **options)

    @cached_property
    def fingerprint(self) -> str:
        """Of everything known here; the server may exchange the weights behind its name."""
        spec = {name: value for name, value in self.spec.items() if name != "key_variable"}
        return digest([self.url, spec, self.template.parts, sorted(self.template.frozen)])

    # Texts

    @property
    def _segments(self) -> dict[int, str]:
        return {segment: words for segment, words in self.template.parts if segment is not None}

    def _encoding(self, example: Example, units: UnitKind, segments: Segments) -> Encoding:
        self.template.fill(example)  # a pair and {text_pair} go together
        assembled = Units(units)
        for segment, words in sorted(self._segments.items()):
            explained = segment != PAIR or segments == "both" or self.template.explains_pair
            if segment not in self.template.frozen and explained:
                text = {TEXT: example.text, PAIR: example.text_pair or ""}.get(segment, words)
                assembled.add(segment, text, whole=segment >= SHOTS)
        return assembled.encoding(example, around=self.template.shown)

    def whole(self, example: Example) -> Messages:
        """The messages of an example of which nothing is erased."""
        return self.template.messages({**self._segments, TEXT: example.text, PAIR: example.text_pair or ""})

    # Questions and answers

    @abstractmethod
    def questions(self, messages: Messages, encoding: Encoding) -> Sequence[Request]:
        """Everything that is asked about one erased text."""

    @abstractmethod
    def values(self, answers: Sequence[Any], encoding: Encoding) -> list[float]:
        """The columns of the model, from the answers to these questions."""

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        self.refuse_insides(rows, attentions=attentions, hidden=hidden)
        asked = []
        for row, encoding in enumerate(rows.encodings):
            example = encoding.example
            texts = {**self._segments, TEXT: example.text, PAIR: example.text_pair or ""}
            messages = self.template.messages(erased_texts(rows, row, self.mask_text, texts))
            asked.append(self.questions(messages, encoding))
        answers = self.asking.answers([question for questions in asked for question in questions])
        values = [
            self.values([next(answers) for _ in questions], encoding)
            for questions, encoding in zip(asked, rows.encodings, strict=True)
        ]
        return Output(torch.tensor(values, dtype=torch.float32))

    # Counting

    @property
    def usage(self) -> Usage:
        """Requests and tokens since the model was loaded, of this process and others that share its answers."""
        return self.asking.usage

    @property
    def cost(self) -> float | None:
        """What they cost, if `prices` are given."""
        return self._price(self.usage)

    def _price(self, usage: Usage) -> float | None:
        if self.prices is None:
            return None
        return (usage.read * self.prices[0] + usage.written * self.prices[1]) / 1e6

    @property
    def spent(self) -> str:
        usage, reused, cost = self.usage, self.asking.reused, self.cost
        spent = [f"{counted(usage.requests, 'request')} to {self.url}"]
        if reused:
            spent.append(f"{counted(reused, 'answer')} from the cache")
        if usage.read or usage.written:
            spent.append(f"{counted(usage.read, 'token')} read, {usage.written:,} written")
        if cost is not None:
            spent.append(f"cost {cost:,.4f} at the prices given")
        return "; ".join(spent)

    def expected(self, passes: int, examples: Sequence[Example], rounds: int = 1) -> str:
        if not examples:
            return ""
        asked = [self.questions(self.whole(each.example), each) for each in self.encode(examples)]
        per_text = sum(map(len, asked)) / len(asked)
        characters = sum(len(str(question.body)) for questions in asked for question in questions) / len(asked)
        rounds *= -(-len(examples) // self.examples_under_way)
        requests = self.asking.requests_for(round(passes * per_text), rounds)
        usage = Usage(requests, round(passes * characters / _CHARACTERS))
        price = self._price(usage)
        cost = "" if price is None else f", {price:,.4f} at the prices given for reading them"
        return (
            f"at most about {counted(usage.requests, 'request')} and {counted(usage.read, 'token')} to read{cost}; "
            "requests whose answers are in the cache are not sent again"
        )
