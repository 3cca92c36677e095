from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from fakes import CORPUS, FAMILIES, encoder, hf_model, planted, tokenizer_for
from troth import explain
from troth.core.errors import TrothError
from troth.core.types import Attribution
from troth.explainers import Explainer
from troth.models.encoder import Encoder
from troth.validity.randomization import blocks, parameter_randomization, random_class, shuffle


def test_what_asks_no_model_does_not_change_and_what_asks_it_does():
    model = encoder("bert")
    (ignorant,) = parameter_randomization(model, CORPUS, "random")
    assert (ignorant.value, ignorant.low, ignorant.high, ignorant.block) == (1, 1, 1, "all")
    (asking,) = parameter_randomization(model, CORPUS, "leave_one_out")
    assert abs(asking.value) < 0.6
    assert len(asking.correlations) == len(CORPUS)
    assert asking.explainer == "leave_one_out"


def test_it_is_spearmans_correlation_between_a_model_and_its_shuffled_twin_for_the_same_class():
    model = encoder("distilbert", 2)
    (found,) = parameter_randomization(model, CORPUS, "input_x_gradient", seed=3)
    twin = hf_model("distilbert", 2)
    shuffle(twin, [name for name, _ in twin.named_parameters()], seed=3)
    real = explain(model, CORPUS, "input_x_gradient")
    shuffled = Encoder(twin, tokenizer_for("distilbert"), name="twin")
    for place, (one, text) in enumerate(zip(real, CORPUS, strict=True)):
        (other,) = explain(shuffled, text, "input_x_gradient", target=one.target)
        assert found.correlations[place] == pytest.approx(spearmanr(one.scores, other.scores).statistic)
    assert found.value == pytest.approx(np.mean(found.correlations))


def test_another_class_is_another_explanation_unless_the_method_ignores_it():
    model = encoder("bert", 3)
    found = random_class(model, CORPUS, "attention")
    assert (found.value, found.block) == (1, "class")
    found = random_class(model, CORPUS, "leave_one_out", seed=2)
    drawn = set()
    for place, one in enumerate(explain(model, CORPUS, "leave_one_out", seed=2)):
        others = [explain(model, CORPUS[place], "leave_one_out", target=each, seed=2)[0] for each in range(3)]
        expected = {
            each: spearmanr(one.scores, others[each].scores).statistic for each in range(3) if each != one.target
        }
        (chosen,) = [each for each, value in expected.items() if found.correlations[place] == pytest.approx(value)]
        drawn.add(chosen)
    assert len(drawn) > 1
    assert random_class(encoder("bert", 2), CORPUS, "leave_one_out(of=logit)").value < 0.9
    with pytest.raises(TrothError, match="no second class"):
        random_class(encoder("bert", 1), CORPUS, "gradient")


@pytest.mark.parametrize("training", [True, False])
def test_the_users_model_is_never_touched(training):
    hugging_face = hf_model("albert").train(training)
    before = {name: tensor.clone() for name, tensor in hugging_face.state_dict().items()}
    parameter_randomization(
        Encoder(hugging_face, tokenizer_for("albert"), name="mine"), CORPUS[:2], "gradient", cascade=True
    )
    for name, tensor in hugging_face.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert hugging_face.training is training
    assert all(parameter.requires_grad for parameter in hugging_face.parameters())


def test_shuffling_keeps_the_values_and_changes_their_places():
    model = hf_model("bert")
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    shuffle(model, ["classifier.weight"], seed=0)
    after = dict(model.named_parameters())
    assert torch.equal(
        after["classifier.weight"].flatten().sort().values, before["classifier.weight"].flatten().sort().values
    )
    assert not torch.equal(after["classifier.weight"], before["classifier.weight"])
    assert all(torch.equal(after[name], before[name]) for name in before if name != "classifier.weight")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cascade_goes_from_the_head_down_to_the_embeddings(family):
    model = hf_model(family)
    found = blocks(model)
    assert sorted(name for names in found.values() for name in names) == sorted(n for n, _ in model.named_parameters())
    order = list(found)
    assert "classifier" in order[0]
    assert order[-1].endswith("embeddings")
    layers = [block for block in order if block.rsplit(".", 1)[-1].isdigit()]
    assert layers == sorted(layers, reverse=True)


def test_each_step_of_a_cascade_shuffles_one_block_more():
    results = parameter_randomization(encoder("bert"), CORPUS[:3], "gradient", cascade=True)
    assert [one.block for one in results] == list(blocks(hf_model("bert")))
    (everything,) = parameter_randomization(encoder("bert"), CORPUS[:3], "gradient")
    assert results[-1].correlations == everything.correlations
    assert results[0].value > results[-1].value


@dataclass(frozen=True)
class Equal(Explainer):
    signed: ClassVar[bool] = False

    def ask(self, question):
        yield from ()
        return Attribution(question, np.ones(question.n_units), signed=False)


def test_constant_scores_and_single_words_have_no_correlation():
    (found,) = parameter_randomization(encoder("bert"), ["a good film"], Equal())
    assert np.isnan([found.value, found.low, *found.correlations]).all()
    (found,) = parameter_randomization(encoder("bert"), ["good", "a good film"], "gradient")
    assert np.isnan(found.correlations[0])
    assert found.value == found.correlations[1]


def test_a_black_box_has_no_weights():
    with pytest.raises(TrothError, match="predict has no weights to shuffle"):
        parameter_randomization(planted(), ["awful"], "leave_one_out")
