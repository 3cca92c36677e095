import numpy as np
import scipy.stats
import torch

from troth.core import draws


def test_uniform_numbers_are_uniform_and_independent():
    numbers = draws.Draws(draws.key(0, "an example", "a test")).uniforms(400, 250).numpy()
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert scipy.stats.kstest(numbers.ravel(), "uniform").pvalue > 0.01
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.02


def test_normal_numbers_are_normal():
    numbers = draws.Draws(5).normals(300, 300).numpy().ravel()
    assert scipy.stats.kstest(numbers, "norm").pvalue > 0.01


def test_a_row_depends_on_its_key_alone():
    keys = draws.row_keys(7, torch.arange(10))
    wide, narrow = draws.uniforms(keys, 40), draws.uniforms(keys[3:5], 12)
    assert torch.equal(wide[3:5, :12], narrow)
    assert not torch.equal(wide[3], wide[4])


def test_first_numbers_stay_what_they_are():
    # Written down once: a change here would change every stored random result.
    numbers = draws.Draws(draws.key(0, "0", "random")).uniforms(1, 3)[0]
    assert draws.key(0, "0", "random") == 7532441404343317769
    assert [round(float(number), 6) for number in numbers] == [0.176685, 0.935818, 0.728933]
