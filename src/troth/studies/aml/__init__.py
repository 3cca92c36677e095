"""AML (Barkan et al., 2024): an attribution model against other explainers by five metrics, its losses left out one by
one, agreement with humans, and runtime.

Seeds are those of explaining: each draws its own sample, weights of the losses and attribution models, and redraws the
methods that draw (LIME, SHAP, random). The explained model and the test examples are the same for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from troth.attribution_model.fitting import Sampler, Settings
from troth.attribution_model.model import Variant as Encoding
from troth.core import catalog
from troth.core.errors import unknown
from troth.data import Data
from troth.data._classes import without_labels
from troth.store.cells import Cell, Plan
from troth.store.specs import ModelSpec
from troth.studies import Section, Setting, Study, joined
from troth.studies.aml import _sections
from troth.studies.aml._cells import (
    VARIANTS,
    Wanted,
    attributive,
    baselines,
    classifier_for,
    explained,
    fits,
    measuring,
)
from troth.studies.aml._estimate import PROBES, effort, passes_a_text
from troth.studies.aml._tables import BASELINES, METRICS, RELEASED, tested
from troth.training import bases
from troth.training.examples import load_labeled

_HUMAN = ("DCMP", "SIG", "random")
_EVERY = ("main", "examples")  # parts that are run for every data set, others for the first
_ON_THE_SPOT = ("runtime", "examples")  # parts that store nothing but attribution models
_LONG = 60  # tokens; the paper leaves Solvex out on long texts, too


@dataclass(frozen=True)
class Aml(Study):
    parts: ClassVar[Mapping[str, str]] = {
        "main": "methods by five metrics (tables 1 and 2)",
        "ablation": "the losses, left out or in another form (table 4)",
        "human": "agreement with human rationales (table 3)",
        "runtime": "seconds per example (table 5)",
        "examples": "texts with the three tokens that each method ranks first (table 6)",
    }
    takes_prompt: ClassVar[bool] = True

    examples: int = 100  # explained and measured, of each data set; --limit overrides it
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
    together: int | None = 1  # trainings of attribution models side by side on a GPU at most; None = what memory holds
    backbone: str | None = None  # of the attribution model: a folder, "explained", or by default the pretrained encoder
    variant: Encoding = "paper"  # released: from the explained encoder, label encoding divided
    classifier_epochs: int = 2  # of a model that is first trained for data it has no classes for
    classifier_batch: int = 32
    classifier_learning_rate: float = 2e-5
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
        if part == "runtime":
            yield _sections.runtime(self, setting, names)
            return
        for name in names if part in _EVERY else names[:1]:
            yield _sections.SECTIONS[part](self, setting, name)

    def plan(self, part: str, setting: Setting) -> Plan:
        """Everything a part would do; an untrained model stands for one that has to be trained first."""
        plans, names = [Plan(probes=PROBES)], (setting.data or ("sst2",))
        count = Counter({"trainings": 0, "forward": 0, "backward": 0})
        for name in names if part in _EVERY else names[:1]:
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
                fit = effort(Settings(**cell.specs["settings"]), cell.specs["metrics"])
                count.update(trainings=fit.trainings, forward=fit.forward, backward=fit.backward)
            if part not in _ON_THE_SPOT:
                data, wanted, judges, _ = self.work(part, setting, model, name, cells)
                plans.append(measuring(setting, model, data, wanted, judges)[0])
        return joined(plans, fits=dict(count))

    def work(
        self, part: str, setting: Setting, model: ModelSpec, name: str, cells: Mapping[tuple[str, int], Cell]
    ) -> tuple[Data, list[Wanted], dict[str, tuple[str, ...]], list[str]]:
        """What a part explains and measures: data, methods, the judges of each metric, and what is left out and why."""
        count = setting.limit or self.examples
        if part == "ablation":
            judges: dict[str, tuple[str, ...]] = {short: (METRICS[short],) for short in ("suff", "comp")}
            wanted = [method for short in judges for method in attributive(self, setting, cells, short)]
            return tested(name, count), wanted, judges, []
        if part == "human":
            # Its model may have other classes than the marked texts.
            data = without_labels(tested(self.human, count))
            chosen = {method: spec for method, spec in self.chosen().items() if method in _HUMAN}
            wanted = [*attributive(self, setting, cells, "aopc_comp"), *baselines(setting, chosen, "aopc_comp")]
            return data, wanted, {"aopc_comp": (_sections.AGREEMENT,)}, []
        data = tested(name, count)
        chosen, left_out = self._affordable(setting, model, data)
        wanted = [
            method for short in METRICS
            for method in (*attributive(self, setting, cells, short), *baselines(setting, chosen, short))
        ]  # fmt: skip
        judges = {short: (spec, *([RELEASED[short]] if short in RELEASED else [])) for short, spec in METRICS.items()}
        return data, wanted, judges, left_out

    def chosen(self) -> dict[str, str]:
        """The other methods, as explainers."""
        chosen = {
            name: spec for name, spec in BASELINES.items() if not self.methods or name in (*self.methods, "random")
        }
        return chosen | ({} if self.llm is None else {"LLM": self.llm})

    def _affordable(self, setting: Setting, model: ModelSpec, data: Data) -> tuple[dict[str, str], list[str]]:
        """The baselines; without Solvex on long texts, as in the paper, unless it is asked for by name."""
        chosen = self.chosen()
        lengths = [encoding.n_units for encoding in setting.context.model(model).encode(data.examples, "token")]
        if "SLVX" not in chosen or "SLVX" in self.methods or np.mean(lengths) <= _LONG:
            return chosen, []
        passes = passes_a_text(catalog.build("explainers", chosen.pop("SLVX")), lengths)
        words = f"SLVX is left out, as in the paper: it would take about {passes:,.0f} passes per text here."
        return chosen, [f"{words} methods=('SLVX', …) runs it all the same."]

    def is_too_long(self, method: str, tokens: float) -> bool:
        """Whether a method is left out on texts of this mean length."""
        return method.startswith("SLVX") and tokens > _LONG
