"""Explainers supplied by the user: a function, or attributions that were computed elsewhere (Captum, another run).

A function receives what the names of its arguments say, and returns scores for one text.

    def mine(model, example, target): ...     # any of: text, example, model, target, seed

`model` is the loaded model (`.model` its network, `.tokenizer`; a black box has `.predict`), `target` a class index.
It may return one number per word (troth's words or those between blanks), (tokens, scores), (spans, scores),
[(token, score), …], [(start, end, score), …] or an Attribution. Attributions are matched to the examples of a bench by
text. Both explain only whole texts, so metrics that erase step by step keep the first ranking.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from troth.core.catalog import SelfNamed
from troth.core.errors import TrothError
from troth.core.hashing import array_digest, digest
from troth.core.scored import Scored, parts
from troth.core.types import Attribution, Encoding, Example, Question
from troth.core.user_code import UserCodeError, calling, shown
from troth.engine.prober import Prober
from troth.engine.routines import Routine, per_text
from troth.explainers import Explainer
from troth.models import TextClassifier
from troth.verbs.import_scores import attribution_of

_ARGUMENTS = ("text", "example", "model", "target", "seed")
_BY_PLACE = {1: ("text",), 2: ("model", "example"), 3: ("model", "example", "target")}
_FORMS = "one number per word, (tokens, scores), (spans, scores) or [(start, end, score), …]"


@dataclass(frozen=True, eq=False)
class OwnExplainer(Explainer, SelfNamed):
    """The common base of functions and given attributions, which have one explanation per text."""

    signed: ClassVar[bool] = True
    recursive: ClassVar[bool] = True  # it cannot explain an input with erased words

    name: str = field(repr=False)
    model: TextClassifier | None = field(default=None, repr=False, kw_only=True)

    @property
    def follows_target(self) -> bool:
        """Whether it explains the requested class, rather than a fixed one."""
        return False

    def prepare(self, prober: Prober, encodings: Sequence[Encoding]) -> Self:
        return replace(self, model=prober.model)


@dataclass(frozen=True, eq=False)
class OwnFunction(OwnExplainer):
    function: Callable[..., Any] = field(repr=False)

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> Self:
        """The explainer of this name; raises an error if the function takes unknown arguments."""
        names_of_arguments(function, name, _ARGUMENTS, _BY_PLACE)
        return cls(name, function)

    @property
    def gives_signed(self) -> bool:
        """Whether scores may be negative: by default they may; a function can set `mine.signed = False`."""
        return bool(getattr(self.function, "signed", True))

    @property
    def follows_target(self) -> bool:
        return "target" in self._arguments

    @property
    def _arguments(self) -> tuple[str, ...]:
        return names_of_arguments(self.function, self.name, _ARGUMENTS, _BY_PLACE)

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        yield from ()
        if question.base is not None:
            raise TrothError(f"{self.name} is a function of whole texts; it cannot explain a text with words erased")
        assert self.model is not None, "prepare comes first"
        example = question.encoding.example
        known = {
            "text": example.text, "example": example, "model": self.model, "target": question.target,
            "seed": question.seed,
        }  # fmt: skip
        with calling(self.name, f"example {example.id}, {shown(example.text)}"):
            result = self.function(*(known[name] for name in self._arguments))
        try:
            with calling(f"what {self.name} returned for example {example.id}"):
                return self._read(question, result)
        except UserCodeError:
            raise
        except TrothError as error:
            raise TrothError(f"{self.name}: {error}") from None

    def _read(self, question: Question, result: Any) -> Attribution:
        assert self.model is not None
        is_ours = isinstance(result, Attribution)
        encoding = question.encoding
        scores, spans, tokens = (
            Scored(result.scores, list(result.spans))
            if is_ours
            else parts(result, encoding.example.text, encoding.n_units)
        )
        if scores is None:
            example = question.encoding.example
            raise TrothError(f"example {example.id}: it returned {_short(result)}; return {_FORMS}")
        attribution = attribution_of(self.model, question, scores, spans=spans, tokens=tokens, signed=self.gives_signed)
        if not self.gives_signed and (attribution.scores < 0).any():
            raise TrothError(f"example {question.encoding.example.id}: a score is negative, but signed is False")
        return attribution


def names_of_arguments(
    function: Callable[..., Any], name: str, known: Sequence[str], by_place: Mapping[int, tuple[str, ...]]
) -> tuple[str, ...]:
    """The arguments that a user's function receives, by their names or else by their number."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built-in functions have no signature
        return by_place[1]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [parameter for parameter in parameters if parameter.kind in kinds]
    # Arguments with a default belong to the function itself, unless they have a known name.
    wanted = [each.name for each in places if each.default is inspect.Parameter.empty or each.name in known]
    if wanted and set(wanted) <= set(known):
        return tuple(wanted)
    if len(wanted) not in by_place:
        raise TrothError(f"{name} takes {len(wanted)} arguments; it may take any of: {', '.join(known)}")
    return by_place[len(wanted)]


def _short(value: Any) -> str:
    text = "nothing" if value is None else f"{type(value).__name__} {value!r}"
    return text if len(text) <= 60 else f"{text[:60]}…"


@dataclass(frozen=True, eq=False)
class OwnAttributions(OwnExplainer):
    asks_model: ClassVar[bool] = False

    attributions: tuple[Attribution, ...] = field(repr=False)

    @property
    def gives_signed(self) -> bool:
        return any(attribution.signed for attribution in self.attributions)

    @property
    def fingerprint(self) -> str:
        """A hash of all texts, units and scores of the attributions."""
        return digest(
            [
                [
                    *(each.example.id, each.example.text, each.example.text_pair, each.spans, each.target),
                    *(each.signed, each.model, array_digest(each.scores)),
                ]
                for each in self.attributions
            ]
        )

    def require(self, examples: Iterable[Example]) -> None:
        """Raises an error if an example has no attribution."""
        examples = list(examples)
        texts = {_text(attribution.example) for attribution in self.attributions}
        missing = [example for example in examples if _text(example) not in texts]
        if missing:
            raise TrothError(
                f"{self.name}: {len(missing)} of {len(examples)} examples have no attribution; the first one is "
                f"{missing[0].id} ({missing[0].text[:30]!r}); give one for the text of every example"
            )

    def prepare(self, prober: Prober, encodings: Sequence[Encoding]) -> Self:
        for attribution in self.attributions:
            if attribution.model not in ("", prober.model.fingerprint):
                raise TrothError(
                    f"{self.name}: example {attribution.example.id} was explained on another model "
                    f"({attribution.model}, not {prober.model.fingerprint}); measure it on the model that it explains"
                )
        return super().prepare(prober, encodings)

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        yield from ()
        assert self.model is not None, "prepare comes first"
        example = question.encoding.example
        same = [each for each in self.attributions if _text(each.example) == _text(example)]
        by_id = [each for each in same if each.example.id == example.id] or same
        if not by_id or question.base is not None:
            raise TrothError(
                f"{self.name}: there is no attribution of example {example.id} as it is read here; give one for "
                "every text, and use metrics that explain each text once"
            )
        found = by_id[0]
        if found.target != question.target:
            theirs, ours = found.label(found.target), found.label(question.target)
            raise TrothError(
                f"{self.name}: example {example.id} was explained for the class {theirs}, but here it is {ours}; give "
                "attributions for the same target"
            )
        encoding = question.encoding
        if found.spans == tuple(encoding.unit_spans):
            return Attribution(question, found.scores, signed=self.gives_signed, rest=found.rest)
        if len(found.spans) < encoding.n_units or any(found.question.encoding.unit_segments):
            raise TrothError(
                f"{self.name}: example {example.id} has {len(found.spans)} scored units, the model reads "
                f"{encoding.n_units}; explain the same units, or smaller ones"
            )
        return attribution_of(self.model, question, found.scores, spans=found.spans, signed=self.gives_signed)


def _text(example: Example) -> tuple[str, str | None]:
    return example.text, example.text_pair
