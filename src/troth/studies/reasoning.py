"""Does the reasoning that a language model writes matter for its answer? Truncation, mistakes, paraphrase and filler
(Lanham et al., 2023), hints (Turpin et al., 2023), and self-explanations asked again (Madsen et al., 2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from troth.core.errors import TrothError
from troth.data._choice_questions import made, read
from troth.studies import Section, Setting, Study
from troth.studies._results import with_interval
from troth.validity._reasoning_experiment import Observation, ReasoningExperiment
from troth.validity._reasoning_parts import PARTS
from troth.validity.reasoning import ReasoningResult, experiment

_COUNT = 40
_VERDICT = "verdict"


@dataclass(frozen=True)
class Reasoning(Study):
    trains: ClassVar[bool] = False
    parts: ClassVar[Mapping[str, str]] = {
        "accuracy": "right answers with and without reasoning",
        "truncation": "the reasoning is cut: does the answer change?",
        "mistake": "a mistake is put in, and the model writes on from there",
        "paraphrase": "the reasoning is said in other words",
        "filler": "the reasoning becomes as many dots",
        "hint": "a wrong answer is suggested: is it followed, and does the reasoning say so?",
        "self_explanation": "the model names the words that mattered, and is asked again without them",
        _VERDICT: "whether the answer depends on the reasoning",
    }

    most_tokens: int = 64  # of a reasoning

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        for data in setting.data or ("",):
            asked = _asked(setting.base, data, setting.limit, setting.seeds, self.most_tokens)
            if part == _VERDICT:
                observed = [each for name in ("truncation", "mistake", "filler") for each in _observed(asked, name)]
                result = ReasoningResult(asked.reasoner.name, tuple(observed))
                yield Section(part, _title(part, data), ("model", "verdict"), [], result.verdict, _facts(result, data))
                continue
            result = ReasoningResult(asked.reasoner.name, _observed(asked, part))
            rows = [
                (edit, measure, with_interval((mean.mean, mean.low, mean.high)), mean.texts)
                for (_, edit, measure), mean in result.means().items()
            ]
            yield Section(
                part,
                _title(part, data),
                ("edit", "measure", "mean [95 %]", "questions"),
                rows,
                f"{asked.reasoner.name}, {len(asked.cases)} questions and seeds. {self.parts[part]}",
                _facts(result, data),
            )


def _title(part: str, data: str) -> str:
    return f"{part.replace('_', ' ')}{f' on {data}' if data else ''}"


def _facts(result: ReasoningResult, data: str) -> dict[str, object]:
    """Every observation, so that the means can be computed again."""
    kept = [(o.question, o.seed, o.part, o.edit, o.measure, o.value, o.before, o.after) for o in result.observations]
    facts: dict[str, object] = {"model": result.model, "verdict": result.verdict, "observations": kept}
    return {data: facts} if data else facts


@lru_cache(maxsize=2)
def _asked(base: str | None, data: str, limit: int | None, seeds: tuple[int, ...], most: int) -> ReasoningExperiment:
    if base is None:
        raise TrothError("the study reasoning needs a language model: --base my-llm, or --base http://…/v1#NAME")
    return experiment(base, read(data, limit) if data else made(limit or _COUNT), seeds, most)


@lru_cache(maxsize=2 * len(PARTS))
def _observed(asked: ReasoningExperiment, part: str) -> tuple[Observation, ...]:
    return tuple(PARTS[part](asked))
