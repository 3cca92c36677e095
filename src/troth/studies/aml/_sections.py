"""The tables of the AML study, each with the fits and measurements that it needs."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from troth.core import catalog
from troth.core.errors import TrothError
from troth.core.types import Attribution, Example
from troth.data import Data
from troth.engine.prober import Prober
from troth.models import TextClassifier, short_name
from troth.studies import Section, published
from troth.studies._results import Results
from troth.studies.aml._experiment import (
    BASELINES,
    EXAMPLES,
    LONG,
    METRICS,
    RELEASED,
    AmlExperiment,
    MethodResults,
    data_of_paper,
    of_tables,
    solvex,
    tested,
)
from troth.verbs.explain import as_examples, explain_each

AGREEMENT = "rationale_agreement(top=25)"
_NEEDS_NO_WARM_UP = 30.0  # seconds; for longer work, the overhead of a first run does not matter
_SHOWN = 4  # texts of data for which the paper shows none
_IN_EXAMPLES = ("SIG", "DCMP", "SLVX")


def main(experiment: AmlExperiment, stored: Results) -> Section:
    study, setting, model = experiment.study, experiment.setting, experiment.model
    data, judges = experiment.study.tested("main", experiment), judges_of("main")
    results, failed = experiment.results(stored.store)
    methods = experiment.methods
    columns = ["method"]
    for short in METRICS:
        columns += [short, *(["released"] if short in RELEASED else []), "paper"]
    rows = []
    for method in methods:
        row: list[Any] = [method]
        for short, specs in judges.items():
            row += [_shown(results, method, spec) for spec in specs]
            row.append(of_tables(experiment.name, study.beside, method, short))
        rows.append(row)
    lambdas = [{"seed": seed, **row} for (_, seed), cell in experiment.fits.items() for row in stored.rows(cell)]
    named = {**METRICS, **{f"{short}_released": spec for short, spec in RELEASED.items()}}
    facts = {
        "examples": len(data), "split": data.split, "model": short_name(model.model), "seeds": list(setting.seeds),
        "failed": failed, "left_out": experiment.notes, "lambdas": lambdas,
        "methods": {method: _facts(results, method, named) for method in methods},
    }  # fmt: skip
    words = [_best(results, methods), *experiment.notes]
    words += [_about_seeds(setting.seeds), f"The attribution models start from {lambdas[0]['backbone']}."]
    if {row["split"] for row in lambdas} == {data.split}:
        words.append("The attribution models were fitted on texts of the same split.")
    subject = "a model trained for it" if model.model.startswith("cell:") else short_name(model.model)
    split = f" ({data.split})" if data.split else ""
    title = f"{subject} on {len(data)} examples of {data.name}{split}, next to the paper's {study.beside}"
    return Section("main", title, columns, rows, " ".join(filter(None, words)), {data.name: facts})


def ablation(experiment: AmlExperiment, stored: Results) -> Section:
    seeds, data = experiment.setting.seeds, experiment.study.tested("ablation", experiment)
    results, failed = experiment.results(stored.store)
    named = {short: spec for short, (spec,) in judges_of("ablation").items()}
    rows, by_method = [], {}
    for method in experiment.methods:
        row: list[Any] = [method]
        for short, spec in named.items():
            row += [_shown(results, method, spec), published.number("aml_ablation", method=method, metric=short)]
        rows.append(row)
        by_method[method] = _facts(results, method, named)
    facts = {"data": data.name, "seeds": list(seeds), "failed": failed, "methods": by_method}
    words = (
        "Lower is better for sufficiency, higher for comprehensiveness. The paper's are of DistilBERT on EMR. "
        f"{_about_seeds(seeds)}"
    )
    title = f"Losses left out or changed, {len(data)} examples of {data.name}"
    return Section("ablation", title, ["method", "suff", "paper", "comp", "paper"], rows, words.strip(), facts)


def human(experiment: AmlExperiment, stored: Results) -> Section:
    marked = experiment.study.tested("human", experiment)
    results, failed = experiment.results(stored.store)
    rows, by_method = [], {}
    for method in experiment.methods:
        result = results.get((method, AGREEMENT))
        macro = None if result is None else result.summary.value
        micro = None if result is None else result.summary.extra.get("micro_f1")
        theirs = [
            published.number("aml_human", method=method, metric=f"{kind}_f1_top25") for kind in ("macro", "micro")
        ]
        rows.append([method, _shown(results, method, AGREEMENT), theirs[0], micro, theirs[1]])
        by_method[method] = {"macro_f1": macro, "micro_f1": micro}
    count = max((result.summary.count for result in results.values()), default=0)
    facts = {"data": marked.name, "failed": failed, "methods": by_method, "examples": count}
    words = (
        f"Token F1 of the 25 top tokens on {count} of {len(marked)} documents; the others have no marked token "
        f"within what the model reads. The paper's: BERT on ERASER's films. {_about_seeds(experiment.setting.seeds)}"
    )
    title = (
        f"Agreement with humans on {marked.name}; attribution models fitted on {experiment.name}, chosen by aopc_comp"
    )
    return Section("human", title, ["method", "macro F1", "paper", "micro F1", "paper"], rows, words.strip(), facts)


def runtime(experiment: AmlExperiment, stored: Results) -> Section:
    study, names = experiment.study, experiment.study.names(experiment.setting)
    model, first = experiment.setting.context.model(experiment.model), experiment.setting.seeds[0]
    others = {"SIG": BASELINES["SIG"], "DCMP": BASELINES["DCMP"]}
    others |= {f"SLVX-{width}": solvex(width) for width in (10, 50, 100)}
    chosen = study.methods or BASELINES
    methods = {method: by_seed[first] for method, by_seed in experiment.attributive("aopc_comp").items()}
    methods |= {method: spec for method, spec in others.items() if method.split("-")[0] in chosen}
    rows: list[list[Any]] = [[method] for method in methods]
    facts: dict[str, Any] = {}
    for name in names:
        data = tested(name, study.timed)
        tokens = float(np.mean([encoding.n_units for encoding in model.encode(data.examples, "token")]))
        facts[name] = {"examples": len(data), "tokens": tokens, "seconds": {}}
        for row, (method, spec) in zip(rows, methods.items(), strict=True):
            alone = together = None
            if tokens <= LONG or not method.startswith("SLVX"):
                with suppress(TrothError):  # shown as –
                    alone, together = _seconds(model, data, spec)
            printed = {"dataset": data_of_paper(name), "method": method.replace("SLVX-", "SLVX-beamsize-")}
            row += [alone, together, published.number("aml_runtime", "seconds", **printed)]
            facts[name]["seconds"][method] = {"alone": alone, "together": together}
    columns = ["method", *(f"{name}{kind}" for name in names for kind in (" alone", " together", " (paper)"))]
    lengths = ", ".join(f"{name} {about['tokens']:.0f}" for name, about in facts.items())
    words = (
        "Seconds per example, after a warm-up: one text at a time, and all texts together. The paper's are of "
        f"RoBERTa-base on an A100. Mean length in tokens: {lengths}."
    )
    return Section("runtime", f"Runtime on {model.device}", columns, rows, words, facts)


def examples(experiment: AmlExperiment, stored: Results) -> Section:
    """The paper's texts, or the first ones of the data if it shows none."""
    name = experiment.name
    model, first = experiment.setting.context.model(experiment.model), experiment.setting.seeds[0]
    texts = list(EXAMPLES.get(data_of_paper(name), ())) or [example.text for example in tested(name, _SHOWN)]
    methods = {method: by_seed[first] for method, by_seed in experiment.attributive("aopc_comp").items()}
    methods |= {method: spec for method, spec in experiment.study.methods_of_paper().items() if method in _IN_EXAMPLES}
    marked = {
        method: [
            (attribution.label(attribution.target), mark(attribution))
            for attribution in explain_each(Prober(model), as_examples(texts), spec, units="token")
        ]
        for method, spec in methods.items()
    }
    rows = [
        [found[place][0], method, found[place][1]] for place in range(len(texts)) for method, found in marked.items()
    ]
    words = "The three tokens that a method ranks first are bold. AML is chosen by aopc_comp."
    return Section("examples", f"Examples of {name}", ["prediction", "method", "text"], rows, words, {name: marked})


def mark(attribution: Attribution, top: int = 3) -> str:
    """The text with its highest tokens in bold.

    Ties are resolved in favor of the earlier token, as in every metric.
    """
    text, order = attribution.example.text, np.argsort(-attribution.scores, kind="stable")
    for start, end in sorted((attribution.spans[place] for place in order[:top]), reverse=True):
        text = f"{text[:start]}**{text[start:end]}**{text[end:]}"
    return text.replace("****", "")  # joins tokens of one word


SECTIONS: Mapping[str, Callable[[AmlExperiment, Results], Section]] = {
    "main": main,
    "ablation": ablation,
    "human": human,
    "runtime": runtime,
    "examples": examples,
}


def judges_of(part: str) -> dict[str, tuple[str, ...]]:
    """The metrics that measure a part's methods, by the metric that selected the attribution models."""
    if part == "ablation":
        return {short: (METRICS[short],) for short in ("suff", "comp")}
    if part == "human":
        return {"aopc_comp": (AGREEMENT,)}
    return {short: (spec, *([RELEASED[short]] if short in RELEASED else [])) for short, spec in METRICS.items()}


def _seconds(model: TextClassifier, data: Data, spec: str) -> tuple[float, float]:
    """Seconds per example, one by one and in batches, each after a warm-up."""

    def run(examples: Sequence[Example]) -> float:
        begun = time.perf_counter()
        list(explain_each(Prober(model), examples, spec, units="token"))
        return time.perf_counter() - begun

    run(data.examples[:1])
    alone = float(np.mean([run([example]) for example in data.examples]))
    together = run(data.examples)
    return alone, (together if together > _NEEDS_NO_WARM_UP else run(data.examples)) / len(data)


def _shown(results: MethodResults, method: str, judge: str) -> float | str | None:
    """A table's cell: the value, and for several seeds their standard deviation."""
    result = results.get((method, judge))
    if result is None:
        return None
    return result.summary.value if result.spread is None else f"{result.summary.value:.3f} ± {result.spread:.3f}"


def _facts(results: MethodResults, method: str, judges: Mapping[str, str]) -> dict[str, Any]:
    """A method's results by metric, for --json."""
    facts: dict[str, Any] = {}
    for short, judge in judges.items():
        result = results.get((method, judge))
        facts[short] = result if result is None else {
            "value": result.summary.value, "low": result.summary.low, "high": result.summary.high,
            "examples": result.summary.count, "by_seed": {str(seed): value for seed, value in result.by_seed.items()},
            "spread": result.spread,
        }  # fmt: skip
    return facts


def _about_seeds(seeds: Sequence[int]) -> str:
    """How several seeds are combined; empty for a single one."""
    if len(seeds) == 1:
        return ""
    return (
        f"{len(seeds)} seeds: each example is averaged over them first, intervals take both seeds and examples for "
        "drawn; ± is the standard deviation over seeds. A method without ± draws nothing."
    )


def _best(results: MethodResults, methods: Sequence[str]) -> str:
    """The best method by each metric, and the ranks of fAML and pAML."""
    parts = []
    for short, metric in METRICS.items():
        sign = -1 if catalog.find("metrics", metric).higher_is_better else 1
        values = {name: sign * results[name, metric].summary.value for name in methods if (name, metric) in results}
        order = sorted(values, key=values.__getitem__)
        places = [f"{method} is {order.index(method) + 1}" for method in ("fAML", "pAML") if method in order]
        if order:
            parts.append(f"{short}: {', '.join([f'{order[0]} is best of {len(order)}', *places])}.")
    return " ".join(parts)
