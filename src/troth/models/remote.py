"""A language model behind an endpoint that gives log-probabilities (OpenAI, vLLM, TGI), asked for a class word.

The logit of a class is the log-probability of its word as the next one. Answers are kept on disk, so that no request is
sent twice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from troth.core.errors import TrothError
from troth.core.types import Encoding
from troth.models._asking import Prices
from troth.models._behind_endpoint import BehindEndpoint
from troth.models._prompts import as_shots, require_words, template
from troth.models._protocols import Listed, Messages, Request


class Remote(BehindEndpoint):
    """An endpoint, the name of a model there, a prompt and class words."""

    loaded_with = 'a URL and model="…", prompt="… {text} …", class_words=["…", "…"]'
    options: ClassVar[tuple[str, ...]] = (
        *BehindEndpoint.shared, "class_words", "shots", "explain_shots", "unlisted",
    )  # fmt: skip
    needs: ClassVar[Sequence[str]] = (*BehindEndpoint.needs, "class_words")

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
        protocol, roles = self.protocol_for(url, api)
        said = self.connect(
            url, protocol, model=model, top=top, mask_text=mask_text, prices=prices, extra=extra, connection=connection
        )
        require_words(class_words)
        if unlisted not in ("refuse", "floor"):
            raise TrothError(f"unlisted must be refuse or floor, not {unlisted!r}")
        self.class_words, self.unlisted = tuple(class_words), unlisted
        self._labels = self._given = self.class_words if labels is None else tuple(labels)
        if len(self._labels) != len(self.class_words):
            raise TrothError(f"{len(self.class_words)} class words, but {len(self._labels)} labels: {self._labels}")
        self.shots = as_shots(shots, self.class_words, self._labels)
        self.template = template(prompt, self.shots, roles, explain_shots, system=system, explain_parts=explain_parts)
        self._said: dict[str, Any] = {
            **said, "prompt": prompt, "class_words": list(class_words), "unlisted": unlisted, "system": system,
            "explain_shots": explain_shots or None,
            "explain_parts": None if explain_parts is None else list(explain_parts),
        }  # fmt: skip
        self._missing: Counter[str] = Counter()
        self._texts = 0

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

    @property
    def notes(self) -> tuple[str, ...]:
        erased = f"{self.name} is asked for texts in which erased words become {self.mask_text!r}"
        if self.protocol.reads_prompt:
            return (erased,)
        rule = f"a class word that is not among the {self.protocol.top} likeliest tokens counts as the last of them"
        return (erased, rule)

    def questions(self, messages: Messages, encoding: Encoding) -> Sequence[Request]:
        return self.protocol.questions(messages, self.class_words)

    def values(self, answers: Sequence[Listed], encoding: Encoding) -> list[float]:
        """The log-probabilities of the class words; one that is not listed is at most as likely as the last one."""
        values = self.protocol.values(answers, self.class_words)
        self._texts += 1
        self._missing.update(word for word, value in zip(self.class_words, values, strict=True) if value is None)
        if all(value is None for value in values) and self.unlisted == "refuse":
            likeliest = ", ".join(repr(token) for token, _ in answers[0][:5])
            raise TrothError(
                f"example {encoding.example.id}: none of the class words {', '.join(self.class_words)} is among the "
                f"{len(answers[0])} most likely next tokens ({likeliest}, …); ask for one of them in the "
                "prompt, choose "
                'words of one token, or pass unlisted="floor"'
            )
        return [answers[0][-1][1] if value is None else value for value in values]

    @property
    def spent(self) -> str:
        missing = (f"{word!r} not listed in {count:,} of {self._texts:,}" for word, count in self._missing.items())
        return "; ".join([super().spent, *missing])
