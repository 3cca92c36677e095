"""Why a language model behind an endpoint wrote what it wrote.

With a server that gives the log-probabilities of a prompt (`api` echo, prompt_logprobs or prefill) column 0 is the
log-probability of the whole continuation, and the further columns are those of its words. Each token of the server
counts for the word in which it begins. With `compare` texts alone are needed: the model writes again after each erased
prompt, column 0 is how much that agrees with the continuation, on average over `samples`, and the further columns are
the single samples.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from troth.core import hub
from troth.core.errors import TrothError
from troth.core.hashing import digest, fingerprint
from troth.core.types import Encoding, Example
from troth.core.units import UnitKind
from troth.models._answers_compared import comparison
from troth.models._asking import Prices, is_number
from troth.models._behind_endpoint import BehindEndpoint
from troth.models._prompts import template
from troth.models._protocols import PROTOCOLS, Listed, Messages, Request, api_of
from troth.models.base import Segments
from troth.models.continuation import WHOLE, require_one

_WORD = re.compile(r"\s*\S+(?:\s+$)?")  # with the white space before it


class RemoteContinuation(BehindEndpoint):
    """An endpoint, the name of a model there, a prompt, and what was or shall be written after it."""

    kind = "a continuation behind an endpoint"
    loaded_with = 'a URL and model="…", continuation="…" (or generate=40)'
    options: ClassVar[tuple[str, ...]] = (
        *BehindEndpoint.shared, "continuation", "generate", "compare", "samples", "temperature",
    )  # fmt: skip
    needs: ClassVar[Sequence[str]] = ("model",)
    outputs = "values"

    @classmethod
    def takes(cls, source: Any, **options: Any) -> bool:
        return super().takes(source) and ("continuation" in options or "generate" in options)

    def __init__(
        self,
        url: str,
        *,
        model: str,
        prompt: str = "{text}",
        continuation: str | None = None,
        generate: int | None = None,
        compare: Any = None,
        samples: int = 1,
        temperature: float | None = None,
        labels: Any = None,
        system: str | None = None,
        explain_parts: Sequence[str] | None = None,
        mask_text: str = "_",
        api: str | None = None,
        top: int | None = None,
        prices: Prices | None = None,
        extra: Mapping[str, Any] | None = None,
        **connection: Any,
    ) -> None:
        self._given_options = {
            "model": model, "compare": compare, "samples": samples, "temperature": temperature, "system": system,
            "mask_text": mask_text, "api": api, "top": top, "prices": prices, "extra": extra, **connection,
        }  # fmt: skip
        require_one(prompt, continuation, generate)
        if labels is not None:
            raise TrothError("labels are names of classes, and a continuation has no classes; leave labels out")
        self.prompt, self.continuation, self.generate = prompt, continuation, generate
        protocol, roles = self.protocol_for(url, api, "echo" if compare is None else "chat")
        self.chat = roles is not None
        if compare is None and not protocol.reads_prompt:
            able = ", ".join(name for name, each in PROTOCOLS.items() if each.reads_prompt)
            raise TrothError(
                f"api {api_of(protocol)} gives no log-probabilities of a continuation; use api {able}, or compare="
                '"token_f1", which needs only texts'
            )
        said = self.connect(
            url, protocol, model=model, top=top, mask_text=mask_text, prices=prices, extra=extra, connection=connection
        )
        self._set_comparison(compare, samples, temperature)
        self.continues = self._comparison is None or self.samples > 1
        if explain_parts is not None and "written" in explain_parts:
            raise TrothError(
                "explain_parts: written can only be explained for a model in memory, not behind an endpoint"
            )
        self.template = template(prompt, (), roles, system=system, explain_parts=explain_parts)
        self._said: dict[str, Any] = {
            **said, "prompt": prompt, "continuation": continuation, "generate": generate, "system": system,
            "compare": self._comparison[0] if self._comparison else None,
            "samples": self.samples if self._comparison else None,
            "temperature": self.temperature if self._comparison else None,
            "explain_parts": None if explain_parts is None else list(explain_parts),
        }  # fmt: skip
        self._labels = self._given = (WHOLE, *(map(str, range(1, (generate or 0) + 1))))
        if continuation is not None or self._comparison:
            self._labels = self._given = (WHOLE, *(text for _, text in self._columns_of(continuation or "")))

    def _set_comparison(self, compare: Any, samples: int, temperature: float | None) -> None:
        if not isinstance(samples, int) or isinstance(samples, bool) or samples < 1:
            raise TrothError(f"samples must be a whole number, 1 or more, not {samples!r}")
        if temperature is not None and not (is_number(temperature) and temperature >= 0):
            raise TrothError(f"temperature must be a number, 0 or more, not {temperature!r}")
        if compare is None and (samples > 1 or temperature is not None):
            raise TrothError('samples and temperature need compare="token_f1"; log-probabilities need no samples')
        if samples > 1 and temperature == 0:
            raise TrothError(
                f"{samples} samples at temperature 0 are all the same text; use samples=1 or a higher temperature"
            )
        self._comparison = None if compare is None else comparison(compare)
        self._code = [] if compare is None or isinstance(compare, str) else [_identity(compare)]
        self.samples, self.temperature = samples, float(samples > 1) if temperature is None else float(temperature)

    @property
    def spec(self) -> dict[str, Any]:
        return {name: value for name, value in self._said.items() if value is not None}

    @property
    def fingerprint(self) -> str:
        own = super().fingerprint
        return digest([own, *self._code]) if self._code else own

    @property
    def notes(self) -> tuple[str, ...]:
        erased = f"{self.name} is asked for texts in which erased words become {self.mask_text!r}"
        if self._comparison is None:
            return (erased,)
        several = f", the mean of {self.samples} samples" if self.samples > 1 else ""
        how = f"the value is how much what is written agrees with the answer, by {self._comparison[0]}"
        return (erased, f"{how}{several}, at temperature {self.temperature:g}")

    def asking_for(self, prompt: str, **answer: Any) -> "RemoteContinuation":
        """The same server with another prompt, and what was or shall be written after it; with the same budget."""
        model = RemoteContinuation(self.url, prompt=prompt, **answer, **self._given_options)
        model.asking = self.asking
        return model

    # What is explained

    def _encoding(self, example: Example, units: UnitKind, segments: Segments) -> Encoding:
        encoding = super()._encoding(example, units, segments)
        text = self.continuation or ""
        if self.generate is not None and self._comparison is None and not hub.network_off():  # as in a dry run
            text = self._write(example)
        return replace(encoding, written=self._columns_of(text))

    def _write(self, example: Example) -> str:
        """What the model writes after the whole prompt, greedily."""
        assert self.generate is not None
        asked = self.protocol.writing(self.whole(example), self.generate, 0, None)
        text = str(next(self.asking.answers([asked])))
        if not text.strip():
            raise TrothError(
                f"{self.name} generates nothing after the prompt of example {example.id}; pass continuation="
            )
        return text

    def _columns_of(self, text: str) -> tuple[tuple[int, str], ...]:
        """Number and text of each column but the first."""
        if self._comparison is not None:
            return tuple((number, f"sample {number + 1}") for number in range(self.samples if self.samples > 1 else 0))
        words = _WORD.findall(text)
        if self.generate is not None and len(words) > self.generate:
            words[self.generate - 1 :] = ["".join(words[self.generate - 1 :])]
        return tuple(enumerate(words))

    def labels_of(self, encoding: Encoding) -> tuple[str, ...]:
        return (WHOLE, *(text for _, text in encoding.written))

    def _answer_of(self, encoding: Encoding) -> str:
        if self.continuation is not None:
            return self.continuation
        if self._comparison is None:
            return "".join(text for _, text in encoding.written)
        return self._write(encoding.example)  # known from before

    # What is asked

    def questions(self, messages: Messages, encoding: Encoding) -> Sequence[Request]:
        if self._comparison is None:
            return self.protocol.questions(messages, (self._answer_of(encoding),))
        most = self.generate or 2 * len(_WORD.findall(self.continuation or "")) + 16
        seeds = [None] if self.samples == 1 and self.temperature == 0 else list(range(self.samples))
        return [self.protocol.writing(messages, most, self.temperature, seed) for seed in seeds]

    def values(self, answers: Sequence[Any], encoding: Encoding) -> list[float]:
        if self._comparison is not None:
            compare, answer = self._comparison[1], self._answer_of(encoding)
            each = [compare(text, answer) for text in answers]
            return [float(np.mean(each)), *(each if self.samples > 1 else ())]
        ((listed),) = answers
        found = self._of_words(listed, encoding)
        width = len(encoding.written) if self.generate is None else self.generate
        return [float(found.sum()), *found.tolist(), *[0.0] * (width - len(found))]

    def _of_words(self, listed: Listed, encoding: Encoding) -> np.ndarray[Any, np.dtype[np.float64]]:
        """[words] the log-probability of each word: the sum over the tokens that begin in it."""
        said = "".join(text for _, text in encoding.written)
        spelled = "".join(token for token, _ in listed).translate(_SPACES)
        if not spelled.endswith(said.lstrip()):
            raise TrothError(
                f"the tokens of {self.name} spell {spelled[-80:]!r} instead of {said[-80:]!r}, so their "
                "log-probabilities cannot be matched with its words; use another api="
            )
        begins = len(spelled) - len(said)  # below 0 where the server leaves out white space at the beginning
        ends = list(accumulate((len(text) for _, text in encoding.written), initial=begins))[1:]
        starts = [0, *accumulate(len(token) for token, _ in listed)][:-1]
        of_token = np.searchsorted(ends, np.maximum(starts, begins), side="right").clip(max=len(ends) - 1)
        words = np.zeros(len(ends))
        np.add.at(words, of_token, [number for _, number in listed])
        return words


_SPACES = str.maketrans("Ġ▁Ċ", "  \n")


def _identity(compare: Any) -> str:
    return str(compare.fingerprint) if hasattr(compare, "fingerprint") else fingerprint(compare)
