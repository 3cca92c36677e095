"""FRESH on the user's own data: compares support models, rationales and classifiers."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troth import statistics
from troth.core import locks
from troth.store.cells import Plan
from troth.store.store import Store
from troth.studies import Setting
from troth.studies._results import Results, mean_and_deviation
from troth.studies._trained_study import load
from troth.studies.saloss._experiment import GUIDED, SalossExperiment
from troth.sweep.run import Progress
from troth.training import bases
from troth.training.output import require_writable
from troth.verbs.fresh import require


@dataclass(frozen=True)
class FreshComparison:
    """Macro-F1 on the test set, one value per seed, for whole texts and for each kind of rationale."""

    folder: Path
    data: str
    macro_f1: Mapping[str, Sequence[float]]
    p: Mapping[str, float]  # p-values of a t-test over seeds against the first kind of rationale
    troubles: str

    def rows(self) -> list[tuple[str, float, float, float]]:
        """Name, mean, standard deviation and p-value."""
        return [(name, *mean_and_deviation(f1), self.p.get(name, float("nan"))) for name, f1 in self.macro_f1.items()]


def compare(
    data: Any,
    base: str,
    out: str | Path,
    *,
    support: str | None = None,
    explainer: str = "attention",
    ratio: float = 0.2,
    thresholder: str = "top_k",
    weight: float | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    like: str | None = None,
    limit: int | None = None,
    workers: int | None = 1,
    progress: Callable[[Progress], None] | None = None,
    command: str = "",
    **settings: Any,
) -> FreshComparison:
    """Compares classifiers of rationales with one of whole texts; rationales are exported to `out`/rationales.

    `support` is a model of the user's; without it, plain and salience-guided models are trained (text_rank, uniform).
    """
    require(ratio, thresholder)
    setting = Setting(require_writable(Path(out)), workers=workers, progress=progress, command=command)
    Store(setting.out)  # refuses a folder that is not ours before any work is done
    with locks.held(setting.out):
        plan, splits = Plan(), load(data, like=like, limit=limit)
        experiment = SalossExperiment(splits, base, plan, seeds, settings, like, weight)
        # A base that cannot be trained is refused now instead of in every cell.
        bases.build(base).build(splits.splits["train"].examples, splits.labels, 0, None)
        full = [experiment.model("plain", seed) for seed in seeds]
        chosen: dict[str, tuple[Any, str]] = {source: (source, explainer) for source in GUIDED}
        if support is not None:
            chosen = {"support": (setting.context.model_spec(support), explainer)}
        chosen["random"] = (next(iter(chosen.values()))[0], "random")
        kinds = {
            name: [
                experiment.train_on_rationales(
                    experiment.model(model, seed) if isinstance(model, str) else model, method, ratio, thresholder, seed
                )
                for seed in seeds
            ]
            for name, (model, method) in chosen.items()
        }
        store, _ = setting.carry_out(plan)
        results = Results(store)
        f1 = {name: [results.quality(cell) for cell in cells] for name, cells in {"full text": full, **kinds}.items()}
        first, *others = kinds
        p = {name: statistics.t_test(f1[name], f1[first])[1] for name in ("full text", *others)}
        folder = store.folder / "rationales"
        folder.mkdir(exist_ok=True)
        for name, cells in kinds.items():
            for cell, seed in zip(cells, seeds, strict=True):
                for file in setting.context.folder_path(cell.name).glob("rationales-*.jsonl"):
                    split = file.stem.removeprefix("rationales-")
                    shutil.copy2(file, folder / f"{name}-seed{seed}-{split}.jsonl")
        return FreshComparison(store.folder, splits.name, f1, p, results.troubles(plan))
