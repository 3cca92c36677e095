"""Recursive ROAR (Madsen et al., 2022): is an importance measure faithful, found out by erasing and retraining?

Part synthetic is eq. (1) and figure 3, computed on the spot. The others train a BiLSTM with attention (or --base) on
the data sets named with --data, and print RACU next to table 2. By default 10 % is erased per step;
`roar(step=0.2, epochs=3)` is cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from troth.explainers import Explainer
from troth.metrics.formulas import Variant
from troth.store.cells import Plan
from troth.studies import Section, Setting, Study, joined
from troth.studies.roar import _synthetic
from troth.studies.roar._benchmark import plan_for
from troth.studies.roar._plan import Planner, Way
from troth.studies.roar._reader import Reader
from troth.studies.roar._steps import Step, steps_of
from troth.studies.roar._tables import SECTIONS, Retrained
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
class Roar(Study):
    parts: ClassVar[Mapping[str, str]] = {
        "synthetic": "eq. (1): ROAR, Recursive ROAR, the truth and the worst case (figure 3)",
        "comparison": "ROAR against Recursive ROAR (appendix G, figures 8 and 9)",
        "faithfulness": "RACU of each measure by Recursive ROAR (table 2, figure 4)",
        "one_token": "exactly one token per step, up to 10 (appendix F, figure 7)",
        "performance": "data sets, lengths of texts and models with nothing erased (tables 1 and 3)",
        "sparsity": "how few tokens hold the importance (appendix E, figures 5 and 6)",
        "wall_time": "how long a training and an importance take (appendix D, table 7)",
    }

    step: float = 0.1
    explainers: tuple[str, ...] = ()  # those of the paper where empty
    epochs: int | None = None  # the paper's where None, as the next two
    batch_size: int | None = None
    learning_rate: float | None = None
    stack: int | None = None  # trainings side by side in a cell; None: as many as pay
    variant: Variant = "paper"  # released: RACU clipped to [−1, 1]

    def __post_init__(self) -> None:
        steps_of(self.step)

    def plan(self, part: str, setting: Setting) -> Plan | None:
        if part == "synthetic":
            return None
        plans = [self._planned(part, data, setting)[0].plan for data in setting.data or _DATA]
        return joined(plans, trainings=sum(plan.about["trainings"] for plan in plans))

    def sections(self, part: str, setting: Setting) -> Iterator[Section]:
        if part == "synthetic":
            yield from _synthetic.sections()
            return
        for data in setting.data or _DATA:
            planner, methods = self._planned(part, data, setting)
            store, outcome = setting.carry_out(planner.plan)
            reader = Reader(planner, store, variant=self.variant)
            yield SECTIONS[part](Retrained(part, planner, methods, reader, outcome.failed))

    def _planned(self, part: str, data: str, setting: Setting) -> tuple[Planner, list[Explainer]]:
        step: Step = "one" if part == "one_token" else self.step
        entry = entry_of(data)
        pair = entry is not None and entry.auxiliary is not None
        base = bases.build(setting.base or _base_for(data))
        named = {name: getattr(self, name) for name in ("epochs", "batch_size", "learning_rate")}
        options = {name: value for name, value in named.items() if value is not None}
        return setting.context.once(
            ("roar", self, part, data, setting.base, setting.seeds, setting.limit),
            lambda: plan_for(
                data, base, self.explainers or _explainers_for(base, pair=pair), _WAYS[part], seeds=setting.seeds,
                step=step, limit=setting.limit, stack=self.stack, **options,
            ),
        )  # fmt: skip


def _explainers_for(base: bases.Base, *, pair: bool) -> tuple[str, ...]:
    # Every token moves along the path, special ones too; a second text does not.
    path = "integrated_gradients(steps=50)" if pair else "integrated_gradients(steps=50, moves='all')"
    attention = ("attention",) if isinstance(base, BilstmAttention) else ()
    return (*attention, "gradient", "input_x_gradient", path)


def _base_for(data: str) -> str:
    """Table 4."""
    return "bilstm_attention(embedding=50)" if data.startswith("babi") else "bilstm_attention"
