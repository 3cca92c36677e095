"""FRESH (Jain et al., 2020; as in SaLoss, Chrysostomou & Aletras, 2021): a classifier that reads only rationales is
faithful by construction, so its performance shows how good the explanations are that selected them.

The rationale is selected by a support model's explanation of its predicted class: max(1, ⌈ratio · words⌉) words, either
`top_k` by score, in reading order, or the `contiguous` span with the largest sum, leftmost. Scores of sub-words are
summed into words. The second text of a pair is kept whole. A new classifier is then trained, validated and tested on
the rationales.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from troth.core import arguments, catalog, locks, reading
from troth.core.errors import TrothError
from troth.core.files import write_aside, write_json
from troth.core.types import Attribution, Example
from troth.core.units import Span
from troth.data import Data
from troth.engine.prober import Prober
from troth.explainers import Explainer
from troth.metrics._erasing import count_at, ranking
from troth.models import TextClassifier, load_model
from troth.training.quality import predict, quality
from troth.training.train import train
from troth.verbs.explain import explain_each

Thresholder = Literal["top_k", "contiguous"]
_NAMES = get_args(Thresholder)


def rationale_length(ratio: float, words: int) -> int:
    """The number of words of a rationale: max(1, ⌈ratio · words⌉), or 0 for an empty text.

    >>> rationale_length(0.2, 18), rationale_length(0.1, 3), rationale_length(0.29, 100)
    (4, 1, 29)
    """
    require(ratio, "top_k")
    return min(words, max(1, count_at(ratio, words, "ceil")))


def require(ratio: float, thresholder: str) -> None:
    """Rejects a ratio that is out of range and an unknown thresholder."""
    if not 0 < ratio <= 1:
        raise TrothError(f"a rationale's ratio must lie in (0, 1], not {ratio}")
    if thresholder not in _NAMES:
        raise TrothError(f"a thresholder is {' or '.join(_NAMES)}, not {thresholder!r}")


def top_k(scores: ArrayLike, ratio: float) -> list[int]:
    """The words with the highest scores, in reading order; on ties, the earlier word.

    >>> top_k([0.1, 0.5, 0.2, 0.5], 0.5)
    [1, 3]
    """
    values = np.asarray(scores, np.float32)
    chosen: list[int] = ranking(values)[: rationale_length(ratio, len(values))].tolist()
    return sorted(chosen)


def contiguous(scores: ArrayLike, ratio: float) -> list[int]:
    """The words of the span with the largest sum; on ties, the leftmost span.

    >>> contiguous([1, 0, 2, 0, 1, 1], 0.5)
    [0, 1, 2]
    """
    values = np.asarray(scores, np.float64)
    length = rationale_length(ratio, len(values))
    if length == 0:
        return []
    sums = np.lib.stride_tricks.sliding_window_view(values, length).sum(-1)
    start = int(np.argmax(sums))
    return list(range(start, start + length))


@dataclass(frozen=True)
class Rationale:
    """The rationale of an example: the selected words, as text and as character spans of the original."""

    example: Example
    text: str
    spans: tuple[Span, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for one line of the exported file."""
        example = self.example
        pair = {} if example.text_pair is None else {"text_pair": example.text_pair}
        return {"id": example.id, "text": self.text, **pair, "label": example.label, "spans": [*map(list, self.spans)],
                "full_text": example.text}  # fmt: skip


def rationale_of(attribution: Attribution, ratio: float, thresholder: Thresholder = "top_k") -> Rationale:
    """The rationale selected by an attribution's scores."""
    require(ratio, thresholder)
    example, encoding = attribution.example, attribution.question.encoding
    first = [unit for unit, segment in enumerate(encoding.unit_segments) if segment == 0]
    scores = attribution.scores[first]
    if not np.isfinite(scores).all():
        raise TrothError(
            f"example {example.id} has undefined scores, so no rationale can be chosen; leave the example out"
        )
    chosen = [first[place] for place in (top_k if thresholder == "top_k" else contiguous)(scores, ratio)]
    text, before = "", None
    for unit in chosen:
        start, end = attribution.spans[unit]
        if before is not None:
            # Adjacent words keep the text between them; other gaps become a space.
            text += example.text[attribution.spans[before][1] : start] if unit == before + 1 else " "
        text, before = text + example.text[start:end], unit
    return Rationale(example, text, tuple(attribution.spans[unit] for unit in chosen))


def rationales(
    support: TextClassifier,
    examples: Iterable[Example],
    explainer: str | Explainer = "attention",
    *,
    ratio: float = 0.2,
    thresholder: Thresholder = "top_k",
    magnitude: bool = False,
    seed: int = 0,
) -> list[Rationale]:
    """One rationale per example, selected by the support model's explanation of its predicted class."""
    require(ratio, thresholder)
    attributions = explain_each(Prober(support), list(examples), explainer, units="word", seed=seed)
    return [rationale_of(each.magnitude() if magnitude else each, ratio, thresholder) for each in attributions]


@dataclass(frozen=True)
class Fresh:
    """A finished pipeline: the classifier's folder, the rationales by split, and its logits on evaluation splits."""

    folder: Path
    data: Mapping[str, Data]
    logits: Mapping[str, Tensor]  # by split, [examples, classes]

    def macro_f1(self, split: str = "test") -> float:
        """The macro-F1 of the classifier on the rationales of a split."""
        labels = torch.tensor([int(str(example.label)) for example in self.data[split]])
        return quality("macro_f1", self.logits[split], labels)


@arguments.typed()
def fresh(
    support: TextClassifier,
    splits: Mapping[str, Data],
    base: Any,
    out: str | Path,
    *,
    explainer: str | Explainer = "attention",
    ratio: float = 0.2,
    thresholder: Thresholder = "top_k",
    magnitude: bool = False,
    seed: int = 0,
    **settings: Any,
) -> Fresh:
    """Extracts the rationales of train, validation and test, exports them, and trains a classifier on them alone.

    Writes rationales-train.jsonl and so on to `out`, and the classifier to `out`/model; when called again, it resumes.
    `settings` are those of `train`; labels are class indices. Macro-F1 selects the best epoch and evaluates the
    classifier.
    """
    require(ratio, thresholder)
    if missing := {"train", "validation"} - splits.keys():
        raise TrothError(f"splits has no {' and no '.join(sorted(missing))}; give train, validation and test")
    folder, spec = Path(out), catalog.spec(catalog.build("explainers", explainer), full=True)
    how = {"support": support.fingerprint, "explainer": spec, "ratio": ratio, "thresholder": thresholder,
           "magnitude": magnitude, "seed": seed}  # fmt: skip
    with locks.held(folder):
        data: dict[str, Data] = {}
        for split, examples in splits.items():
            path, mark = folder / f"rationales-{split}.jsonl", {**how, "data": examples.fingerprint}
            inputs = _stored(path, mark, len(examples))
            if inputs is None:
                chosen = rationales(
                    support, examples, explainer, ratio=ratio, thresholder=thresholder, magnitude=magnitude, seed=seed
                )
                export(path, chosen, mark)
                inputs = imported(path)
            data[split] = replace(examples, examples=inputs, name=f"rationales of {examples.name}")
        options = {"metric": "macro_f1", **settings, "validation": data["validation"], "seed": seed}
        trained = train("plain", data["train"], base, folder / "model", **options)
        classifier = load_model(str(trained.folder), device=support.device)
        return Fresh(
            trained.folder, data, {split: predict(classifier, data[split]) for split in data if split != "train"}
        )


def export(path: Path, found: Sequence[Rationale], how: Mapping[str, Any]) -> None:
    """Writes rationales as JSON lines, and a JSON file next to them that records how they were made."""
    lines = "".join(json.dumps(rationale.to_dict(), ensure_ascii=False) + "\n" for rationale in found)
    write_aside(path, lines.encode(), sole_writer=True)
    write_json(path.with_suffix(".json"), how, indent=2)


def imported(path: Path) -> list[Example]:
    """The inputs in an exported file."""
    rows = [reading.parse_json(line) for line in reading.lines(path)]
    return [Example(row["id"], row["text"], row.get("text_pair"), row["label"]) for row in rows]


def _stored(path: Path, how: Mapping[str, Any], count: int) -> list[Example] | None:
    """The inputs that an earlier call exported with the same settings; None if they are missing or damaged."""
    try:
        if reading.json_of(path.with_suffix(".json")) != how:
            return None
        found = imported(path)
    except (OSError, ValueError, KeyError, TypeError, TrothError):
        return None
    return found if len(found) == count else None
