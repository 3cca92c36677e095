"""A language model behind an endpoint that gives log-probabilities (OpenAI, vLLM, TGI), asked for a class word.

It is asked with whole prompts in which units were deleted or replaced, so only methods that erase can explain it. The
logit of a class is the log-probability of its word as the next one. Answers are kept on disk: nothing is asked twice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch

from troth.core.errors import TrothError
from troth.core.hashing import digest
from troth.core.types import Encoding, Example, Rows
from troth.core.units import UnitKind
from troth.models._asking import Asking, Prices, Usage, is_number
from troth.models._encoding import Units
from troth.models._endpoint import is_url
from troth.models._prompts import PAIR, SHOTS, TEXT, Roles, as_shots, require_words, template
from troth.models._protocols import Listed, protocol_of
from troth.models.base import Output, Segments, TextClassifier
from troth.models.black_box import BlackBox, erased_texts


class Remote(BlackBox):
    """An endpoint, the name of a model there, a prompt and class words."""

    kind = "a model behind an endpoint"
    loaded_with = 'a URL and model="…", prompt="… {text} …", class_words=["…", "…"]'
    options: ClassVar[tuple[str, ...]] = (
        "model", "prompt", "class_words", "shots", "system", "explain_shots", "explain_parts", "mask_text", "api",
        "top", "unlisted", "parallel", "retries", "timeout", "backoff", "key_variable", "prices", "cache", "extra",
    )  # fmt: skip
    dtype = torch.float32
    examples_under_way = 16

    def __init__(
        self,
        url: str,
        *,
        model: str,
        prompt: str,
        class_words: Sequence[str],
        labels: Iterable[str] | None = None,
        shots: Iterable[Any] = (),
        system: str | None = None,
        explain_shots: bool = False,
        explain_parts: Sequence[str] | None = None,
        mask_text: str = "_",
        api: str | None = None,
        top: int | None = None,
        unlisted: Literal["refuse", "floor"] = "refuse",
        prices: Prices | None = None,
        extra: Mapping[str, Any] | None = None,
        **connection: Any,
    ) -> None:
        protocol = protocol_of(url, api)
        top = protocol.usual_top if top is None else top
        self.url = url
        self.protocol = protocol(model, top, dict(extra or {}))
        self.asking = Asking(url, self.protocol, **connection)
        is_pair = isinstance(prices, list | tuple) and len(prices) == 2
        if prices is not None and not (is_pair and all(is_number(price) and price >= 0 for price in prices)):
            raise TrothError(f"prices must be two numbers, per million tokens read and written, not {prices!r}")
        require_words(class_words)
        if unlisted not in ("refuse", "floor"):
            raise TrothError(f"unlisted must be refuse or floor, not {unlisted!r}")
        self.name, self.mask_text, self.class_words = f"{url}#{model}", mask_text, tuple(class_words)
        self._labels = self._given = self.class_words if labels is None else tuple(labels)
        if len(self._labels) != len(self.class_words):
            raise TrothError(f"{len(self.class_words)} class words, but {len(self._labels)} labels: {self._labels}")
        self.shots = as_shots(shots, self.class_words, self._labels)
        roles = Roles() if protocol.has_roles else None
        self.template = template(prompt, self.shots, roles, explain_shots, system=system, explain_parts=explain_parts)
        self.unlisted, self.prices = unlisted, prices
        self._said: dict[str, Any] = {
            "model": model, "prompt": prompt, "class_words": list(class_words), "mask_text": mask_text,
            "api": protocol.__name__.lower(), "top": top, "unlisted": unlisted, "system": system, "extra": extra,
            "explain_shots": explain_shots or None, "key_variable": connection.get("key_variable"),
            "explain_parts": None if explain_parts is None else list(explain_parts),
        }  # fmt: skip
        self._missing: Counter[str] = Counter()
        self._texts = 0

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
                raise TrothError(f"{name} does not go with an endpoint, which tokenizes itself; leave it out")
        url, _, after = source.partition("#")
        if after:
            options = {"model": after, **options}
        for name, what, option, example in (
            ("model", "the model's name", f"--model {url}#gpt-4o-mini", '"gpt-4o-mini"'),
            ("prompt", "a prompt", '--prompt "… {text} …"', '"… {text} …"'),
            ("class_words", "class words", "--class-words good,bad", '["good", "bad"]'),
        ):
            if not options.get(name):
                raise TrothError(f"the endpoint {url} needs {what}: {option} (in Python: {name}={example})")
        return cls(url, **options)

    @property
    def spec(self) -> dict[str, Any]:
        spec = {name: value for name, value in self._said.items() if value is not None}
        if self.labels != self.class_words:
            spec["labels"] = list(self.labels)
        if self.shots:
            spec["shots"] = [
                {"text": shot.text, "text_pair": shot.text_pair, "label": word} for shot, word in self.shots
            ]
        return spec

    @cached_property
    def fingerprint(self) -> str:
        """Of all that is known here: the weights behind an endpoint may change without a word."""
        spec = {name: value for name, value in self.spec.items() if name != "key_variable"}
        about = [self.url, spec, self.template.parts, sorted(self.template.frozen)]
        return digest(about)

    @property
    def notes(self) -> tuple[str, ...]:
        erased = f"{self.name} is asked for texts in which erased words become {self.mask_text!r}"
        if self._said["api"] == "echo":
            return (erased,)
        rule = f"a class word that is not among the {self.protocol.top} likeliest tokens counts as the last of them"
        return (erased, rule)

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

    def forward(self, rows: Rows, *, attentions: bool = False, hidden: bool = False) -> Output:
        self.refuse_insides(rows, attentions=attentions, hidden=hidden)
        asked = []
        for row, encoding in enumerate(rows.encodings):
            example = encoding.example
            texts = {**self._segments, TEXT: example.text, PAIR: example.text_pair or ""}
            messages = self.template.messages(erased_texts(rows, row, self.mask_text, texts))
            asked.append(self.protocol.questions(messages, self.class_words))
        answers = self.asking.answers([question for questions in asked for question in questions])
        values = []
        for questions, encoding in zip(asked, rows.encodings, strict=True):
            values.append(self._values([next(answers) for _ in questions], encoding.example))
        return Output(torch.tensor(values, dtype=torch.float32))

    def _values(self, answers: Sequence[Listed], example: Example) -> list[float]:
        """The class words' log-probabilities; one that is not listed is at most as likely as the last that is."""
        values = self.protocol.values(answers, self.class_words)
        self._texts += 1
        self._missing.update(word for word, value in zip(self.class_words, values, strict=True) if value is None)
        if all(value is None for value in values) and self.unlisted == "refuse":
            likeliest = ", ".join(repr(token) for token, _ in answers[0][:5])
            raise TrothError(
                f"example {example.id}: none of the class words {', '.join(self.class_words)} is among the "
                f"{len(answers[0])} likeliest next tokens ({likeliest}, …); ask for one of them in the prompt, choose "
                'words of one token, or pass unlisted="floor"'
            )
        return [answers[0][-1][1] if value is None else value for value in values]

    # Counting

    @property
    def usage(self) -> Usage:
        """Requests and tokens since the model was loaded, by this process and others that share its answers."""
        return self.asking.usage

    @property
    def cost(self) -> float | None:
        """What that cost, where `prices` are given."""
        if self.prices is None:
            return None
        usage = self.usage
        return (usage.read * self.prices[0] + usage.written * self.prices[1]) / 1e6

    @property
    def spent(self) -> str:
        usage, reused, cost = self.usage, self.asking.reused, self.cost
        spent = [f"{usage.requests:,} request{'' if usage.requests == 1 else 's'} to {self.url}"]
        if reused:
            spent.append(f"{reused:,} answer{'' if reused == 1 else 's'} known from before")
        if usage.read or usage.written:
            spent.append(f"{usage.read:,} tokens read, {usage.written:,} written")
        if cost is not None:
            spent.append(f"cost {cost:,.4f} at the prices given")
        missing = (f"{word!r} not listed in {count:,} of {self._texts:,}" for word, count in self._missing.items())
        return "; ".join([*spent, *missing])
