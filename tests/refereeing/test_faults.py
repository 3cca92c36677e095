"""A right function passes everything; each planted fault is caught, and no property fires on another's fault."""

import pytest
from tests.refereeing.adapters import Right
from tests.refereeing.faults import FAULTS, LogProbability, Probability

import troth
from troth.refereeing import find_properties

_LONG = {"padded_right", "long_text", "bytes_of_words"}  # texts of too many tokens for exact Shapley values
METHODS = ("leave_one_out", "shapley", "integrated_gradients", "input_x_gradient")


@pytest.mark.parametrize("method", METHODS)
def test_a_right_function_passes(method):
    verdicts = troth.referee(Right(method))
    assert verdicts.holds, verdicts
    # What is not claimed is not judged, and nothing else is left out.
    assert {each.status for each in verdicts} - {"not supported"} == {"holds", "not claimed"}
    assert {each.name for each in verdicts if each.status == "not supported"} <= _LONG
    assert verdicts[method if method != "shapley" else "shapley_values"].status == "holds"


@pytest.mark.parametrize("kind", [Probability, LogProbability])
def test_probabilities_are_explained_in_their_own_closed_form(kind):
    verdicts = troth.referee(kind())
    assert verdicts.holds, verdicts
    assert verdicts["leave_one_out"].status == "holds"


def test_each_property_has_a_fault():
    assert set(FAULTS) == {each.name for each in find_properties()}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_by_its_property(name):
    verdicts = troth.referee(FAULTS[name], only=[name])
    assert [each.name for each in verdicts.failed] == [name], verdicts


@pytest.mark.full
@pytest.mark.parametrize("name", FAULTS)
def test_no_other_property_fires_on_a_fault(name):
    verdicts = troth.referee(FAULTS[name])
    assert [each.name for each in verdicts.failed] == [name], verdicts
    failed = verdicts[name]
    assert failed.expected
    assert failed.got
    assert failed.again == f"--only {name}"
    # What could not be judged says which property is why.
    assert {each.why for each in verdicts if each.status == "not judged"} <= {f"because {name} fails"}
