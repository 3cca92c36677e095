import math
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest

from troth.core.errors import TrothError
from troth.validity.masf import MaSF, data_set_p_value


def pairwise_p_values(references, queries, over_hidden="simes", over_layers="fisher"):
    """The definition: every comparison made, Simes in rational numbers, Fisher summed exactly."""
    n = len(references)

    def two_sided(known, asked):
        smaller = (known[None] < asked[:, None]).sum(1)
        return np.minimum(smaller, n - smaller)

    def simes(counts):
        return min(Fraction(int(m) * len(counts), i) for i, m in enumerate(sorted(counts), 1))

    def fisher(counts):
        return -2 * math.fsum(sorted(math.log(m / n + 1e-8) for m in counts))

    combine = {"simes": simes, "fisher": fisher}

    def layer_statistics(embeddings):
        counts = two_sided(references, embeddings)  # [examples, layers, hidden]
        return np.array([[combine[over_hidden](layer) for layer in example] for example in counts], dtype=object)

    known = layer_statistics(references)

    def statistics(embeddings):
        counts = two_sided(known, layer_statistics(embeddings))  # [examples, layers]
        sign = -1 if over_layers == "simes" else 1
        return [sign * combine[over_layers](example) for example in counts]

    last = statistics(references)
    return np.array([sum(r >= z for r in last) / n for z in statistics(queries)])


def draw(shape, seed, dtype=np.float32, tied=False):
    values = np.random.default_rng(seed).normal(size=shape)
    return (np.round(values * 2) / 2 if tied else values).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("references", "layers", "hidden"), [(60, 4, 7), (31, 1, 1), (1, 2, 3), (40, 2, 130)])
def test_equals_the_pairwise_definition_bit_for_bit(references, layers, hidden, tied, dtype):
    known = draw((references, layers, hidden), 0, dtype, tied)
    asked = np.concatenate([draw((25, layers, hidden), 1, dtype, tied), known[:5], known[:2] + 9, known[:2] - 9])
    assert MaSF.fit(known).p_values(asked).tolist() == pairwise_p_values(known, asked).tolist()


@pytest.mark.parametrize("over_hidden", ["simes", "fisher"])
@pytest.mark.parametrize("over_layers", ["simes", "fisher"])
def test_other_aggregations_equal_the_pairwise_definition(over_hidden, over_layers):
    known, asked = draw((50, 3, 6), 2, tied=True), draw((40, 3, 6), 3, tied=True)
    fitted = MaSF.fit(known, over_hidden=over_hidden, over_layers=over_layers)
    assert fitted.p_values(asked).tolist() == pairwise_p_values(known, asked, over_hidden, over_layers).tolist()


def test_by_hand_with_one_layer_and_one_hidden_unit():
    # References 1 2 3 4: smaller ones 0 1 2 3, two-sided 0 1 2 1 (of 4); Simes of one test is the same.
    # Placed again: 0 → 0, 1 → 1, 2 → 3, 1 → 1 smaller, two-sided 0 1 1 1; Fisher −2 log(m/4 + 1e-8).
    # The first reference is the unusual one (m = 0), the others are tied.
    fitted = MaSF.fit(np.array([1.0, 2.0, 3.0, 4.0]).reshape(4, 1, 1))
    large, small = -2 * math.log(1e-8), -2 * math.log(1 / 4 + 1e-8)
    assert fitted.statistics.tolist() == [small, small, small, large]
    # 0.5: none smaller → 0 → 0: as the first reference, p = 1/4. 2.5: two smaller → 2 → 3 → 1: as the others, p = 1.
    # 9: four smaller → 0 → 0: p = 1/4. 2: equals a reference, one smaller → 1 → 1 → 1: p = 1.
    assert fitted.p_values(np.array([0.5, 2.5, 9.0, 2.0]).reshape(4, 1, 1)).tolist() == [0.25, 1.0, 0.25, 1.0]


def test_neither_order_nor_company_changes_a_p_value():
    known, asked = draw((80, 3, 11), 4), draw((30, 3, 11), 5)
    fitted = MaSF.fit(known)
    shuffled = MaSF.fit(known[::-1][:, ::-1, ::-1])
    alone = [fitted.p_values(asked[i : i + 1])[0] for i in range(len(asked))]
    assert fitted.p_values(asked).tolist() == alone == shuffled.p_values(asked[:, ::-1, ::-1]).tolist()
    assert fitted.p_values(asked[:0]).shape == (0,)


def test_references_themselves_are_uniform_and_shifted_inputs_are_not():
    known = draw((500, 3, 16), 6)
    fitted = MaSF.fit(known)
    assert kstest(fitted.p_values(known), "uniform").statistic < 0.05
    assert (fitted.p_values(draw((200, 3, 16), 7) + 2) < 0.05).mean() > 0.9


def share_at_most(levels, shape, **options):
    """The share of new inputs with a p-value at most each level, over ten sets of references."""
    shares = []
    for seed in range(10):
        p = MaSF.fit(draw(shape, 100 + seed), **options).p_values(draw((2000, *shape[1:]), 200 + seed))
        shares.append([(p <= level).mean() for level in levels])
    return np.mean(shares, axis=0)


def test_new_inputs_of_the_same_kind_are_uniform():
    # Ten sets leave a standard error of at most 0.0045; counting a reference among its own adds up to 0.005 here.
    levels = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9]
    np.testing.assert_allclose(share_at_most(levels, (4000, 2, 6)), levels, atol=0.02)


def test_leaving_oneself_out_keeps_many_hidden_units_calibrated():
    # With 64 hidden units twice as many new inputs as references lie beyond all (others) in some unit.
    assert share_at_most([0.05], (1000, 4, 64))[0] > 0.08
    levels = [0.01, 0.05, 0.1, 0.5]
    left_out = share_at_most(levels, (1000, 4, 64), self_included=False)
    np.testing.assert_allclose(left_out, levels, atol=0.02)
    assert left_out[1] == pytest.approx(0.05, abs=0.01)


def test_data_set_p_value_by_hand():
    # 0.01·4/1, 0.02·4/2, 0.5·4/3, 0.9
    assert data_set_p_value([0.9, 0.01, 0.5, 0.02]) == pytest.approx(0.04)


@pytest.mark.full
@pytest.mark.alone
def test_ten_times_faster_than_comparing_all_pairs():
    known, asked = draw((2000, 2, 96), 12), draw((500, 2, 96), 13)

    def compare_all_pairs():
        for layer in range(2):
            for unit in range(96):
                values = known[:, layer, unit]
                for others in (values, asked[:, layer, unit]):
                    np.count_nonzero(values < others[:, None], axis=1)

    def ours():
        MaSF.fit(known).p_values(asked)

    def seconds(work):
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    # Ours does the whole job, the other only its first step; the shortest of three runs is the least disturbed.
    assert min(seconds(ours) for _ in range(3)) * 10 < seconds(compare_all_pairs)


def test_bad_input_is_named():
    known = draw((10, 2, 3), 14)
    with pytest.raises(TrothError, match=r"not shape \(10, 3\)"):
        MaSF.fit(known[:, 0])
    with pytest.raises(TrothError, match="there are none"):
        MaSF.fit(known[:0])
    with pytest.raises(TrothError, match="2 layers of 2, the references 2 layers of 3"):
        MaSF.fit(known).p_values(known[:, :, :2])
    with pytest.raises(TrothError, match="NaN"):
        MaSF.fit(np.where(known > 1, np.nan, known))
    with pytest.raises(TrothError, match=r"'fischer'.*did you mean fisher"):
        MaSF.fit(known, over_layers="fischer")
