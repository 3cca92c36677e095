"""The unit's place in a ranking that an instruction-tuned language model writes down: n for the first unit it names,
one less for each that follows, 0 for those it does not name (a baseline of AML; Barkan et al., 2024).

The explained model is not used. `model` is a folder or hub name of a causal language model, or with `endpoint=URL` the
name of a model behind OpenAI's chat protocol; the key is read from the environment variable that `key_variable` names.
Answers are parsed strictly: a JSON list of strings or a numbered list. Each entry stands for the next occurrence of
exactly that unit; entries that are not units of the text are dropped and counted in the attribution's note.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from troth.core.errors import TrothError
from troth.core.trust import KEY_VARIABLE
from troth.core.types import Attribution, Encoding, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe, keep_all
from troth.engine.routines import Routine, per_text
from troth.explainers import Explainer
from troth.explainers._language_models import Endpoint, ask_endpoint, ask_local

_NUMBERED = re.compile(r"^\s*\d+\s*[.):]\s*(.+?)\s*$", re.MULTILINE)
_QUOTES = "\"'`*“”‘’"


@dataclass(frozen=True)
class LlmRanking(Explainer):
    signed = False
    asks_model = False
    formula = "sᵢ = n, n − 1, … in the order that the language model names them; 0 where it does not"
    pitfalls = "Shows what seems important to a reader, not what the model used: the explained model is never run."

    model: str
    endpoint: str = ""
    task: str = ""  # describes the classes, in the user's own words
    key_variable: str = KEY_VARIABLE  # "": no key is sent
    timeout: float = 60.0
    retries: int = 4
    backoff: float = 1.0  # seconds before the second try; doubled each time
    parallel: int = 4  # questions to an endpoint at a time
    # Labels of the classes, taken from the model.
    labels: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.model:
            raise TrothError("llm_ranking needs an instruction-tuned language model: llm_ranking(model=…)")
        for option in ("timeout", "backoff"):
            if not getattr(self, option) > 0:
                raise TrothError(f"llm_ranking: {option} must be above 0, not {getattr(self, option)}")
        if self.retries < 0 or self.parallel < 1:
            raise TrothError("llm_ranking: retries must be 0 or more and parallel 1 or more")
        if self.endpoint:
            self._endpoint()

    def prepare(self, prober: Prober, encodings: Sequence[Encoding]) -> Self:
        return replace(self, labels=prober.model.labels)

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        left = np.flatnonzero(question.left.numpy() > 0)
        names = [question.encoding.unit_texts[unit] for unit in left]
        scores = np.zeros(question.n_units, dtype=np.float32)
        if not names:
            return Attribution(question, scores, signed=self.signed)
        asking = ask_endpoint(self._endpoint(), self.parallel) if self.endpoint else ask_local(self.model)
        answer = asking(self._words(question, names), 16 * len(names) + 64)
        # This probe is already known and costs nothing; meanwhile the other examples send their questions.
        yield Probe(question, keep_all(question))
        ranked, dropped = match(parse(answer.result()), names)
        for place, unit in enumerate(ranked):
            scores[left[unit]] = len(names) - place
        return Attribution(question, scores, signed=self.signed, note=_note(ranked, dropped, len(names)))

    def _endpoint(self) -> Endpoint:
        return Endpoint(self.endpoint, self.model, self.key_variable, self.timeout, self.retries, self.backoff)

    def _words(self, question: Question, names: Sequence[str]) -> str:
        example, chosen = question.encoding.example, question.target
        whole = question.base is None and not question.encoding.truncated
        text = example.text if whole else " ".join(names)
        second = "" if example.text_pair is None else f"\nSecond text: {example.text_pair}"
        named = [f'"{label}"' for label in self.labels] or [str(chosen)]
        decision = named[chosen] if self.labels else str(chosen)
        task = self.task or f"A classifier sorts texts into these classes: {', '.join(named)}."
        return (
            f"{task}\n\nText: {text}{second}\n\nThe classifier chose {decision}. "
            "Rank the words of the text by how much they matter for this decision, the most important word first. "
            "Copy the words exactly as they are written here:\n"
            f"{json.dumps(list(names), ensure_ascii=False)}\n"
            "Answers with a JSON list of strings and nothing else."
        )


def parse(answer: str) -> list[str]:
    """The entries of the first JSON list of strings in an answer, else of a numbered list; nothing else counts.

    >>> parse('Sure: ["good", "film"]'), parse("1. good\\n2) film"), parse("good and film")
    (['good', 'film'], ['good', 'film'], [])
    """
    for start in (bracket.start() for bracket in re.finditer(r"\[", answer)):
        try:
            value, _ = json.JSONDecoder().raw_decode(answer, start)
        except ValueError:
            continue
        if value and all(isinstance(entry, str) for entry in value):
            return [entry.strip() for entry in value]
    return [entry.strip(_QUOTES) for entry in _NUMBERED.findall(answer)]


def match(entries: Sequence[str], names: Sequence[str]) -> tuple[list[int], int]:
    """The unit that each entry stands for, the next unused one with that text, and the number of entries without a
    unit.

    >>> match(["the", "superb", "the", "the"], ["the", "film", "the"])
    ([0, 2], 2)
    """
    free = list(range(len(names)))
    ranked = []
    for entry in entries:
        exact = [unit for unit in free if names[unit] == entry]
        alike = exact or [unit for unit in free if names[unit].casefold() == entry.casefold()]
        if alike:
            free.remove(alike[0])
            ranked.append(alike[0])
    return ranked, len(entries) - len(ranked)


def _note(ranked: Sequence[int], dropped: int, count: int) -> str:
    notes = []
    if not ranked and not dropped:
        notes.append("the language model's answer holds no list of words")
    if dropped:
        notes.append(f"{dropped} invented words dropped")
    if len(ranked) < count:
        notes.append(f"{count - len(ranked)} of {count} not ranked")
    return "; ".join(notes)
