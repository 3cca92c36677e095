"""Every name that others rely on can be imported, called or built as it is written down."""

import importlib
import inspect

import pytest
from typer.testing import CliRunner

import fakes
import troth
from troth.cli import app
from troth.core import catalog

# Named in the contract, but not built yet, so not tested here; what is built moves to the tables below.
LATER = (
    "troth.bench(explainers={name: spec, explainer object, function or attributions})",
    "a leaderboard's .to_pandas(), .to_latex(), .to_markdown() and .to_csv(); troth bench --format",
    "troth --version",
    "comma-separated lists on the command line",
    "one label as the target of a multi-label model",
    "troth.load_model(continuation=…)",
    "troth serve",
)

# A callable and the parameters that may be named, in order.
CALLABLES = {
    "troth.Example": "id text text_pair label rationale",
    "troth.load_model": "tokenizer device dtype max_length prompt class_words mask_text",
    "troth.load_data": "source split limit",
    "troth.explain": "model texts explainer units target masking seed",
    "troth.measure": "model attributions metric",
    "troth.prove": "model attributions",
    "troth.bench": "model data explainers metrics out",
    "troth.Attribution.from_scores": "model example scores spans tokens target",
    "troth.Attribution.magnitude": "",
    "troth.Attribution.to_dict": "",
    "troth.Attribution.from_dict": "facts model",
    "troth.metrics.formulas.comprehensiveness": "p_full p_erased",
    "troth.metrics.formulas.sufficiency": "p_full p_kept",
    "troth.metrics.formulas.log_odds": "p_full p_erased",
    "troth.metrics.formulas.aopc": "values_by_ratio",
    "troth.metrics.formulas.normalized_sufficiency": "p_full p_kept p_zero",
    "troth.metrics.formulas.normalized_comprehensiveness": "p_full p_erased p_zero",
    "troth.metrics.formulas.acu": "ratios explained random",
    "troth.metrics.formulas.racu": "ratios explained random",
    "troth.metrics.formulas.decision_flip": "ratios predictions",
    "troth.metrics.formulas.diagnosticity": "explained random higher_is_better",
    "troth.metrics.formulas.token_f1": "scores rationale top",
    "troth.metrics.formulas.sparsity": "scores ratios",
    "troth.statistics.simes": "p",
    "troth.statistics.fisher": "p",
    "troth.statistics.bca_interval": "values level",
    "troth.statistics.wilcoxon_rank_sum": "a b",
    "troth.validity.masf.MaSF.fit": "embeddings",
    "troth.validity.masf.MaSF.p_values": "embeddings",
    "troth.validity.masf.MaSF.from_model": "prober encodings",
    "troth.salience.text_rank": "tokens window damping steps",
}
DEFAULTS = {
    "troth.explain": {"units": "word", "target": "predicted", "seed": 0},
    "troth.statistics.bca_interval": {"level": 0.95},
    "troth.salience.text_rank": {"window": 4, "damping": 0.85, "steps": 10},
}

# "|" stands between the values that an option may have.
SPECS = {
    "explainers": [
        "random", "gradient(norm='l2|l1')", "input_x_gradient", "integrated_gradients(steps=20)",
        "integrated_gradients(baseline='zero|mask|pad')", "integrated_gradients(rule='right|gauss_legendre')",
        "integrated_gradients(moves='units|all')", "sequential_integrated_gradients(steps=50)", "deep_lift",
        "gradient_shap", "attention", "attention_x_gradient", "leave_one_out(of='logit|probability|log_probability')",
        "leave_one_out(absolute=true)", "beam_search(width=10)",
        "beam_search(objective='comprehensiveness|comp_minus_suff')", "lime(samples=1000)", "kernel_shap(samples=100)",
        "exact_shapley", "glob_enc", "alti", "decomp_x", "attributive_masking(checkpoint='a folder', steps=0)",
        "llm_ranking(model='a model')", "text_rank", "tf_idf",
    ],
    "metrics": [
        "comprehensiveness(ratio=0.2)", "sufficiency(ratio=0.2)", "log_odds(ratio=0.2)",
        "comprehensiveness(masking=mask_token)", "aopc_comprehensiveness", "aopc_sufficiency",
        "normalized_comprehensiveness(rounding='floor|ceil')", "normalized_sufficiency(rounding='floor|ceil')",
        "soft_comprehensiveness(samples=1, scores='sigmoid|min_max|softmax|rank')",
        "soft_comprehensiveness(at='word|embedding_output', normalized=True, retention=None)",
        "soft_sufficiency(samples=1, scores='sigmoid|min_max|softmax|rank')",
        "soft_sufficiency(at='word|embedding_output', normalized=True, retention=None)", "recursive_erasure(step=0.1)",
        "decision_flip(step=0.05)", "monotonicity", "importance_correlation", "rationale_agreement(top=25)", "sparsity",
        "normalized_aopc(width=5)",
    ],
    "maskings": ["mask_token", "delete", "zero", "pad", "soft", "gaussian", "attention", "mix"],
}  # fmt: skip
# A metric's own masking, as in its paper.
MASKINGS = {
    "comprehensiveness": "delete",
    "sufficiency": "delete",
    "decision_flip": "delete",
    "log_odds": "mask_token",
    "normalized_aopc": "mask_token",
    "normalized_comprehensiveness": "zero",
    "normalized_sufficiency": "zero",
}
COMMANDS = {
    "explain": "--explainer --pair --segments --against --html --json --no-proof --data --limit --record",
    "verify": "--json",
    "bench": "--json",
    "train": "--json",
    "check": "--json",
    "fit": "--json",
    "fresh": "--json",
    "study": "--json",
    "report": "--json",
    "list": "--json",
    "doctor": "--json",
    "runs": "--json",
    "query": "--json",
    "diff": "--json",
}


def named(path):
    """What a dotted path stands for."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            thing = getattr(thing, part)
        return thing
    raise AssertionError(path)


def written_out(spec):
    """The specs that one with "|" in an option stands for."""
    before, quote, rest = spec.partition("='")
    values, _, after = rest.partition("'")
    return [f"{before}{quote}{value}'{after}" for value in values.split("|")] if quote else [spec]


@pytest.mark.parametrize("path", CALLABLES)
def test_callables(path):
    parameters = inspect.signature(named(path)).parameters
    expected = CALLABLES[path].split()
    assert [name for name in parameters if name in expected] == expected
    for name, default in DEFAULTS.get(path, {}).items():
        assert parameters[name].default == default


@pytest.mark.parametrize(
    ("folder", "spec"),
    [(folder, one) for folder, specs in SPECS.items() for spec in specs for one in written_out(spec)],
)
def test_specs(folder, spec):
    built = catalog.build(folder, spec)
    name, options = catalog.parse(spec)
    assert catalog.name_of(built) == name
    assert {option: getattr(built, option) for option in options} == options


@pytest.mark.parametrize("metric", MASKINGS)
def test_a_metric_masks_as_its_paper(metric):
    assert catalog.build("metrics", metric).masking == MASKINGS[metric]


def test_an_attribution_has_what_is_promised():
    (attribution,) = troth.explain(fakes.encoder("bert"), "a good film", "leave_one_out")
    assert attribution.units == ("a", "good", "film")
    assert attribution.spans == ((0, 1), (2, 6), (7, 11))
    assert len(attribution.scores) == 3
    assert attribution.target in (0, 1, 2)
    assert attribution.signed
    assert not attribution.magnitude().signed
    assert "good" in attribution._repr_html_()


def test_the_shipped_model_has_a_name():
    assert troth.load_model("embedded").labels == ("negative", "positive")
    assert troth.load_model(model="embedded").labels == ("negative", "positive")


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command):
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert shown.exit_code == 0
    assert "troth " in shown.output  # an example
    assert all(option in shown.output for option in COMMANDS[command].split())
