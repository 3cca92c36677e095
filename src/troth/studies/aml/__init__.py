"""AML (Barkan et al., 2024): an attribution model against other explainers by five metrics, its losses left out one by
one, agreement with humans, and runtime.

Seeds are those of explaining: each draws its own sample, weights of the losses and attribution models, and redraws the
methods that draw (LIME, SHAP, random). The explained model and the test examples are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from troth.attribution_model.fitting import Sampler, Settings
from troth.attribution_model.model import Variant as Encoding
from troth.core import catalog
from troth.core.errors import TrothError, unknown
from troth.data import Data
from troth.data._classes import without_labels
from troth.models import short_name
from troth.store.cells import Cell, Plan
from troth.store.specs import ModelSpec
from troth.store.store import Store
from troth.studies import Section, Setting, Study
from troth.studies.aml._cells import (
    VARIANTS,
    Variant,
    Wanted,
    attributive,
    baselines,
    carry_out,
    classifier_for,
    explained,
    fits,
    joined,
    measured,
    measuring,
)  # fmt: skip
from troth.studies.aml._estimate import PROBES, effort, passes_a_text
from troth.studies.aml._tables import BASELINES, METRICS, RELEASED, data_of_paper, of_paper, of_tables, solvex, tested
from troth.studies.aml._words import about_seeds, best, facts_of, seconds, shown
from troth.training import bases
from troth.training.examples import load_labeled

_HUMAN = ("DCMP", "SIG", "random")
_LONG = 60  # tokens; the paper leaves Solvex out on long texts, too
_LOSSES: dict[str, tuple[str, ...]] = {short: (METRICS[short],) for short in ("suff", "comp")}  # judged in the ablation
_AGREEMENT = "rationale_agreement(top=25)"


@dataclass(frozen=True)
class Aml(Study):
    parts: ClassVar[Mapping[str, str]] = {
        "main": "methods by five metrics (tables 1 and 2)",
        "ablation": "the losses, left out or in another form (table 4)",
        "human": "agreement with human rationales (table 3)",
        "runtime": "seconds per example (table 5)",
    }
    takes_prompt: ClassVar[bool] = True

    examples: int = 100  # explained and measured, of each data set; --limit says otherwise
    methods: tuple[str, ...] = ()  # of the baselines by the paper's names; all where empty
    steps: int = 10  # of fAML
    fit_examples: int = 1000
    fit_epochs: float = 10
    validation: int = 200
    learning_rate: float = 4e-5
    trials: int = 30
    trial_examples: int = 450
    trial_epochs: float = 2
    trials_per_metric: bool = False  # the paper's way: a search for each metric
    search: Sampler = "auto"
    backbone: str | None = None  # of the attribution model: a folder, "explained", or by default the pretrained encoder
    variant: Encoding = "paper"  # released: from the explained encoder, label encoding divided
    classifier_epochs: int = 2  # of a model that is first trained for data it has no classes for
    classifier_batch: int = 32
    classifier_limit: int | None = 20_000
    beside: str = "BERT"  # whose column of the paper's tables is shown
    human: str = "eraser_movies"
    timed: int = 10  # examples of the runtime table
    llm: str | None = None  # an explainer that asks a language model for a ranking, e.g. "llm_ranking(model=…)"

    def __post_init__(self) -> None:
        for method in self.methods:
            if method not in BASELINES:
                raise unknown("method of this study", method, BASELINES)

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        names = setting.data or ("sst2",)
        if part == "main":
            for name in names:
                yield self._main(setting, name)
        elif part == "ablation":
            yield self._ablation(setting, names[0])
        elif part == "human":
            yield self._human(setting, names[0])
        else:
            yield self._runtime(setting, names)

    def plan(self, part: str, setting: Setting) -> Plan:
        """Everything a part would do; a model that has to be trained first is stood in for by an untrained one."""
        plans, names = [Plan(probes=PROBES)], (setting.data or ("sst2",))
        count: dict[str, int] = {"trainings": 0, "forward": 0, "backward": 0}
        for name in names if part == "main" else names[:1]:
            classifier = classifier_for(self, setting, name)
            model = explained(setting, name, classifier)
            if model is None:
                plans.append(Plan({classifier.name: classifier}))
                labeled = load_labeled(name, limit=2_000)
                built = bases.build(setting.base or "embedded")
                untrained = built.build(labeled.training.examples, labeled.labels, setting.seeds[0], None)
                model = setting.context.model_spec(untrained)
            fitted, cells = fits(self, setting, model, name, VARIANTS if part == "ablation" else VARIANTS[:1])
            plans.append(fitted)
            for cell in cells.values():
                one = effort(Settings(**cell.specs["settings"]), cell.specs["metrics"])
                count["trainings"] += one.trainings
                count["forward"] += one.forward
                count["backward"] += one.backward
            if part != "runtime":
                data, wanted, judges, _ = self._work(part, setting, model, name, cells)
                plans.append(measuring(setting, model, data, wanted, judges)[0])
        whole = joined(plans)
        whole.about["fits"] = count
        return whole

    def _work(
        self, part: str, setting: Setting, model: ModelSpec, name: str, cells: Mapping[tuple[str, int], Cell]
    ) -> tuple[Data, list[Wanted], dict[str, tuple[str, ...]], list[str]]:
        """What a part explains and measures: data, methods, the judges of each metric, and what is left out and why."""
        if part == "ablation":
            data = tested(name, setting.limit or self.examples)
            return data, [one for short in _LOSSES for one in attributive(self, setting, cells, short)], _LOSSES, []
        if part == "human":
            # Its model may have other classes than the marked texts.
            data = without_labels(tested(self.human, setting.limit or self.examples))
            known = {method: spec for method, spec in self._baselines().items() if method in _HUMAN}
            wanted = [*attributive(self, setting, cells, "aopc_comp"), *baselines(setting, known, "aopc_comp")]
            return data, wanted, {"aopc_comp": (_AGREEMENT,)}, []
        data = tested(name, setting.limit or self.examples)
        known, left_out = self._affordable(setting, model, data)
        wanted = [
            one for short in METRICS
            for one in (*attributive(self, setting, cells, short), *baselines(setting, known, short))
        ]  # fmt: skip
        judges = {short: (spec, *([RELEASED[short]] if short in RELEASED else [])) for short, spec in METRICS.items()}
        return data, wanted, judges, left_out

    def _baselines(self) -> dict[str, str]:
        chosen = {
            name: spec for name, spec in BASELINES.items() if not self.methods or name in (*self.methods, "random")
        }
        return chosen | ({} if self.llm is None else {"LLM": self.llm})

    def _affordable(self, setting: Setting, model: ModelSpec, data: Data) -> tuple[dict[str, str], list[str]]:
        """The baselines without Solvex on long texts, as in the paper, unless it is asked for by name."""
        known = self._baselines()
        lengths = [one.n_units for one in setting.context.model(model).encode(data.examples, "token")]
        if "SLVX" not in known or "SLVX" in self.methods or np.mean(lengths) <= _LONG:
            return known, []
        passes = passes_a_text(catalog.build("explainers", known.pop("SLVX")), lengths)
        words = f"SLVX is left out, as in the paper: it would take about {passes:,.0f} passes per text here."
        return known, [f"{words} methods=('SLVX', …) runs it all the same."]

    def _ready(
        self, setting: Setting, name: str, variants: Sequence[Variant] = VARIANTS[:1]
    ) -> tuple[ModelSpec, dict[tuple[str, int], Cell]]:
        """The explained model and its attribution models, trained where they are not there yet."""
        classifier = classifier_for(self, setting, name)
        model = explained(setting, name, classifier)
        if model is None:
            carry_out(setting, Plan({classifier.name: classifier}))
            model = explained(setting, name, classifier)
            assert model is not None
        plan, cells = fits(self, setting, model, name, variants)
        carry_out(setting, plan)
        return model, cells

    def _main(self, setting: Setting, name: str) -> Section:
        model, cells = self._ready(setting, name)
        data, wanted, judges, left_out = self._work("main", setting, model, name, cells)
        found, failed = measured(setting, model, data, wanted, judges)
        methods = list(dict.fromkeys(one.method for one in wanted))
        columns = ["method"]
        for short in METRICS:
            columns += [short, *(["released"] if short in RELEASED else []), "paper"]
        rows = []
        for method in methods:
            row: list[Any] = [method]
            for short, judge in judges.items():
                row += [shown(found, method, one) for one in judge]
                row.append(of_tables(name, self.beside, method, short))
            rows.append(row)
        rows_of_fits = {seed: Store(setting.out).table(cell.name).to_pylist() for (_, seed), cell in cells.items()}
        lambdas = [{"seed": seed, **row} for seed, known in rows_of_fits.items() for row in known]
        named = {**METRICS, **{f"{short}_released": spec for short, spec in RELEASED.items()}}
        facts = {
            data.name: {
                "examples": len(data), "split": data.split, "model": short_name(model.model),
                "seeds": list(setting.seeds), "failed": failed, "left_out": left_out, "lambdas": lambdas,
                "methods": {method: facts_of(found, method, named) for method in methods},
            }
        }  # fmt: skip
        words = [best(found, methods), *left_out, *(f"{method}: {why}" for method, why in failed.items())]
        words += [about_seeds(setting.seeds), f"The attribution models start from {lambdas[0]['backbone']}."]
        if {row["split"] for row in lambdas} == {data.split}:
            words.append("The attribution models were fitted on texts of the same split.")
        who = "a model trained for it" if model.model.startswith("cell:") else short_name(model.model)
        split = f" ({data.split})" if data.split else ""
        title = f"{who} on {len(data)} examples of {data.name}{split}, next to the paper's {self.beside}"
        return Section("main", title, columns, rows, " ".join(filter(None, words)), facts)

    def _ablation(self, setting: Setting, name: str) -> Section:
        model, cells = self._ready(setting, name, VARIANTS)
        data, wanted, judges, _ = self._work("ablation", setting, model, name, cells)
        found, failed = measured(setting, model, data, wanted, judges)
        methods = list(dict.fromkeys(one.method for one in wanted))
        rows = []
        for method in methods:
            row: list[Any] = [method]
            for short, (judge,) in judges.items():
                row += [shown(found, method, judge), of_paper("aml_ablation", "value", method=method, metric=short)]
            rows.append(row)
        named = {short: judge for short, (judge,) in judges.items()}
        by_method = {method: facts_of(found, method, named) for method in methods}
        facts = {"data": data.name, "seeds": list(setting.seeds), "failed": failed, "methods": by_method}
        words = (
            "Lower is better for sufficiency, higher for comprehensiveness. The paper's are of DistilBERT on EMR. "
            f"{about_seeds(setting.seeds)}"
        )
        title = f"Losses left out or changed, {len(data)} examples of {data.name}"
        return Section("ablation", title, ["method", "suff", "paper", "comp", "paper"], rows, words.strip(), facts)

    def _human(self, setting: Setting, name: str) -> Section:
        model, cells = self._ready(setting, name)
        marked, wanted, judges, _ = self._work("human", setting, model, name, cells)
        found, failed = measured(setting, model, marked, wanted, judges)
        rows, by_method = [], {}
        for method in dict.fromkeys(one.method for one in wanted):
            result = found.get((method, _AGREEMENT))
            macro, micro = (
                of_paper("aml_human", "value", method=method, metric=f"{kind}_f1_top25") for kind in ("macro", "micro")
            )
            pooled = None if result is None else result.summary.extra.get("micro_f1")
            rows.append([method, shown(found, method, _AGREEMENT), macro, pooled, micro])
            value = None if result is None else result.summary.value
            by_method[method] = {"macro_f1": value, "micro_f1": pooled}
        count = max((result.summary.count for result in found.values()), default=0)
        facts = {"data": marked.name, "failed": failed, "methods": by_method, "examples": count}
        words = (
            f"Token F1 of the 25 top tokens on {count} of {len(marked)} documents; the others have no marked token "
            f"within what the model reads. The paper's: BERT on ERASER's films. {about_seeds(setting.seeds)}"
        )
        title = f"Agreement with humans on {marked.name}; attribution models fitted on {name}, chosen by aopc_comp"
        return Section("human", title, ["method", "macro F1", "paper", "micro F1", "paper"], rows, words.strip(), facts)

    def _runtime(self, setting: Setting, names: Sequence[str]) -> Section:
        model, cells = self._ready(setting, names[0])
        loaded, first = setting.context.model(model), setting.seeds[0]
        others = {"SIG": BASELINES["SIG"], "DCMP": BASELINES["DCMP"]}
        others |= {f"SLVX-{width}": solvex(width) for width in (10, 50, 100)}
        chosen = self.methods or BASELINES
        methods = {one.method: one.explainers[first] for one in attributive(self, setting, cells, "aopc_comp")}
        methods |= {method: spec for method, spec in others.items() if method.split("-")[0] in chosen}
        rows: list[list[Any]] = [[method] for method in methods]
        facts: dict[str, Any] = {}
        for name in names:
            data = tested(name, self.timed)
            tokens = float(np.mean([encoding.n_units for encoding in loaded.encode(data.examples, "token")]))
            facts[name] = {"examples": len(data), "tokens": tokens, "seconds": {}}
            for row, (method, spec) in zip(rows, methods.items(), strict=True):
                try:
                    too_long = method.startswith("SLVX") and tokens > _LONG
                    took = (None, None) if too_long else seconds(loaded, data, spec)
                except TrothError:
                    took = (None, None)
                table = method.replace("SLVX-", "SLVX-beamsize-")
                row += [*took, of_paper("aml_runtime", "seconds", dataset=data_of_paper(name), method=table)]
                facts[name]["seconds"][method] = {"alone": took[0], "together": took[1]}
        columns = ["method", *(f"{name}{what}" for name in names for what in (" alone", " together", " (paper)"))]
        lengths = ", ".join(f"{name} {about['tokens']:.0f}" for name, about in facts.items())
        words = (
            "Seconds per example, after a warm-up: one text at a time, and all texts together. The paper's are of "
            f"RoBERTa-base on an A100. Mean length in tokens: {lengths}."
        )
        return Section("runtime", f"Runtime on {loaded.device}", columns, rows, words, facts)
