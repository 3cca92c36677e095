"""Class words of any length: the log-probability of all their tokens, against transformers called word by word."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, BloomConfig, GraniteConfig

import fakes
import troth
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.maskings.delete import Delete
from troth.models._prompt_reader import Tree

# Of one to seven tokens; two begin alike, and one goes on from another.
WORDS = ["good", "good film", "good book", "awful"]
PROMPT = "is it ? {text} it is"


def load(family="llama", network=None, words=WORDS, prompt=PROMPT, **options):
    return troth.load_model(
        network or fakes.causal_model(family),
        fakes.causal_tokenizer(family),
        prompt=prompt,
        class_words=words,
        **options,
    )


def by_hand(model, context, mean=False):
    """The log-probability of each word after these tokens, a pass of its own for each."""
    values = []
    for word in model.tree.words:
        with torch.no_grad():
            logs = model.model(input_ids=torch.tensor([[*context, *word]])).logits[0].log_softmax(-1)
        each = [logs[len(context) - 1 + place, token] for place, token in enumerate(word)]
        values.append(float(sum(each)) / (len(word) if mean else 1))
    return np.array(values)


def context_of(model, encoding):
    return encoding.ids[: len(encoding.ids) - model.answer_length].tolist()


@pytest.mark.parametrize("family", fakes.CAUSAL)
@pytest.mark.parametrize("mean", [False, True])
def test_the_log_probability_of_all_tokens_of_a_word(family, mean):
    model = load(family, mean_of_tokens=mean)
    assert len({len(word) for word in model.tree.words}) > 1
    texts = ["a good film", "the soup was cold , the service awful", "awful"]
    encodings = model.encode([Example(str(number), text) for number, text in enumerate(texts)])

    def look(encoding):
        question = Question(encoding, 0)
        rows = torch.cat([torch.ones(1, encoding.n_units), 1 - torch.eye(encoding.n_units)])
        return (yield Probe(question, rows, Delete()))

    for encoding, answer in zip(encodings, Prober(model).run(map(look, encodings)), strict=True):
        ids, units = context_of(model, encoding), encoding.units[: len(encoding.ids) - model.answer_length]
        for row, logits in enumerate(answer.logits.numpy()):
            left = [token for token, unit in zip(ids, units.tolist(), strict=True) if unit != row - 1 or unit < 0]
            np.testing.assert_allclose(logits, by_hand(model, left, mean), atol=1e-4)


def test_words_share_their_beginnings():
    tree = Tree(((5,), (5, 6), (5, 7, 8), (9, 6)))
    assert tree.nodes == ((5,), (9,), (5, 7))  # 6 and 8 are followed by nothing, so nobody runs them
    assert tree.ids == [5, 9, 7]
    assert tree.questions == ((-1, 5), (0, 6), (0, 7), (2, 8), (-1, 9), (1, 6))
    assert tree.sees.tolist() == [[True, False, False], [False, True, False], [True, False, True]]
    assert tree.shares.T.tolist() == [[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]
    assert Tree(((5,), (6,))).ids == []
    assert not Tree(((5, 6, 7), (5, 6, 8))).branches
    assert tree.branches


@pytest.mark.parametrize("explainer", ["leave_one_out", "integrated_gradients(steps=4)", "input_x_gradient"])
def test_sharing_changes_no_score(explainer):
    for family in ("llama", "gpt2"):
        shared, apart = load(family), load(family)
        apart.shares_prefix = False
        for one, other in zip(
            *(troth.explain(model, ["a good film"], explainer) for model in (shared, apart)), strict=True
        ):
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-4)


def test_gradients_reach_through_all_words():
    """The change of a word's log-probability along a direction, by finite differences in double precision."""
    model = load("gpt2", fakes.causal_model("gpt2").double())
    (attribution,) = troth.explain(model, "a good film", "input_x_gradient", target=2)
    (encoding,) = model.encode([Example("0", "a good film")])
    ids, units = encoding.ids[: len(encoding.ids) - model.answer_length], encoding.units.tolist()
    word = model.tree.words[2]
    vectors = model.model.get_input_embeddings().weight.detach()

    def value(scale, unit):
        factors = torch.tensor([scale if of == unit else 1.0 for of in units[: len(ids)]], dtype=torch.float64)
        rows = torch.cat([vectors[ids] * factors[:, None], vectors[list(word[:-1])]])
        with torch.no_grad():
            logs = model.model(inputs_embeds=rows[None]).logits[0].log_softmax(-1)
        return sum(float(logs[len(ids) - 1 + place, token]) for place, token in enumerate(word))

    for unit, score in enumerate(attribution.scores):
        assert score == pytest.approx((value(1 + 1e-5, unit) - value(1 - 1e-5, unit)) / 2e-5, abs=1e-4)


@pytest.mark.parametrize("config", [BloomConfig, GraniteConfig])
def test_other_families(config):
    """Bloom's attention counts tokens, so words side by side would be read at wrong places: they are run one by one."""
    sizes = dict(fakes.SIZES, n_layer=2, n_head=2, num_key_value_heads=1, logits_scaling=3.0)
    torch.manual_seed(0)
    own = {"vocab_size": len(fakes.causal_tokenizer()), "bos_token_id": 1, "eos_token_id": 2}
    network = AutoModelForCausalLM.from_config(config(**{**sizes, **own})).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    model = load(network=network, words=["good", "good film", "bad book"])
    assert model.tree.branches
    (encoding,) = model.encode([Example("0", "a good film")])
    (attribution,) = troth.explain(model, "a good film", "leave_one_out", target=1)
    whole = by_hand(model, context_of(model, encoding))
    np.testing.assert_allclose(np.log(attribution.probabilities), whole - np.logaddexp.reduce(whole), atol=1e-4)
    for unit, score in enumerate(attribution.scores):
        ids = [
            model.mask_id if of == unit else token
            for token, of in zip(encoding.ids.tolist(), encoding.units.tolist(), strict=True)
        ]
        erased = by_hand(model, ids[: len(ids) - model.answer_length])
        assert score == pytest.approx(whole[1] - erased[1], abs=1e-4)
    assert model._reads_trees == (config is GraniteConfig)


def test_how_words_are_counted_is_said():
    model = load("gpt2", words=["good", "awful"])
    assert (
        model.notes[-1]
        == "class words have several tokens (good 1, awful 5): the sum of their log-probabilities counts"
    )
    (attribution,) = troth.explain(model, "a good film", "leave_one_out")
    assert "the sum of their log-probabilities counts" in attribution.note
    mean = load("gpt2", words=["good", "awful"], mean_of_tokens=True)
    assert "the mean of their log-probabilities counts" in mean.notes[-1]
    assert mean.spec["mean_of_tokens"] is True
    assert mean.fingerprint != model.fingerprint
    assert all("log-probabilities" not in note for note in load("gpt2", words=["good", "bad"]).notes)


def test_words_of_one_token_are_computed_as_before():
    """Their raw logits, of which every stored number is."""
    model = load("gpt2", words=["good", "bad"], prompt="Text: {text} is")
    assert model.answer_length == 0
    (encoding,) = model.encode([Example("0", "a good film")])

    def look():
        return (yield Probe(Question(encoding, 0), torch.ones(1, 3)))

    with torch.no_grad():
        states = model.model.base_model(input_ids=encoding.ids[None], use_cache=False).last_hidden_state[:, -1]
    expected = states @ model.model.lm_head.weight[list(model.class_ids)].T
    torch.testing.assert_close(Prober(model).ask(look()).logits, expected, rtol=1e-5, atol=1e-5)


def test_bad_words():
    with pytest.raises(TrothError, match="class_words must be two or more different words"):
        load(words=["awful", "awful"])
    with pytest.raises(TrothError, match="one position that decides: its answer has several tokens; use gradient"):
        troth.explain(load(), "a good film", "attention")
    long = load("gpt2", words=["good", "awful"], prompt="Text: {text}\nLabel:", max_length=16)
    with pytest.raises(TrothError, match="the prompt takes 13 and the answer 4 of 16 tokens, so no room is left"):
        long.encode([Example("0", "a good film")])
