"""AML: maps of one pass, maps fine-tuned on an example alone; examples side by side know nothing of each other."""

import numpy as np
import pytest
import torch
from transformers import get_linear_schedule_with_warmup

import troth
from fakes import CORPUS, attribution_model, checkpoint, encoder
from sampled import every
from troth.attribution_model.losses import DualMask
from troth.attribution_model.maps import Tuned
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe, keep_all
from troth.verbs.explain import explain_each


def spec(steps, family="bert", **options):
    extra = "".join(f", {name}={value!r}" for name, value in options.items())
    return f"attributive_masking(checkpoint={checkpoint(family)!r}, steps={steps}{extra})"


def test_one_pass_of_each_model():
    model = encoder("bert")
    prober = Prober(model)
    list(explain_each(prober, CORPUS, spec(0)))
    count = len(CORPUS)
    assert (prober.cost.forward, prober.cost.backward, prober.cost.side_model_rows) == (count, 0, count)


def test_ten_steps_cost_what_they_are():
    prober = Prober(encoder("bert"))
    (attribution,) = explain_each(prober, "a good film", spec(10, metric="comprehensiveness"))
    # The whole input; two masks a step, there and back. The metric asks at most one more row a map.
    assert 21 <= prober.cost.forward <= 21 + 11
    assert prober.cost.backward == 20
    assert prober.cost.side_model_rows == 21
    assert attribution.scores.shape == (3,)


def test_scores_are_what_the_attribution_model_says():
    model, own = encoder("bert"), attribution_model()
    (found,) = troth.explain(model, "the soup was cold", spec(0), units="token")
    ids = model.tokenizer("the soup was cold")["input_ids"]
    told = model.model(torch.tensor([ids])).logits.softmax(-1)
    words = own.backbone.get_input_embeddings()(torch.tensor([ids]))
    states = own.backbone(inputs_embeds=torch.cat([words, own.label_vector(told)[:, None]], dim=1)).last_hidden_state
    expected = own.score(torch.tanh(own.hidden(states)))[0, 1:-2, 0].sigmoid()
    np.testing.assert_allclose(found.scores, expected.detach(), rtol=1e-4)


def test_another_class_is_told_alone():
    model, own = encoder("bert"), attribution_model()
    predicted = troth.explain(model, "a good film", spec(0))[0].target
    other = (predicted + 1) % 3
    (found,) = troth.explain(model, "a good film", spec(0), target=other)
    told = own.prediction + own.classes[other]
    ids = torch.tensor([model.tokenizer("a good film")["input_ids"]])
    words = own.backbone.get_input_embeddings()(ids)
    states = own.backbone(inputs_embeds=torch.cat([words, told[None, None]], dim=1)).last_hidden_state
    expected = own.score(torch.tanh(own.hidden(states)))[0, 1:-2, 0].sigmoid()
    np.testing.assert_allclose(found.scores, expected.detach(), rtol=1e-4)


def trajectory(model, own, texts, **options):
    readout = Tuned(own, DualMask(0.6, 0.2, 0.9), steps=4, learning_rate=3e-3, **options)

    def ask(encoding):
        question = Question(encoding, target=-1)
        answer = yield Probe(question, keep_all(question), readout=readout)
        return answer.rows["maps"][0, :, : question.n_units]

    encodings = model.encode([Example(str(place), text) for place, text in enumerate(texts)])
    return list(Prober(model, memory=1 << 34).run(ask(encoding) for encoding in encodings))


def one_by_one(model, own, text, steps=4, decay="linear"):
    """fAML straight from its definition: a copy of G, AdamW with linear decay, the dual-mask loss of one example."""
    (encoding,) = model.encode([Example("0", text)])
    own = attribution_model(own) if isinstance(own, str) else own
    optimizer = torch.optim.AdamW(list(own.own_weights().values()), lr=3e-3)
    schedule = get_linear_schedule_with_warmup(optimizer, 0, steps)
    ids = encoding.ids[None]
    told = model.model(ids).logits.detach().softmax(-1)
    words = model.embedding_matrix[ids].detach()
    mask = model.embedding_matrix[model.mask_id].detach()
    own_words = own.backbone.get_input_embeddings()(own_ids(own, text)).detach()
    maps = []
    while True:
        states = own.backbone(inputs_embeds=torch.cat([own_words, own.label_vector(told)[:, None].detach()], 1))
        tokens = own.score(torch.tanh(own.hidden(states.last_hidden_state)))[0, 1:-2, 0].sigmoid()
        # Every word of these texts is one token or several: the highest counts.
        spans = own.tokenizer(text, return_offsets_mapping=True)["offset_mapping"][1:-1]
        a = torch.stack(
            [
                torch.stack([one for one, (s, e) in zip(tokens, spans, strict=True) if max(s, b) < min(e, c)]).amax()
                for b, c in encoding.unit_spans
            ]
        )
        maps.append(a.detach())
        if len(maps) > steps:
            return torch.stack(maps)
        keep = torch.cat([a, torch.ones(1)])[encoding.units][None, :, None]  # unit −1 is the last: kept
        inverse = torch.cat([1 - a, torch.ones(1)])[encoding.units][None, :, None]
        p = model.model(inputs_embeds=keep * words + (1 - keep) * mask).logits.log_softmax(-1)
        q = model.model(inputs_embeds=inverse * words + (1 - inverse) * mask).logits.softmax(-1)
        loss = -0.6 * (told * p).sum() - 0.2 * torch.log(1 - a).mean()
        loss = loss - 0.9 * torch.log(1 - q[0, told.argmax()] + 1e-30)
        optimizer.zero_grad()
        loss.backward(inputs=optimizer.param_groups[0]["params"])  # the shared model gets no gradients
        optimizer.step()
        if decay == "linear":
            schedule.step()


def own_ids(own, text):
    return torch.tensor([own.tokenizer(text)["input_ids"]])


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
def test_steps_side_by_side_against_a_slow_twin(family):
    model = encoder(family)
    texts = ["a good film", "the soup was cold", "why would anyone pay for this"]
    found = trajectory(model, attribution_model(family), texts)
    for text, maps in zip(texts, found, strict=True):
        expected = one_by_one(model, family, text)
        assert (expected[-1] - expected[0]).abs().max() > 0.01  # it does move
        torch.testing.assert_close(maps, expected, rtol=2e-3, atol=1e-4)


def test_the_learning_rate_falls_unless_it_is_told_not_to():
    model = encoder("bert")
    (falling,) = trajectory(model, attribution_model("bert"), ["a good film"])
    (constant,) = trajectory(model, attribution_model("bert"), ["a good film"], decay="constant")
    torch.testing.assert_close(constant, one_by_one(model, "bert", "a good film", decay="no"), rtol=2e-3, atol=1e-4)
    torch.testing.assert_close(falling[1], constant[1])  # the first step is at the whole rate
    assert (falling[-1] - constant[-1]).abs().max() > 1e-3
    wanted = troth.core.catalog.build("explainers", spec(3, decay="constant")).reads()
    assert (wanted.decay, troth.core.catalog.build("explainers", spec(3)).reads().decay) == ("constant", "linear")


@pytest.mark.parametrize("family", every(4, ["bert", "distilbert", "electra", "deberta_v2"]))
def test_an_example_does_not_depend_on_the_others(family):
    model, own = encoder(family), attribution_model(family)
    together = trajectory(model, own, CORPUS)
    alone = [trajectory(model, own, [text])[0] for text in CORPUS]
    in_twos = trajectory(model, own, CORPUS, together=2)
    for one, other, two in zip(together, alone, in_twos, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
    before = attribution_model(family).state_dict()
    for name, weight in own.state_dict().items():
        torch.testing.assert_close(weight, before[name])  # nothing leaks into G


def test_fine_tuning_never_loses_by_its_metric():
    model = encoder("bert")
    texts = CORPUS[:4]
    for metric, sign in (("aopc_comprehensiveness", 1), ("sufficiency(ratio=0.5)", -1)):
        first = troth.measure(model, troth.explain(model, texts, spec(0)), metric)
        tuned = troth.measure(model, troth.explain(model, texts, spec(6, metric=metric)), metric)
        gains = [sign * (after.value - before.value) for before, after in zip(first, tuned, strict=True)]
        assert min(gains) >= 0
        assert max(gains) > 1e-4


def test_recursive_metrics_explain_what_is_left():
    model = encoder("bert")
    attributions = troth.explain(model, ["a good film with a great cast"], spec(1))
    for metric in ("recursive_erasure(step=0.5)", "recursive_erasure(step=0.5, masking=delete)"):
        (score,) = troth.measure(model, attributions, metric)
        assert len(score.record["p_explained"]) == 3


def test_units_that_are_gone_score_nothing():
    model = encoder("bert")
    (attribution,) = troth.explain(model, "a good film", spec(0))
    question = attribution.question.erased(
        torch.tensor([1.0, 0, 1]), troth.core.catalog.build("maskings", "mask_token")
    )
    method = troth.core.catalog.build("explainers", spec(0))
    again = Prober(model).ask(method.ask([question]))[0]
    assert again.scores[1] == 0
    assert not np.allclose(again.scores[[0, 2]], attribution.scores[[0, 2]])


def test_a_black_box_can_be_explained_by_a_model_fitted_to_its_twin():
    labels = encoder("bert").labels
    box = troth.load_model(lambda texts: [[0.2, 0.5, 0.3] for _ in texts], labels=labels)
    (attribution,) = troth.explain(box, "a good film", spec(0))
    assert (attribution.scores > 0).all()
    with pytest.raises(TrothError, match="has no word vectors"):
        troth.explain(box, "a good film", spec(1))


def test_bad_input(tmp_path):
    with pytest.raises(TrothError, match=r"checkpoint must be given: attributive_masking\(checkpoint=…\)"):
        troth.explain(encoder("bert"), "a good film", "attributive_masking")
    with pytest.raises(TrothError, match="there is no folder nowhere; fit one: troth fit attributive_masking"):
        troth.explain(encoder("bert"), "a good film", "attributive_masking(checkpoint=nowhere)")
    (tmp_path / "config.json").write_text("{}")  # a user's own model: the hint must not say to write there
    with pytest.raises(TrothError, match=r"no attribution model is in .*; fit one: .* --out NEW_FOLDER$"):
        troth.explain(encoder("bert"), "a good film", f"attributive_masking(checkpoint={str(tmp_path)!r})")
    two = encoder("bert", classes=2)
    with pytest.raises(TrothError, match="fitted for the classes LABEL_0, LABEL_1, LABEL_2, but tiny bert has LABEL_0"):
        troth.explain(two, "a good film", spec(0))
    with pytest.raises(TrothError, match="steps must be 0 or more"):
        troth.explain(two, "a good film", spec(-1))
    with pytest.raises(TrothError, match="learning_rate must be above 0"):
        troth.explain(two, "a good film", spec(1, learning_rate=-1.0))
    with pytest.raises(TrothError, match="cannot watch a metric that explains again"):
        troth.explain(encoder("bert"), "a good film", spec(1, metric="recursive_erasure(step=0.5)"))


def test_other_units_and_tokenizers():
    model = encoder("bert")
    text = "Don't waste it. The soup was cold."
    for units in ("token", "word", "sentence"):
        (attribution,) = troth.explain(model, text, spec(1, "roberta"), units=units)
        assert ((attribution.scores > 0) & (attribution.scores < 1)).all()
    words = troth.explain(model, text, spec(0, "roberta"), units="word")[0]
    sentences = troth.explain(model, text, spec(0, "roberta"), units="sentence")[0]
    spans = np.array(words.spans)
    for score, (start, end) in zip(sentences.scores, sentences.spans, strict=True):
        inside = (spans[:, 0] >= start) & (spans[:, 1] <= end)
        assert score >= words.scores[inside].max() - 1e-6  # the highest token of the sentence


def test_a_bench_leaves_it_out_and_says_why():
    from troth.sweep.bench import plan_of
    from troth.sweep.context import Context

    plan = plan_of(Context(), encoder(), [Example("0", "good film", label=0)], "all", ["sparsity"])
    assert "attributive_masking" not in {cell.specs["explainer"] for cell in plan.of("explanation")}
    assert "checkpoint" in plan.about["left_out"]["attributive_masking"]
