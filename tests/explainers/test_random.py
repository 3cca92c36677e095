import numpy as np
import scipy.stats

import troth
from fakes import encoder
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.explainers.random import Random


def test_scores_are_uniform_and_depend_on_seed_and_example_alone():
    model = encoder("bert")
    texts = [Example(str(number), "the soup was cold , the bill absurd") for number in range(60)]
    first, again, other = (troth.explain(model, texts, "random", seed=seed) for seed in (0, 0, 1))
    scores = np.concatenate([attribution.scores for attribution in first])
    assert scipy.stats.kstest(scores, "uniform").pvalue > 0.01
    for one, same, another in zip(first, again[::1], other, strict=True):
        assert one.scores.tolist() == same.scores.tolist() != another.scores.tolist()
    assert first[0].scores.tolist() != first[1].scores.tolist()
    assert troth.explain(model, texts[7], "random")[0].scores.tolist() == first[7].scores.tolist()


def test_what_is_left_of_an_input_gets_fresh_numbers_and_no_pass():
    import torch

    from troth.maskings.delete import Delete

    (encoding,) = encoder("bert").encode([Example("0", "the soup was cold")])
    prober = Prober(encoder("bert"))
    question = Question(encoding, 0)
    whole = prober.ask(Random().ask([question]))[0]
    left = prober.ask(Random().ask([question.erased(torch.tensor([0.0, 1, 1, 1]), Delete())]))[0]
    assert whole.scores.tolist() != left.scores.tolist()
    assert prober.cost.forward == 0
