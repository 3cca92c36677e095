"""Attributions that were computed elsewhere (Captum, SHAP, another run), matched to the examples of a bench by text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

from troth.core.catalog import SelfNamed
from troth.core.errors import TrothError
from troth.core.hashing import array_digest, digest
from troth.core.types import Attribution, Encoding, Example, Question
from troth.engine.routines import Routine, per_text
from troth.explainers import Explainer
from troth.verbs.import_scores import attribution_of

if TYPE_CHECKING:
    from troth.engine.prober import Prober
    from troth.models import TextClassifier


@dataclass(frozen=True, eq=False)
class OwnAttributions(Explainer, SelfNamed):
    signed: ClassVar[bool] = True
    asks_model: ClassVar[bool] = False
    recursive: ClassVar[bool] = True  # there is one explanation per text

    name: str = field(repr=False)
    attributions: tuple[Attribution, ...] = field(repr=False)
    model: TextClassifier | None = field(default=None, repr=False)

    @property
    def gives_signed(self) -> bool:
        return any(attribution.signed for attribution in self.attributions)

    @property
    def follows_target(self) -> bool:
        return False

    @property
    def fingerprint(self) -> str:
        """A hash of all texts, units and scores."""
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
        """One line where an example has no attribution."""
        examples = list(examples)
        texts = {_text(attribution.example) for attribution in self.attributions}
        missing = [example for example in examples if _text(example) not in texts]
        if missing:
            raise TrothError(
                f"{self.name}: {len(missing)} of {len(examples)} examples have no attribution; the first is "
                f"{missing[0].id} ({missing[0].text[:30]!r}); give one for the text of every example"
            )

    def prepare(self, prober: Prober, encodings: Sequence[Encoding]) -> Self:
        for attribution in self.attributions:
            if attribution.model not in ("", prober.model.fingerprint):
                raise TrothError(
                    f"{self.name}: example {attribution.example.id} was explained on another model "
                    f"({attribution.model}, not {prober.model.fingerprint}); measure it on the model it explains"
                )
        return replace(self, model=prober.model)

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        yield from ()
        assert self.model is not None, "prepare comes first"
        example = question.encoding.example
        same = [each for each in self.attributions if _text(each.example) == _text(example)]
        by_id = [each for each in same if each.example.id == example.id] or same
        if not by_id or question.base is not None:
            raise TrothError(f"{self.name}: there is no attribution of example {example.id} as it is asked about")
        found = by_id[0]
        if found.target != question.target:
            theirs, ours = _label(found, found.target), _label(found, question.target)
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


def _label(attribution: Attribution, target: int) -> str:
    return attribution.label(target) or str(target)
