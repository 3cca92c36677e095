"""AML (Barkan et al., 2024): an attribution model against other explainers by five metrics, its losses left out one by
one, agreement with humans, and runtime.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from troth import catalog
from troth.data import Data, load_data
from troth.data._classes import without_labels
from troth.errors import TrothError, unknown
from troth.explaining import explain_each
from troth.metrics import Summary
from troth.probing import Prober
from troth.studies import Section, Setting, Study
from troth.studies._aml_cells import VARIANTS, explained, fitted, measured
from troth.studies._aml_tables import BASELINES, METRICS, data_of_paper, of_paper, solvex
from troth.sweep.cells import Cell
from troth.sweep.store import Store

_HUMAN = ("DCMP", "SIG", "random")
_LONG = 60  # tokens; the paper leaves Solvex out on long texts, too


@dataclass(frozen=True)
class Aml(Study):
    parts: ClassVar[Mapping[str, str]] = {
        "main": "methods by five metrics (tables 1 and 2)",
        "ablation": "the losses, left out or in another form (table 4)",
        "human": "agreement with human rationales (table 3)",
        "runtime": "seconds an example (table 5)",
    }

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
    backbone: str | None = None  # of the attribution model; None = the explained model's own encoder
    classifier_epochs: int = 2  # of a model that is first trained for data it has no classes for
    classifier_batch: int = 32
    classifier_limit: int | None = 20_000
    aopc: Literal["paper", "released"] = "paper"  # the released code divides by six
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

    def _maps(self, setting: Setting, cell: Cell, metric: str) -> dict[str, str]:
        """pAML and fAML by the attribution model chosen by a metric."""
        folder = str(setting.out / "files" / cell.name / metric)
        spec = f"attributive_masking(checkpoint={folder!r}"
        return {"fAML": f"{spec}, steps={self.steps})", "pAML": f"{spec})"}

    def _examples(self, setting: Setting, name: str, count: int) -> Data:
        return load_data(name, limit=setting.limit or count)

    def _baselines(self) -> dict[str, str]:
        chosen = {
            name: spec for name, spec in BASELINES.items() if not self.methods or name in (*self.methods, "random")
        }
        return chosen | ({} if self.llm is None else {"LLM": self.llm})

    def _judges(self) -> dict[str, str]:
        option = "(variant='released')" if self.aopc == "released" else ""
        return {name: spec + (option if name.startswith("aopc") else "") for name, spec in METRICS.items()}

    def _main(self, setting: Setting, name: str) -> Section:
        model = explained(self, setting, name)
        cell = fitted(self, setting, model, name, VARIANTS[:1])[""]
        data, baselines = self._examples(setting, name, self.examples), self._baselines()
        wanted: dict[tuple[str, str], str] = {}
        for short, metric in METRICS.items():
            every = {**self._maps(setting, cell, metric), **baselines}
            wanted |= {(method, short): spec for method, spec in every.items()}
        found, failed = measured(setting, model, data, wanted, self._judges())
        methods = ["fAML", "pAML", *baselines]
        columns, rows = ["method"], []
        for short in METRICS:
            columns += [short, "paper"]
        for method in methods:
            row: list[Any] = [method]
            for short in METRICS:
                paper = of_paper(
                    "aml_encoder", "value", dataset=data_of_paper(name), model=self.beside, method=method, metric=short
                )
                row += [_value(found, method, short), paper]
            rows.append(row)
        lambdas = Store(setting.out).table(cell.name).to_pylist()
        facts = {
            data.name: {
                "examples": len(data), "split": data.split, "model": model["model"], "failed": failed,
                "lambdas": lambdas,
                "methods": {method: {short: _facts(found, method, short) for short in METRICS} for method in methods},
            }
        }  # fmt: skip
        words = [_best(found, methods), *(f"{method}: {why}" for method, why in failed.items())]
        if {row["split"] for row in lambdas} == {data.split}:
            words.append("The attribution models were fitted on texts of the same split.")
        who = "a model trained for it" if model["model"].startswith("cell:") else model["model"]
        title = f"{who} on {len(data)} examples of {data.name}, beside the paper's {self.beside}"
        return Section("main", title, columns, rows, " ".join(words), facts)

    def _ablation(self, setting: Setting, name: str) -> Section:
        model = explained(self, setting, name)
        cells = fitted(self, setting, model, name, VARIANTS)
        data = self._examples(setting, name, self.examples)
        shorts = {short: METRICS[short] for short in ("suff", "comp")}
        wanted = {
            (f"{method}{variant}", short): spec
            for variant, cell in cells.items()
            for short, metric in shorts.items()
            for method, spec in self._maps(setting, cell, metric).items()
        }
        found, failed = measured(setting, model, data, wanted, shorts)
        methods = list(dict.fromkeys(method for method, _ in wanted))
        rows = []
        for method in methods:
            row: list[Any] = [method]
            for short in shorts:
                row += [_value(found, method, short), of_paper("aml_ablation", "value", method=method, metric=short)]
            rows.append(row)
        facts = {"data": data.name, "failed": failed, "methods": _by_method(found, methods, shorts)}
        words = "Lower is better for sufficiency, higher for comprehensiveness. The paper's are of DistilBERT on EMR."
        title = f"Losses left out or changed, {len(data)} examples of {data.name}"
        return Section("ablation", title, ["method", "suff", "paper", "comp", "paper"], rows, words, facts)

    def _human(self, setting: Setting, name: str) -> Section:
        model = explained(self, setting, name)
        cell = fitted(self, setting, model, name, VARIANTS[:1])[""]
        marked = without_labels(self._examples(setting, self.human, self.examples))  # the model may have other classes
        baselines = {method: spec for method, spec in self._baselines().items() if method in _HUMAN}
        every = {**self._maps(setting, cell, METRICS["aopc_comp"]), **baselines}
        judge = {"f1": "rationale_agreement(top=25)"}
        wanted = {(method, "f1"): spec for method, spec in every.items()}
        found, failed = measured(setting, model, marked, wanted, judge)
        rows = []
        for method in every:
            summary = found.get((method, "f1"))
            paper = [
                of_paper("aml_human", "value", method=method, metric=f"{kind}_f1_top25") for kind in ("macro", "micro")
            ]
            micro = None if summary is None else summary.extra.get("micro_f1")
            rows.append([method, _value(found, method, "f1"), paper[0], micro, paper[1]])
        counts = {summary.count for summary in found.values()}
        by_method = {row[0]: {"macro_f1": row[1], "micro_f1": row[3]} for row in rows}
        facts = {"data": marked.name, "failed": failed, "methods": by_method, "examples": max(counts, default=0)}
        words = (
            f"Token F1 of the 25 top tokens on {max(counts, default=0)} of {len(marked)} documents; the others have no "
            "marked token within what the model reads. The paper's: BERT on ERASER's films."
        )
        title = f"Agreement with humans on {marked.name}; attribution models fitted on {name}, chosen by aopc_comp"
        return Section("human", title, ["method", "macro F1", "paper", "micro F1", "paper"], rows, words, facts)

    def _runtime(self, setting: Setting, names: Sequence[str]) -> Section:
        model = explained(self, setting, names[0])
        cell = fitted(self, setting, model, names[0], VARIANTS[:1])[""]
        loaded = setting.context.model(model)
        baselines = {"SIG": BASELINES["SIG"], "DCMP": BASELINES["DCMP"]}
        baselines |= {f"SLVX-{width}": solvex(width) for width in (10, 50, 100)}
        chosen = self.methods or BASELINES
        methods = {
            **self._maps(setting, cell, METRICS["aopc_comp"]),
            **{method: spec for method, spec in baselines.items() if method.split("-")[0] in chosen},
        }
        rows: list[list[Any]] = [[method] for method in methods]
        facts: dict[str, Any] = {}
        for name in names:
            data = load_data(name, limit=self.timed)
            tokens = float(np.mean([encoding.n_units for encoding in loaded.encode(data.examples, "token")]))
            facts[name] = {"examples": len(data), "tokens": tokens, "seconds": {}}
            for row, (method, spec) in zip(rows, methods.items(), strict=True):
                try:
                    too_long = method.startswith("SLVX") and tokens > _LONG
                    took = (None, None) if too_long else _seconds(loaded, data, spec)
                except TrothError:
                    took = (None, None)
                table = method.replace("SLVX-", "SLVX-beamsize-")
                row += [*took, of_paper("aml_runtime", "seconds", dataset=data_of_paper(name), method=table)]
                facts[name]["seconds"][method] = {"alone": took[0], "together": took[1]}
        columns = ["method", *(f"{name}{what}" for name in names for what in (" alone", " together", " (paper)"))]
        lengths = ", ".join(f"{name} {about['tokens']:.0f}" for name, about in facts.items())
        words = (
            "Seconds an example, after a warm-up: one text at a time, and all texts together. The paper's are of "
            f"RoBERTa-base on an A100. Mean length in tokens: {lengths}."
        )
        return Section("runtime", f"Runtime on {loaded.device}", columns, rows, words, facts)


def _seconds(model: Any, data: Data, spec: str) -> tuple[float, float]:
    """An example alone and in company, each after one that warms up."""

    def run(examples: Sequence[Any]) -> float:
        begun = time.perf_counter()
        list(explain_each(Prober(model), examples, spec, units="token"))
        return time.perf_counter() - begun

    run(data.examples[:1])
    alone = float(np.mean([run([example]) for example in data.examples]))
    run(data.examples)
    return alone, run(data.examples) / len(data)


def _value(found: Mapping[tuple[str, str], Summary], method: str, short: str) -> float | None:
    return found[method, short].value if (method, short) in found else None


def _facts(found: Mapping[tuple[str, str], Summary], method: str, short: str) -> dict[str, Any] | None:
    summary = found.get((method, short))
    return None if summary is None else {"value": summary.value, "low": summary.low, "high": summary.high}


def _by_method(
    found: Mapping[tuple[str, str], Summary], methods: Sequence[str], shorts: Mapping[str, str]
) -> dict[str, Any]:
    return {method: {short: _facts(found, method, short) for short in shorts} for method in methods}


def _best(found: Mapping[tuple[str, str], Summary], methods: Sequence[str]) -> str:
    """Who is first by each metric, and where fAML and pAML stand."""
    parts = []
    for short, metric in METRICS.items():
        sign = -1 if catalog.find("metrics", metric).higher_is_better else 1
        order = sorted(
            (method for method in methods if (method, short) in found), key=lambda one: sign * found[one, short].value
        )
        places = [f"{method} is {order.index(method) + 1}" for method in ("fAML", "pAML") if method in order]
        if order:
            parts.append(f"{short}: {', '.join([f'{order[0]} is best of {len(order)}', *places])}.")
    return " ".join(parts)
