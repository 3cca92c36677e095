"""What trainings, importance measures and checks took, next to the published times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from troth import statistics
from troth.studies import Section
from troth.studies._results import Results
from troth.studies.fmm._experiment import TRAININGS, FmmExperiment, measure_name, names, printed


def wall_time(
    experiments: Sequence[FmmExperiment], results: Results, asked: Mapping[str, Sequence[str]]
) -> Iterator[Section]:
    """Tables 6 to 9."""
    stored = {cell.name: cell for cell in results.store.cells()}
    rows: list[list[Any]] = []
    for experiment in experiments:
        seeds = experiment.seeds
        for training, recipe in TRAININGS.items():
            cells = [stored.get(experiment.model(recipe, seed).name) for seed in seeds]
            theirs = printed("fmm_walltime_finetune", "minutes", experiment.name) if training == "masked" else None
            rows.append([experiment.name, f"training, {training}", *_time([[cell] for cell in cells]), theirs])
        for training, explainers in asked.items():
            recipe = TRAININGS[training]
            for explainer in explainers:
                erased = [experiment.erased(recipe, explainer, seed) for seed in seeds]
                pairs = [[stored.get(cell.parents[0]), stored.get(cell.name)] for cell in erased]
                theirs = printed("fmm_walltime_importance", "minutes", experiment.name, explainer)
                what = f"{measure_name(explainer)}, {training}"
                rows.append([experiment.name, what, *_time(pairs), theirs if training == "masked" else None])
            checks = [
                [stored.get(experiment.check(recipe, explainer, seed).name) for explainer in explainers]
                for seed in seeds
            ]
            theirs = printed("fmm_walltime_validation", "minutes", experiment.name) if training == "masked" else None
            rows.append([experiment.name, f"in-distribution, {training}", *_time(checks), theirs])
    columns = ("data", "what", "seconds", "forward rows", "backward rows", "published, minutes")
    words = (
        "Mean over seeds; processes that share the device slow each other down, rows through the model do not depend "
        "on that. A measure: explaining at every step and the faithfulness evaluation together. Published: "
        "RoBERTa-base on a V100, whole test sets."
    )
    facts = {f"{row[0]} {row[1]}": dict(zip(("seconds", "forward", "backward"), row[2:5], strict=True)) for row in rows}
    yield Section("wall_time", f"Tables 6 to 9: wall times, {names(experiments)}", columns, rows, words, facts)


def _time(by_seed: Sequence[Sequence[Any]]) -> list[float]:
    """Seconds, rows forward and backward: what the cells of a seed took together, mean over seeds that are whole."""
    whole = [cells for cells in by_seed if cells and all(cell is not None for cell in cells)]
    return [
        statistics.mean([float(sum(getattr(cell, what) for cell in cells)) for cells in whole])
        for what in ("seconds", "forward", "backward")
    ]
