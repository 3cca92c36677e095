"""Recursive ROAR (Madsen et al., 2022): tests whether an importance measure is faithful by erasing tokens and
retraining.

Part synthetic is eq. (1) and figure 3, computed directly. The other parts train a BiLSTM with attention (or --base) on
the data sets given by --data, and print RACU next to table 2. By default 10 % is erased per step; `roar(step=0.2,
epochs=3)` is cheaper.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from troth.metrics.formulas import Variant
from troth.store.cells import Plan
from troth.studies import Section, Setting
from troth.studies._results import Results
from troth.studies._trained_study import PlannedStudy
from troth.studies.roar import _synthetic
from troth.studies.roar._importance import PROBES
from troth.studies.roar._plan import Planner, Way, settle, steps_of
from troth.studies.roar._retrained import SECTIONS, Retrained
from troth.training import bases
from troth.training.bases.bilstm_attention import BilstmAttention
from troth.training.examples import entry_of

_DATA = ("sst",)
_WAYS: Mapping[str, tuple[Way, ...]] = {
    "comparison": ("recursive", "once"),
    "faithfulness": ("recursive",),
    "one_token": ("recursive",),
    "performance": (),
    "sparsity": (),
    "wall_time": ("recursive",),
}


@dataclass(frozen=True)
class Roar(PlannedStudy[Planner]):
    parts: ClassVar[Mapping[str, str]] = {
        "synthetic": "eq. (1): ROAR, Recursive ROAR, the truth and the worst case (figure 3)",
        "comparison": "ROAR against Recursive ROAR (appendix G, figures 8 and 9)",
        "faithfulness": "RACU of each measure by Recursive ROAR (table 2, figure 4)",
        "one_token": "exactly one token per step, up to 10 (appendix F, figure 7)",
        "performance": "data sets, lengths of texts and models with nothing erased (tables 1 and 3)",
        "sparsity": "how few tokens hold the importance (appendix E, figures 5 and 6)",
        "wall_time": "how long a training and an importance take (appendix D, table 7)",
    }
    probes: ClassVar[Mapping[str, str]] = PROBES

    step: float = 0.1
    explainers: tuple[str, ...] = ()  # the paper's if empty
    epochs: int | None = None  # None: the paper's, as for the next two
    batch_size: int | None = None
    learning_rate: float | None = None
    stack: int | None = None  # trainings side by side in a cell; None: as many as are worthwhile
    variant: Variant = "paper"  # released: RACU clipped to [−1, 1]

    def __post_init__(self) -> None:
        steps_of(self.step)

    def plan(self, part: str, setting: Setting) -> Plan | None:
        return None if part == "synthetic" else super().plan(part, setting)

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        if part == "synthetic":
            yield from _synthetic.sections()
            return
        # One data set after the other, so that the first results are available early.
        for data in setting.data or _DATA:
            yield from super().sections(part, replace(setting, data=(data,)))

    def experiments(self, setting: Setting, plan: Plan, part: str = "") -> list[Planner]:
        named = {name: getattr(self, name) for name in ("epochs", "batch_size", "learning_rate")}
        options = {name: value for name, value in named.items() if value is not None}
        planners = []
        for data in setting.data or _DATA:
            entry, base = entry_of(data), bases.build(setting.base or _base_for(data))
            explainers = self.explainers or _explainers_for(base, pair=bool(entry and entry.auxiliary is not None))
            subject = setting.context.once(
                ("roar", self, data, setting.base, setting.limit),
                partial(settle, data, base, explainers, stack=self.stack, limit=setting.limit, **options),
            )
            steps = steps_of("one" if part == "one_token" else self.step)
            planners.append(Planner(subject, steps, setting.seeds, plan, stack=self.stack))
        return planners

    def add_cells(self, part: str, experiment: Planner) -> None:
        experiment.add(_WAYS[part])

    def tables(self, part: str, experiments: Sequence[Planner], results: Results) -> Iterator[Section]:
        for experiment in experiments:
            yield SECTIONS[part](Retrained(experiment, results.store, variant=self.variant))


def _explainers_for(base: bases.Base, *, pair: bool) -> tuple[str, ...]:
    # Every token moves along the path, including special ones; a second text does not.
    path = "integrated_gradients(steps=50)" if pair else "integrated_gradients(steps=50, moves='all')"
    attention = ("attention",) if isinstance(base, BilstmAttention) else ()
    return (*attention, "gradient", "input_x_gradient", path)


def _base_for(data: str) -> str:
    """Table 4."""
    return "bilstm_attention(embedding=50)" if data.startswith("babi") else "bilstm_attention"
