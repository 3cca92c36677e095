import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from troth.cli import app
from troth.studies.roar import _synthetic


@pytest.fixture(scope="module")
def small():
    return _synthetic.problem(train=20_000, test=5_000)


@pytest.mark.full
def test_recursive_is_the_truth_and_plain_holds_through_nine_removals_on_the_authors_draw(small):
    assert _synthetic.SEED == 0
    found = _synthetic.curves(small)
    assert list(found) == ["roar", "recursive", "truth", "worst"]
    assert {len(curve) for curve in found.values()} == {17}
    assert found["recursive"] == found["truth"]
    assert min(found["recursive"][:4]) > 0.98
    assert max(found["recursive"][4:]) < 0.53
    assert min(found["roar"][:10]) > 0.95
    assert max(found["roar"][10:]) < 0.53
    assert _synthetic.falls(found) == {"roar": 10, "recursive": 4, "truth": 4, "worst": 14}


def test_the_truth_takes_informative_features_first_whatever_recursive_does(small):
    order = _synthetic.orders(small)
    assert set(order["truth"][:4]) == {0, 1, 2, 3}
    assert order["worst"] == order["truth"][::-1]
    assert all(sorted(one) == list(range(16)) for one in order.values())


def test_epsilon_is_one_number_an_example_and_the_basis_is_the_features():
    given = _synthetic.problem(train=300, test=100)
    features = given.basis @ given.loadings
    assert given.basis.shape[1] == 3  # z, η and ε
    generator = np.random.default_rng(_synthetic.SEED)
    a = np.concatenate([generator.standard_normal(4), np.zeros(12)])
    d = generator.standard_normal(16)
    z, eta, epsilon = (generator.standard_normal(400) for _ in range(3))
    slow = [[a[j] * z[i] / 10 + d[j] * eta[i] + epsilon[i] / 10 for j in range(16)] for i in range(400)]
    np.testing.assert_allclose(features, slow, atol=1e-9)
    assert given.labels.tolist() == (z > 0).tolist()


def test_the_regression_is_that_of_scikit_learn():
    # Without the informative features the problem cannot be separated, so there is one solution.
    generator = np.random.default_rng(0)
    features = generator.standard_normal((2000, 3)) @ np.diag([1.0, 0.5, 2.0])
    labels = features @ [1.0, -1.0, 0.3] + generator.standard_normal(2000) > 0
    given = _synthetic.SyntheticProblem(features, np.eye(3), labels, 1990)
    right = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(features[:1990], labels[:1990])
    np.testing.assert_allclose(given.fit([])[0], np.abs(right.coef_[0]), atol=1e-3)


@pytest.mark.full
def test_how_long_plain_roar_holds_is_the_draws_doing_and_recursive_is_always_the_truth():
    found = _synthetic.spread(train=4_000, test=1_000, seeds=range(2))
    assert found["recursive"] == found["truth"] == [4, 4]
    assert found["roar"] == [10, 4]


@pytest.mark.full
def test_the_command_gives_the_four_curves(tmp_path):
    said = CliRunner().invoke(app, ["study", "roar", "--only", "synthetic", "--json", "--out", str(tmp_path / "s")])
    assert said.exit_code == 0, said.output
    found = json.loads(said.output)
    assert set(found) == {"roar", "recursive", "truth", "worst", "falls"}
    assert set(found["falls"]["recursive"]) == {4}
    assert sum(fall == 4 for fall in found["falls"]["roar"]) == 10
    assert max(found["falls"]["roar"]) == 14
    assert found["recursive"] == found["truth"]
    assert min(found["recursive"][:4]) > 0.99 > 0.53 > max(found["recursive"][4:])
    assert min(found["roar"][:10]) > 0.99 > 0.53 > max(found["roar"][10:])
    assert (tmp_path / "s" / "01-synthetic.png").stat().st_size > 10_000
