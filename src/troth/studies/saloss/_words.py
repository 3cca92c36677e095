"""The parts of the SaLoss study about single words: rationales of both models, importance by part of speech.

Parts of speech come from the user's tagger: a spaCy pipeline or any function from words to tags.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from troth.core.errors import TrothError
from troth.core.types import Scores
from troth.studies import Section
from troth.studies._results import Results
from troth.studies.saloss._experiment import SalossExperiment
from troth.verbs.fresh import contiguous

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES = "A text's scores are divided by the sum of their magnitudes and softmaxed before they are averaged by tag."
Tagger = Callable[[Sequence[str]], Sequence[str]]  # from the words of one text to one tag per word
_MODELS = ("plain", "text_rank")
_MOST = 3  # texts shown


def examples(experiment: SalossExperiment, results: Results) -> Section:
    texts = {example.id: example for example in experiment.data.splits["test"]}
    by_model = [results.rows(experiment.words(source, experiment.seeds[0])) for source in _MODELS]
    rows: list[list[Any]] = []
    for plain, guided in zip(*by_model, strict=True) if all(by_model) else ():
        example, rationales = texts[plain["example_id"]], []
        for row in (plain, guided):
            places = contiguous(row["scores"], experiment.ratio)
            rationales.append(example.text[row["starts"][places[0]] : row["ends"][places[-1]]] if places else "")
        if plain["target"] == guided["target"] == example.label and rationales[0] != rationales[1]:
            rows.append([example.id, experiment.data.labels[plain["target"]], *rationales, example.text])
    columns = ("example", "class", *_MODELS, "text")
    title = f"Table 4: contiguous rationales by attention × gradient, {experiment.name}"
    words = f"The first of {len(rows)} texts that both models classify correctly, for different reasons."
    facts = {experiment.name: [dict(zip(columns, row, strict=True)) for row in rows[:_MOST]]}
    return Section("examples", title, columns, rows[:_MOST], words, facts)


def parts_of_speech(experiment: SalossExperiment, results: Results, name: str | Tagger) -> Section:
    title = f"Figure 1: mean importance (attention × gradient) by part of speech, {experiment.name}"
    section = partial(Section, "part_of_speech", title, ("tag", "words", *_MODELS))
    if not name:
        why = (
            "No tagger was named, so this part is left out: pass 'saloss(tagger=\"spacy:en_core_web_sm\")', or any "
            "function from words to tags as package.module:function."
        )
        return section([], why, {experiment.name: None})
    try:
        tagger = find_tagger(name)
    except TrothError as error:
        return section([], f"Left out: {error}", {experiment.name: None})
    texts = {example.id: example.text for example in experiment.data.splits["test"]}
    means = {}
    for source in _MODELS:
        stored = [row for seed in experiment.seeds for row in results.rows(experiment.words(source, seed))]
        words = (
            [texts[row["example_id"]][start:end] for start, end in zip(row["starts"], row["ends"], strict=True)]
            for row in stored
        )
        shares = (share_of_text(row["scores"]) for row in stored)
        means[source] = mean_by_tag(tagger, zip(words, shares, strict=True))
    rows: list[list[Any]] = [
        [tag, count // len(experiment.seeds), mean, means["text_rank"].get(tag, (np.nan, 0))[0]]
        for tag, (mean, count) in means["plain"].items()
    ]
    facts = {experiment.name: {row[0]: {"plain": row[2], "text_rank": row[3], "words": row[1]} for row in rows}}
    return section(rows, SHARES, facts, partial(_draw, rows=rows) if rows else None)


def _draw(figure: Figure, rows: list[list[Any]]) -> None:
    axes = figure.subplots()
    places = np.arange(len(rows))
    for number, source in enumerate(_MODELS):
        axes.bar(places + 0.4 * number, [row[2 + number] for row in rows], 0.4, label=source)
    axes.set_xticks(places + 0.2, [str(row[0]) for row in rows], rotation=60)
    axes.set_ylabel("mean importance")
    axes.legend()


def find_tagger(name: str | Tagger) -> Tagger:
    """The tagger named by "spacy:PIPELINE" or "package.module:function"; a function is returned as it is."""
    if not isinstance(name, str):
        return name
    module, _, thing = name.partition(":")
    if not thing:
        raise TrothError(f"a tagger is spacy:PIPELINE or package.module:function, not {name!r}")
    if module == "spacy":
        return _spacy(thing)
    try:
        tagger: Any = getattr(import_module(module), thing)
    except (ImportError, AttributeError):
        raise TrothError(f"there is no tagger {name}: {module} has no {thing} that can be imported") from None
    if not callable(tagger):
        raise TrothError(f"the tagger {name} is a {type(tagger).__name__}; give a function from words to tags")
    return tagger  # type: ignore[no-any-return]


def _spacy(pipeline: str) -> Tagger:
    try:
        import spacy
        from spacy.tokens import Doc

        language = spacy.load(pipeline)
    except (ImportError, OSError):
        raise TrothError(
            f"the spaCy pipeline {pipeline} is not installed; pip install spacy, python -m spacy download {pipeline}"
        ) from None
    return lambda words: [token.pos_ for token in language(Doc(language.vocab, words=list(words)))]


def share_of_text(scores: ArrayLike) -> Scores:
    """A text's scores over the sum of their magnitudes, then softmaxed, so that every text counts alike.

    >>> share_of_text([2e-5, 1e-5, -1e-5]).round(3).tolist()
    [0.444, 0.346, 0.21]
    """
    values = np.asarray(scores, np.float64)
    powers = np.exp(values / (np.abs(values).sum() or 1.0))
    return np.asarray(powers / powers.sum())


def mean_by_tag(tagger: Tagger, texts: Iterable[tuple[Sequence[str], Scores]]) -> Mapping[str, tuple[float, int]]:
    """The mean importance and the number of the words of each tag, from words and their scores."""
    by_tag: dict[str, list[float]] = defaultdict(list)
    for words, scores in texts:
        tags = list(tagger(words))
        if len(tags) != len(words):
            raise TrothError(f"the tagger gave {len(tags)} tags for {len(words)} words; it must give one per word")
        for tag, score in zip(tags, scores, strict=True):
            by_tag[str(tag)].append(float(score))
    return {tag: (float(np.mean(scores)), len(scores)) for tag, scores in sorted(by_tag.items())}
