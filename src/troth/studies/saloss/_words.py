"""What the SaLoss study shows of single words: rationales of both models, importance by part of speech."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from troth.core.errors import TrothError
from troth.studies import Section
from troth.studies._results import Results
from troth.studies.saloss import _tagging
from troth.studies.saloss._experiment import SalossExperiment
from troth.verbs.fresh import contiguous

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MODELS = ("plain", "text_rank")
_MOST = 3  # texts shown


def examples(experiment: SalossExperiment, results: Results) -> Section:
    texts = {example.id: example for example in experiment.material.splits["test"]}
    by_model = [results.rows(experiment.words(source, experiment.seeds[0])) for source in _MODELS]
    rows: list[list[Any]] = []
    for plain, guided in zip(*by_model, strict=True) if all(by_model) else ():
        example, rationales = texts[plain["example_id"]], []
        for row in (plain, guided):
            places = contiguous(row["scores"], experiment.ratio)
            rationales.append(example.text[row["starts"][places[0]] : row["ends"][places[-1]]] if places else "")
        if plain["target"] == guided["target"] == example.label and rationales[0] != rationales[1]:
            rows.append([example.id, experiment.material.labels[plain["target"]], *rationales, example.text])
    columns = ("example", "class", *_MODELS, "text")
    title = f"Table 4: contiguous rationales by attention × gradient, {experiment.name}"
    words = f"The first of {len(rows)} texts that both models classify correctly, for different reasons."
    facts = {experiment.name: [dict(zip(columns, row, strict=True)) for row in rows[:_MOST]]}
    return Section("examples", title, columns, rows[:_MOST], words, facts)


def parts_of_speech(experiment: SalossExperiment, results: Results, name: str | _tagging.Tagger) -> Section:
    title = f"Figure 1: mean importance (attention × gradient) by part of speech, {experiment.name}"
    section = partial(Section, "part_of_speech", title, ("tag", "words", *_MODELS))
    if not name:
        why = (
            "No tagger was named, so this part is left out: pass 'saloss(tagger=\"spacy:en_core_web_sm\")', or any "
            "function from words to tags as package.module:function."
        )
        return section([], why, {experiment.name: None})
    try:
        tagger = _tagging.find_tagger(name)
    except TrothError as error:
        return section([], f"Left out: {error}", {experiment.name: None})
    texts = {example.id: example.text for example in experiment.material.splits["test"]}
    means = {}
    for source in _MODELS:
        stored = [row for seed in experiment.seeds for row in results.rows(experiment.words(source, seed))]
        words = (
            [texts[row["example_id"]][start:end] for start, end in zip(row["starts"], row["ends"], strict=True)]
            for row in stored
        )
        shares = (_tagging.share_of_text(row["scores"]) for row in stored)
        means[source] = _tagging.mean_by_tag(tagger, zip(words, shares, strict=True))
    rows: list[list[Any]] = [
        [tag, count // len(experiment.seeds), mean, means["text_rank"].get(tag, (np.nan, 0))[0]]
        for tag, (mean, count) in means["plain"].items()
    ]
    facts = {experiment.name: {row[0]: {"plain": row[2], "text_rank": row[3], "words": row[1]} for row in rows}}
    return section(rows, _tagging.SHARES, facts, partial(_draw, rows=rows) if rows else None)


def _draw(figure: Figure, rows: list[list[Any]]) -> None:
    axes = figure.subplots()
    places = np.arange(len(rows))
    for number, source in enumerate(_MODELS):
        axes.bar(places + 0.4 * number, [row[2 + number] for row in rows], 0.4, label=source)
    axes.set_xticks(places + 0.2, [str(row[0]) for row in rows], rotation=60)
    axes.set_ylabel("mean importance")
    axes.legend()
