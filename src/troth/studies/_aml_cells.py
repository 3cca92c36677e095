"""What the AML study stores: the model that is explained, attribution models, and what every explainer scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from troth import catalog
from troth.attributive.losses import DualMask
from troth.data import Data, load_data
from troth.data._classes import matches
from troth.errors import TrothError
from troth.metrics import Metric, Summary
from troth.studies import Setting
from troth.studies._aml_tables import METRICS
from troth.studies._aml_works import WORKS
from troth.sweep.cells import Cell, Plan
from troth.sweep.crossing import cross
from troth.sweep.tables import table_to_scores
from troth.training.attributive_masking import Settings

if TYPE_CHECKING:
    from troth.studies.aml import Aml


@dataclass(frozen=True)
class Variant:
    """A row of the ablation: what is left out of the loss, or put in a term's place."""

    name: str  # behind pAML and fAML
    without: tuple[str, ...] = ()
    form: DualMask = field(default_factory=DualMask)


VARIANTS = (
    Variant(""),
    Variant("Xpred", without=("prediction",)),
    Variant("Xinv", without=("inverse",)),
    Variant(" L_inv = p", form=DualMask(inverse_form="probability")),
    Variant(" L_inv = −entropy", form=DualMask(inverse_form="negative_entropy")),
    Variant(" L_a = L1", form=DualMask(sparsity_form="l1")),
)


def explained(study: Aml, setting: Setting, name: str) -> dict[str, Any]:
    """The model that is explained: the given one, or one trained from it where it has other classes."""
    base, data = setting.base or "embedded", load_data(name, limit=1)
    try:
        specs = setting.context.model_specs(base)
        if not data.labels or matches(data.labels, setting.context.model(specs).labels):
            return specs
    except TrothError as error:
        if "no trained classification head" not in str(error):
            raise
    about = {
        "base": base,
        "data": name,
        "epochs": study.classifier_epochs,
        "batch_size": study.classifier_batch,
        "limit": study.classifier_limit,
        "seed": setting.seeds[0],
    }
    plan = Plan(WORKS)
    cell = plan.add(Cell("classifier", about))
    _carry_out(setting, plan)
    return setting.context.model_specs(f"cell:{cell.name}")


def fitted(
    study: Aml, setting: Setting, model: dict[str, Any], name: str, variants: Sequence[Variant]
) -> dict[str, Cell]:
    """The cell of the attribution models of each variant of the loss, by its name."""
    settings = Settings(
        examples=study.fit_examples,
        validation=study.validation,
        epochs=study.fit_epochs,
        learning_rate=study.learning_rate,
        trials=study.trials,
        trial_examples=study.trial_examples,
        trial_epochs=study.trial_epochs,
        seed=setting.seeds[0],
    )
    plan, cells = Plan(WORKS), {}
    for variant in variants:
        # The whole loss is fitted for all five metrics, once; the ablation shows two.
        metrics = METRICS.values() if variant == VARIANTS[0] else (METRICS["suff"], METRICS["comp"])
        specs = {
            **model,
            "data": name,
            "backbone": study.backbone,
            "metrics": list(metrics),
            "without": list(variant.without),
            "form": asdict(variant.form),
            "settings": asdict(settings),
        }
        cells[variant.name] = plan.add(Cell("attribution_models", specs))
    _carry_out(setting, plan)
    return cells


def measured(
    setting: Setting,
    model: dict[str, Any],
    data: Data,
    wanted: Mapping[tuple[str, str], str],
    judges: Mapping[str, str],
) -> tuple[dict[tuple[str, str], Summary], dict[str, str]]:
    """(method, metric) -> summary, given the explainer of each; and the methods that failed, with the reason."""
    whole, places = Plan({}), {}
    for metric, judge in judges.items():
        specs = {method: spec for (method, by), spec in wanted.items() if by == metric}
        plan = cross(setting.context, [model], [data], list(specs.values()), [judge], setting.seeds[:1], units="token")
        whole = Plan(plan.works, {**whole.cells, **plan.cells}, {**whole.tables, **plan.tables}, plan.about)
        methods = {_plain(spec): method for method, spec in specs.items()}
        for cell in plan.of("metric"):
            places[methods[cell.specs["explainer"]], metric] = cell
    store, outcome = setting.carry_out(whole)
    found = {}
    for key, cell in places.items():
        if store.has(cell.name):
            judged: Metric = catalog.build("metrics", judges[key[1]])
            found[key] = judged.summarise(table_to_scores(store.table(cell.name)))
    names = {_plain(spec): method for (method, _), spec in wanted.items()}
    failed = {names.get(str(one.specs.get("explainer")), one.kind): one.error for one in outcome.failed}
    return found, failed


def _plain(explainer: str) -> str:
    return catalog.spec(catalog.build("explainers", explainer))


def _carry_out(setting: Setting, plan: Plan) -> None:
    _, outcome = setting.carry_out(plan)
    if outcome.failed:
        raise TrothError(outcome.failed[0].error)
