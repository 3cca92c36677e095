"""Folders as catalogs: names, specs and their options, and one line for what is wrong with them."""

import dataclasses

import pytest

from troth.core import catalog
from troth.core.errors import TrothError
from troth.explainers.integrated_gradients import IntegratedGradients
from troth.maskings.soft import Soft

ENTRIES = [(kind, name) for kind in catalog.KINDS for name in catalog.names(kind)]


def test_every_folder_has_entries():
    filled = {kind for kind, _ in ENTRIES}
    assert {"explainers", "metrics", "maskings", "data", "recipes", "bases"} <= filled
    assert {"integrated_gradients", "leave_one_out"} <= set(catalog.names("explainers"))
    assert "formulas" not in catalog.names("metrics")  # a file without a class of its name is no entry


@pytest.mark.parametrize(("kind", "name"), ENTRIES, ids=[f"{kind}-{name}" for kind, name in ENTRIES])
def test_specs_round_trip(kind, name):
    found = catalog.find(kind, name)
    assert catalog.name_of(found) == name
    assert catalog.summary(kind, name).endswith((".", "?"))
    required = [field.name for field in dataclasses.fields(found) if _has_no_default(field)]
    assert catalog.required(kind, name) == required
    if required:
        with pytest.raises(TrothError, match=f"^{name}: .*{required[0]}"):
            catalog.build(kind, name)
        return
    thing = catalog.build(kind, name)
    assert catalog.build(kind, thing) is thing
    assert catalog.spec(thing) == name
    assert catalog.build(kind, catalog.spec(thing, full=True)) == thing
    for field in dataclasses.fields(thing):
        if field.init and field.repr:
            assert f"{field.name}=" in catalog.spec(thing, full=True)
            for other in _other_values(found, field.name, getattr(thing, field.name)):
                changed = dataclasses.replace(thing, **{field.name: other})
                assert catalog.build(kind, catalog.spec(changed)) == changed
                assert catalog.spec(changed) != catalog.spec(thing)


def _has_no_default(field):
    return field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _other_values(found, name, value):
    """What else a field may be: the other literals of its type, the other truth."""
    import typing

    hint = typing.get_type_hints(found)[name]
    if typing.get_origin(hint) is typing.Literal:
        return [choice for choice in typing.get_args(hint) if choice != value]
    return [not value] if hint is bool else []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("lime", ("lime", {})),
        ("  lime()  ", ("lime", {})),
        ("lime(samples=100)", ("lime", {"samples": 100})),
        (
            "a(b=-1.5, c='x y', d=True, e=None, f=(0.1, 2))",
            ("a", {"b": -1.5, "c": "x y", "d": True, "e": None, "f": (0.1, 2)}),
        ),
        ("a(masking=soft(at=word))", ("a", {"masking": "soft(at=word)"})),
        ("a(b=word)", ("a", {"b": "word"})),
    ],
)
def test_specs_are_read(spec, expected):
    assert catalog.parse(spec) == expected


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "lime(",
        "lime)",
        "lime samples=3",
        "lime(100)",
        "lime(**more)",
        "lime(*more)",
        "lime.lime",
        "a.b(c=1)",
        "1",
        "lime()()",
        "lime(samples=3, samples=4)",
        "lime(samples=1 + x)",
        "lime(samples={[]: 1})",
        "import os",
        "lime\n(",
        "lime(samples=lambda: 3)",
        "[lime]",
        "lime(samples=f'{1}')",
    ],
)
def test_what_cannot_be_read_is_one_line(spec):
    with pytest.raises(TrothError) as caught:
        catalog.build("explainers", spec)
    assert str(caught.value).startswith("cannot read ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "spec", "line"),
    [
        ("explainers", "loo", "no explainer is called 'loo'; did you mean leave_one_out? there are: "),
        (
            "explainers",
            "integrated_gradient",
            "no explainer is called 'integrated_gradient'; did you mean integrated_gradients?",
        ),
        ("explainers", "ig", "no explainer is called 'ig'; did you mean integrated_gradients?"),
        ("metrics", "comprehensivness", "no metric is called 'comprehensivness'; did you mean comprehensiveness?"),
        ("metrics", "formulas", "no metric is called 'formulas'; "),
        ("maskings", "_private", "no masking is called '_private'; "),
        ("maskings", "qqqq", "no masking is called 'qqqq'; there are: attention, delete, "),
        ("explainers", "lime(sample=3)", "lime: no option is called 'sample'; did you mean samples? there are: "),
        ("explainers", "random(seed=3)", "random: no option is called 'seed'; there are: none"),
        ("explainers", "lime(samples=9, n_samples=9)", "lime: n_samples and samples are the same option"),
        ("metrics", "comprehensiveness(n_ratio=0.2)", "comprehensiveness: no option is called 'n_ratio'"),
        ("explainers", "lime(samples=many)", "lime: samples must be a whole number, not 'many'"),
        ("explainers", "lime(samples=1.5)", "lime: samples must be a whole number, not 1.5"),
        ("explainers", "lime(samples=True)", "lime: samples must be a whole number, not True"),
        ("explainers", "gradient(norm=l3)", "gradient: norm must be 'l2' or 'l1', not 'l3'"),
        ("explainers", "gradient(norm=2)", "gradient: norm must be 'l2' or 'l1', not 2"),
        ("explainers", "integrated_gradients(steps=0)", "integrated_gradients: steps must be at least 1, not 0"),
        ("explainers", "integrated_gradients(normalize=1)", "integrated_gradients: normalize must be bool, not 1"),
        ("metrics", "comprehensiveness(ratio=big)", "comprehensiveness: ratio must be a number, not 'big'"),
        ("metrics", "comprehensiveness(ratio=2)", "a ratio must lie in [0, 1]"),
        ("metrics", "comprehensiveness(masking=nothing)", "no masking is called 'nothing'; there are: "),
        (
            "metrics",
            "comprehensiveness(masking=soft(at=nowhere))",
            "soft: at must be 'word' or 'embedding_output', not 'nowhere'",
        ),
        ("metrics", "comprehensiveness(masking=3)", "comprehensiveness: masking must be "),
        ("maskings", "gaussian(variance=-1)", "gaussian: variance must be above 0, not -1"),
    ],
)
def test_what_is_wrong_with_a_spec_is_one_line(kind, spec, line):
    with pytest.raises(TrothError) as caught:
        catalog.build(kind, spec)
    assert str(caught.value).startswith(line), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_whole_number_is_a_number():
    assert catalog.build("maskings", "gaussian(variance=2)").variance == 2


def test_nested_specs():
    metric = catalog.build("metrics", "comprehensiveness(masking=soft(at=embedding_output))")
    assert catalog.build("maskings", metric.masking) == Soft(at="embedding_output")
    assert catalog.build("metrics", catalog.spec(metric, full=True)) == metric
    given = dataclasses.replace(metric, masking=Soft(at="embedding_output"))
    assert "masking=soft(at='embedding_output')" in catalog.spec(given)


def test_objects_are_specs_too():
    assert (
        catalog.spec(IntegratedGradients(steps=7, baseline="mask")) == "integrated_gradients(steps=7, baseline='mask')"
    )
    assert catalog.spec(IntegratedGradients()) == "integrated_gradients"


def test_a_file_is_read_as_it_is_written(tmp_path, monkeypatch):
    """Entries are files, or folders, with a dataclass of their name; none of them is imported to be listed."""
    folder = tmp_path / "explainers"
    (folder / "in_a_folder").mkdir(parents=True)
    lines = '"""What it\nsays.\n\nMore."""\nfrom dataclasses import dataclass\nraise RuntimeError("imported")\n'
    (folder / "named_alike.py").write_text(f"{lines}@dataclass(frozen=True)\nclass NamedAlike: ...\n")
    (folder / "in_a_folder" / "__init__.py").write_text(f"{lines}@dataclass\nclass InAFolder: ...\n")
    (folder / "no_dataclass.py").write_text(f"{lines}class NoDataclass: ...\n")
    (folder / "other_name.py").write_text(f"{lines}@dataclass\nclass Other: ...\n")
    (folder / "_private.py").write_text(f"{lines}@dataclass\nclass Private: ...\n")
    monkeypatch.setattr("troth.__path__", [str(tmp_path)])
    assert catalog.names("explainers") == ["in_a_folder", "named_alike"]
    assert catalog.summary("explainers", "named_alike") == "What it says."
    with pytest.raises(TrothError, match="no explainer is called 'other_name'"):
        catalog.find("explainers", "other_name")


@pytest.mark.parametrize(
    ("theirs", "ours"), [("integrated_gradients(n_steps=50)", "steps=50"), ("lime(n_samples=9)", "samples=9")]
)
def test_counts_may_have_the_names_of_other_libraries(theirs, ours):
    assert ours in catalog.spec(catalog.build("explainers", theirs))
