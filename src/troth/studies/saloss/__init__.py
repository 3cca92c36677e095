"""SaLoss (Chrysostomou & Aletras, 2021): are explanations more faithful when attention is trained toward what is
salient in the text?

Tables 1 to 8 and Figure 1. The paper's settings (10 epochs, batches of 8, λ of table 1) unless others are given; the
search for λ is `weight=search`. Attributions explain the predicted class's probability, a token at a time; rationales
are of words.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from troth import statistics
from troth.core.errors import TrothError, unknown
from troth.store.cells import Plan
from troth.studies import Section, Setting, Study
from troth.studies._trained import Material, Results, Trials, load
from troth.studies.saloss import _tables as _saloss_tables
from troth.studies.saloss import _tagging
from troth.studies.saloss._experiment import (
    BASES,
    FLIPS,
    METHODS,
    RATIOS,
    SOURCE_PRINTED,
    Experiment,
    mean_and_deviation,
    printed,
    without_trainings,
)
from troth.verbs.fresh import contiguous, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DATA = ("sst", "ag_news")
_SUPPORTS = ("plain", "text_rank", "uniform")


@dataclass(frozen=True)
class Saloss(Study):
    parts: ClassVar[Mapping[str, str]] = {
        "data": "Table 5: the data sets",
        "performance": "Tables 1 and 6: macro-F1 of plain and salience-guided models, and how they were trained",
        "decision_flip": "Table 2: how much of the text must go before the prediction flips",
        "fresh": "Tables 3 and 7: classifiers trained on rationales alone",
        "examples": "Table 4: rationales of both models",
        "saliences": "Table 8: the same with other saliences",
        "part_of_speech": "Figure 1: importance by part of speech",
    }

    weight: float | Literal["paper", "search"] = "paper"  # λ
    variant: Literal["paper", "released"] = "paper"  # of the loss
    flips: tuple[str, ...] = ("paper", "released")  # how tokens go until the prediction flips; a table each
    epochs: int = 0  # 0: the paper's, as for what follows
    batch_size: int = 0
    learning_rate: float = 0.0
    ratio: float = 0.0  # of rationales
    thresholders: tuple[str, ...] = ("top_k", "contiguous")
    examples: int = 0  # of the test set; 0: all
    tagger: str | _tagging.Tagger = ""  # spacy:PIPELINE, package.module:function, or the function

    def __post_init__(self) -> None:
        for way in self.flips:
            if way not in FLIPS:
                raise unknown("way to flip", way, FLIPS)
        for thresholder in self.thresholders:
            require(self.ratio or 1.0, thresholder)
        if not isinstance(self.weight, str) and self.weight < 0:
            raise TrothError(f"saloss: weight (λ) must be 0 or more, not {self.weight}")

    def plan(self, part: str, setting: Setting) -> Plan | None:
        if part == "data":
            return None
        plan = Plan()
        for experiment in self._experiments(setting, plan):
            if self.weight == "search":
                experiment.search()
            self._cells(part, experiment)
        return without_trainings(plan)

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        if part == "data":
            yield _saloss_tables.data_table([self._material(name, setting) for name in setting.data or _DATA])
            return
        plan = Plan()
        experiments = self._experiments(setting, plan)
        if self.weight == "search":
            for experiment in experiments:
                experiment.search()
            results = Results(setting.carry_out(plan)[0])
            results.troubles(plan)
            for experiment in experiments:
                experiment.choose_weight(results)
        for experiment in experiments:
            self._cells(part, experiment)
        results = Results(setting.carry_out(plan)[0])
        words = results.troubles(plan)
        if part == "performance":
            yield _saloss_tables.performance(experiments, results, words)
            yield _saloss_tables.settings(experiments, results)
        elif part == "fresh":
            for thresholder in self.thresholders:
                yield self._fresh(thresholder, experiments, results, words)
        for experiment in experiments:
            if part == "decision_flip":
                for way in self.flips:
                    yield _saloss_tables.flips(experiment, results, words, way)
            elif part == "saliences":
                for way in self.flips:
                    yield _saloss_tables.saliences(experiment, results, words, way)
            elif part == "examples":
                yield self._examples(experiment, results)
            elif part == "part_of_speech":
                yield self._tags(experiment, results)

    def _material(self, name: str, setting: Setting) -> Material:
        key = ("saloss", name, setting.limit, self.examples)
        return setting.context.once(key, lambda: load(name, like="saloss", limit=setting.limit, examples=self.examples))

    def _experiments(self, setting: Setting, plan: Plan) -> list[Experiment]:
        given = {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
        weight = None if isinstance(self.weight, str) else float(self.weight)
        found = []
        for name in setting.data or _DATA:
            material = self._material(name, setting)
            base = setting.base or BASES.get(material.name, "bert-base-uncased")
            found.append(Experiment(Trials(material, base, plan), setting.seeds, given, weight, self.variant))
        return found

    def _cells(self, part: str, experiment: Experiment) -> None:
        """Everything a part needs of one data set."""
        for seed in experiment.seeds:
            if part == "performance":
                for source in ("plain", "text_rank"):
                    experiment.model(source, seed)
            elif part in ("decision_flip", "saliences"):
                sources = ("plain", "text_rank") if part == "decision_flip" else ("text_rank", "chi_squared", "tf_idf")
                for way in self.flips:
                    for source, method in itertools.product(sources, METHODS):
                        experiment.flips(source, method, seed, way)
                    experiment.flips("plain", "random", seed, way)
            elif part == "fresh":
                for thresholder in self.thresholders:
                    for source in _SUPPORTS:
                        experiment.fresh(source, "attention", thresholder, seed, self._ratio(experiment))
                    experiment.fresh("plain", "random", thresholder, seed, self._ratio(experiment))
            else:
                for source in ("plain", "text_rank"):
                    experiment.words(source, seed)

    def _ratio(self, experiment: Experiment) -> float:
        return self.ratio or RATIOS.get(experiment.name, 0.2)

    def _fresh(self, thresholder: str, experiments: list[Experiment], results: Results, words: str) -> Section:
        table = "3" if thresholder == "top_k" else "7"
        rows, facts = [], {}
        for one in experiments:
            ratio = self._ratio(one)
            found = {"full text": [results.quality(one.model("plain", seed)) for seed in one.seeds]}
            for source, explainer in [*((source, "attention") for source in _SUPPORTS), ("plain", "random")]:
                cells = [one.fresh(source, explainer, thresholder, seed, ratio) for seed in one.seeds]
                name = "random" if explainer == "random" else source
                found[name] = [results.quality(cell) for cell in cells]
            p = statistics.t_test(found["text_rank"], found["plain"])[1]
            shown = [_shown(*mean_and_deviation(values)) for values in found.values()]
            theirs = [
                printed("saloss_fresh", table=table, dataset=one.printed, salience=SOURCE_PRINTED[source])
                for source in _SUPPORTS
            ]
            rows.append([f"{one.name} ({ratio:.0%})", *shown, p, *theirs])
            facts[one.name] = {"ratio": ratio, "macro_f1": found, "p": p}
        columns = ("data", "full text", "plain", "text_rank", "uniform", "random", "p",
                   "plain, published", "text_rank, published", "uniform, published")  # fmt: skip
        title = f"Table {table}: macro-F1 of classifiers that read {thresholder} rationales alone, attention"
        said = "Means over seeds (standard deviation); p: t-test over seeds of text_rank against plain. " + words
        return Section("fresh", title, columns, rows, said.strip(), {thresholder: facts})

    def _examples(self, experiment: Experiment, results: Results, most: int = 3) -> Section:
        texts = {example.id: example for example in experiment.material.splits["test"]}
        tables = [results.table(experiment.words(source, experiment.seeds[0])) for source in ("plain", "text_rank")]
        rows: list[list[Any]] = []
        known = [table.to_pylist() for table in tables if table is not None]
        if len(known) == len(tables):
            for one, other in zip(*known, strict=True):
                example, chosen = texts[one["example_id"]], []
                for row in (one, other):
                    places = contiguous(row["scores"], self._ratio(experiment))
                    chosen.append(example.text[row["starts"][places[0]] : row["ends"][places[-1]]] if places else "")
                if one["target"] == other["target"] == example.label and chosen[0] != chosen[1]:
                    label = experiment.material.labels[one["target"]]
                    rows.append([example.id, label, *chosen, example.text])
        columns = ("example", "class", "plain", "text_rank", "text")
        title = f"Table 4: contiguous rationales by attention × gradient, {experiment.name}"
        said = f"The first of {len(rows)} texts that both models class rightly, for different reasons."
        facts = {experiment.name: [dict(zip(columns, row, strict=True)) for row in rows[:most]]}
        return Section("examples", title, columns, rows[:most], said, facts)

    def _tags(self, experiment: Experiment, results: Results) -> Section:
        title = f"Figure 1: mean importance (attention × gradient) by part of speech, {experiment.name}"
        columns = ("tag", "words", "plain", "text_rank")
        if not self.tagger:
            said = (
                "No tagger was named, so this part is left out: pass 'saloss(tagger=\"spacy:en_core_web_sm\")', or any "
                "function from words to tags as package.module:function."
            )
            return Section("part_of_speech", title, columns, [], said, {experiment.name: None})
        try:
            tagger = _tagging.find_tagger(self.tagger)
        except TrothError as error:
            return Section("part_of_speech", title, columns, [], f"Left out: {error}", {experiment.name: None})
        texts = {example.id: example.text for example in experiment.material.splits["test"]}
        means = {}
        for source in ("plain", "text_rank"):
            tables = [results.table(experiment.words(source, seed)) for seed in experiment.seeds]
            known = [row for table in tables if table is not None for row in table.to_pylist()]
            words = ([texts[row["example_id"]][a:b] for a, b in zip(row["starts"], row["ends"], strict=True)]
                     for row in known)  # fmt: skip
            shares = (_tagging.share_of_text(row["scores"]) for row in known)
            means[source] = _tagging.mean_by_tag(tagger, zip(words, shares, strict=True))
        rows: list[list[Any]] = [
            [tag, count // len(experiment.seeds), mean, means["text_rank"].get(tag, (np.nan, 0))[0]]
            for tag, (mean, count) in means["plain"].items()
        ]

        def draw(figure: Figure) -> None:
            axes = figure.subplots()
            places = np.arange(len(rows))
            for number, source in enumerate(("plain", "text_rank")):
                axes.bar(places + 0.4 * number, [row[2 + number] for row in rows], 0.4, label=source)
            axes.set_xticks(places + 0.2, [str(row[0]) for row in rows], rotation=60)
            axes.set_ylabel("mean importance")
            axes.legend()

        facts = {experiment.name: {row[0]: {"plain": row[2], "text_rank": row[3], "words": row[1]} for row in rows}}
        return Section("part_of_speech", title, columns, rows, _tagging.SHARES, facts, draw if rows else None)


def _shown(mean: float, deviation: float) -> str:
    if np.isnan(mean):
        return "–"
    return f"{mean:.3f}" if np.isnan(deviation) else f"{mean:.3f} ({deviation:.3f})"
