"""Nothing in a test depends on chance or on the tests before it (see conftest.py)."""

import os
import random
import sys
import types

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

drawn_by_turn = {}


@pytest.fixture(params=["first", "second"])
def drawn_in_a_fixture(request):
    draws = drawn()
    if request.param == "second":
        drawn()  # what is drawn once more here does not reach the test
    return draws


def drawn():
    return random.random(), np.random.random(), torch.rand(1).item()


def test_shared_generators_start_the_same_in_every_test_and_fixture(drawn_in_a_fixture):
    assert (drawn_in_a_fixture, drawn()) == drawn_by_turn.setdefault("", (drawn_in_a_fixture, drawn_in_a_fixture))


@pytest.mark.skipif("HYPOTHESIS_PROFILE" in os.environ, reason="another profile may draw other examples")
def test_examples_do_not_depend_on_what_is_imported(tmp_path, monkeypatch):
    """Hypothesis takes constants from loaded modules, so the order of tests would decide what is tried."""

    def tried():
        examples = []

        @settings(max_examples=300, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
        @given(st.integers())
        def collect(number):
            examples.append(number)

        collect()
        return examples

    before = tried()
    module = types.ModuleType("constants")
    module.__file__ = str(tmp_path / "constants.py")
    (tmp_path / "constants.py").write_text(f"VALUES = {[10_007 * number for number in range(1, 200)]}\n")
    monkeypatch.setitem(sys.modules, "constants", module)
    assert tried() == before
