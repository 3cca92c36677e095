"""Long texts in windows, against loops that cut the windows by hand and read them one by one."""

import numpy as np
import pytest
import torch

import fakes
import kinds
import troth
from sampled import every
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.engine.prober import Prober
from troth.engine.probes import Probe, keep_all

LENGTH, STRIDE = 12, 4
TEXT = " ".join(fakes.CORPUS[:4])
PAIR = "is the film good ?"


def load(family="bert", windows=None, max_length=LENGTH, **options):
    network, tokenizer = fakes.encoder(family).model, fakes.tokenizer_for(family)
    windows = {"stride": STRIDE} if windows is None else windows
    return troth.load_model(network, tokenizer, max_length=max_length, windows=windows, **options)


def cut(ids, before, behind, length=LENGTH, stride=STRIDE):
    """The windows of a list, straight from the definition."""
    head, tail = ids[:before], ids[len(ids) - behind :] if behind else ids[:0]
    body = ids[before : len(ids) - behind]
    room, start, windows = length - before - behind, 0, []
    while True:
        start = min(start, max(0, len(body) - room))
        windows.append([*head, *body[start : start + room], *tail])
        if start + room >= len(body):
            return windows
        start += stride


def read(model, ids, before=1, behind=1, types=None):
    """The mean of the windows' logits, each read alone."""
    network, rows = model.inner.model, cut(list(range(len(ids))), before, behind)
    logits = []
    for places in rows:
        inputs = {"input_ids": ids[places][None]}
        if types is not None:
            inputs["token_type_ids"] = types[places][None]
        with torch.no_grad():
            logits.append(network(**inputs).logits[0])
    return torch.stack(logits).mean(0)


def test_windows_are_cut_as_by_hand():
    assert cut(list(range(20)), 1, 1, 10, 4)[-1] == [0, *range(11, 19), 19]
    assert len(cut(list(range(20)), 1, 1, 10, 4)) == 4  # from 0, 4, 8 and, at the end, 10


@pytest.mark.parametrize("masking", ["mask_token", "delete"])
def test_leave_one_out_on_a_long_text(masking):
    model = load()
    (encoding,) = model.encode([Example("0", TEXT)])
    assert encoding.truncated == 0
    assert len(encoding.ids) > 3 * LENGTH
    (attribution,) = troth.explain(model, TEXT, "leave_one_out", masking=masking, target=1)
    whole, expected = read(model, encoding.ids)[1], []
    for unit in range(encoding.n_units):
        gone = encoding.units == unit
        ids = encoding.ids[~gone] if masking == "delete" else encoding.ids.masked_fill(gone, model.mask_id)
        expected.append(float(whole - read(model, ids)[1]))
    np.testing.assert_allclose(attribution.scores, expected, atol=2e-5)
    assert np.abs(attribution.scores).max() > 1e-3
    assert "windows of 12, 4 apart, merged by mean logits" in attribution.note


def test_gradients_on_a_long_text():
    model = load()
    (encoding,) = model.encode([Example("0", TEXT)])
    (attribution,) = troth.explain(model, TEXT, "input_x_gradient", target=1)
    network = model.inner.model
    vectors = network.get_input_embeddings()(encoding.ids).detach().requires_grad_()
    logits = [
        network(inputs_embeds=vectors[places][None]).logits[0, 1]
        for places in cut(list(range(len(encoding.ids))), 1, 1)
    ]
    (gradient,) = torch.autograd.grad(torch.stack(logits).mean(), vectors)  # the shared network gets none
    scores = encoding.per_unit((gradient * vectors.detach()).sum(-1))
    np.testing.assert_allclose(attribution.scores, scores.numpy(), atol=1e-5)


def test_integrated_gradients_stay_complete():
    model = load()
    (attribution,) = troth.explain(model, TEXT, "integrated_gradients(steps=64)", target=1)
    assert abs(attribution.gap) < 0.02 * max(1.0, float(np.abs(attribution.scores).sum()))
    (lifted,) = troth.explain(model, TEXT, "deep_lift", target=1)
    assert abs(lifted.gap) < 1e-3


def test_attention_is_the_mean_where_windows_overlap():
    model = load()
    (attribution,) = troth.explain(model, TEXT, "attention")
    encoding = attribution.question.encoding
    total, count = np.zeros(len(encoding.ids)), np.zeros(len(encoding.ids))
    with model.at_rest(attentions=True):
        for places in cut(list(range(len(encoding.ids))), 1, 1):
            with torch.no_grad():
                weights = model.inner.model(encoding.ids[places][None], output_attentions=True).attentions[-1]
            total[places] += weights[0, :, 0].mean(0).numpy()
            count[places] += 1
    expected = encoding.per_unit(torch.tensor(total / count))
    np.testing.assert_allclose(attribution.scores, expected.numpy(), atol=1e-6)


def test_the_second_text_is_in_every_window():
    model = load(max_length=16)
    example = Example("0", TEXT, PAIR)
    (encoding,) = model.encode([example])
    behind = int((encoding.units < 0).sum()) - 1
    (attribution,) = troth.explain(model, [example], "leave_one_out", target=0)
    network, logits = model.inner.model, []
    for places in cut(list(range(len(encoding.ids))), 1, behind, 16):
        with torch.no_grad():
            inputs = {"input_ids": encoding.ids[places][None], "token_type_ids": encoding.token_types[places][None]}
            logits.append(network(**inputs).logits[0])
    expected = torch.stack(logits).mean(0).softmax(-1).tolist()
    assert attribution.probabilities == pytest.approx(expected, abs=1e-5)
    (both,) = troth.explain(model, [example], "leave_one_out", masking="delete", segments="both", target=0)
    assert np.isfinite(both.scores).all()
    assert len(both.scores) == encoding.n_units + len(PAIR.split())


@pytest.mark.parametrize("family", every(3, ["roberta", "modernbert", "distilbert"]))
def test_other_families_alone_and_in_company(family):
    model = load(family)
    texts = [Example("a", TEXT), Example("b", "a good film"), Example("c", " ".join(fakes.CORPUS[2:]))]
    for method in ("leave_one_out", "input_x_gradient", "lime(samples=30)"):
        together = troth.explain(model, texts, method)
        (alone,) = troth.explain(model, [texts[2]], method)
        kinds.close(alone.scores, together[2].scores)
    (short,) = troth.explain(model, [texts[1]], "leave_one_out")
    (plain,) = troth.explain(model.inner, [texts[1]], "leave_one_out")
    np.testing.assert_allclose(short.scores, plain.scores, atol=1e-5)


def test_a_decoder_and_a_prompt():
    decoder = troth.load_model(kinds.decoder_with_head(), windows={"stride": 20})
    (attribution,) = troth.explain(decoder, TEXT + " " + TEXT, "leave_one_out")
    assert attribution.question.encoding.truncated == 0
    network, tokenizer = fakes.causal_model("gpt2", max_position_embeddings=256), fakes.causal_tokenizer("gpt2")
    options = {"prompt": "Text: {text}\nIt is", "class_words": ["good", "bad"], "max_length": 40}
    model = troth.load_model(network, tokenizer, windows={"stride": 10}, **options)
    (attribution,) = troth.explain(model, TEXT, "leave_one_out", masking="delete", target=0)
    encoding = attribution.question.encoding
    before, behind = len(tokenizer("Text:")["input_ids"]), len(tokenizer("\nIt is")["input_ids"])
    assert tokenizer.decode(encoding.ids[:before]) == "Text:"

    def value(ids):
        logits = []
        for places in cut(list(range(len(ids))), before, behind, 40, 10):
            with torch.no_grad():
                logits.append(network(ids[places][None]).logits[0, -1, model.inner.class_ids[0]])
        return float(torch.stack(logits).mean())

    expected = [
        value(encoding.ids) - value(encoding.ids[encoding.units != unit]) for unit in range(0, encoding.n_units, 7)
    ]
    np.testing.assert_allclose(attribution.scores[::7], expected, atol=1e-4)


@pytest.mark.parametrize("merge", ["mean_probabilities", "max_logits"])
def test_other_ways_to_merge(merge):
    model = load(windows={"stride": STRIDE, "merge": merge})
    (attribution,) = troth.explain(model, TEXT, "random")
    encoding = attribution.question.encoding
    with torch.no_grad():
        rows = [
            model.inner.model(encoding.ids[places][None]).logits[0]
            for places in cut(list(range(len(encoding.ids))), 1, 1)
        ]
    logits = torch.stack(rows)
    expected = logits.softmax(-1).mean(0) if merge == "mean_probabilities" else logits.amax(0).softmax(-1)
    assert attribution.probabilities == pytest.approx(expected.tolist(), abs=1e-5)


def test_windows_are_counted():
    model = load()
    (encoding,) = model.encode([Example("0", TEXT)])
    windows = len(cut(encoding.ids.tolist(), 1, 1))
    prober = Prober(model)
    question = troth.explain(model, TEXT, "random")[0].question

    def ask():
        return (yield Probe(question, torch.cat([keep_all(question), 1 - torch.eye(question.n_units)])))

    prober.ask(ask())
    assert prober.cost.forward == (1 + question.n_units) * windows


def test_a_bench_in_windows(tmp_path):
    source = tmp_path / "model"
    inner = fakes.encoder("bert")
    inner.model.save_pretrained(source)
    inner.tokenizer.save_pretrained(source)
    data = [Example(str(number), f"{TEXT} {number}") for number in range(2)]
    options = {"max_length": LENGTH, "windows": {"stride": STRIDE}}
    metrics = ["comprehensiveness(ratio=0.2)"]
    for _ in range(2):
        result = troth.bench((str(source), options), data, ["leave_one_out"], metrics, tmp_path / "run", progress=False)
    assert result.outcome.computed == 0
    assert (
        troth.load_model(str(source), **options).fingerprint != troth.load_model(str(source), max_length=12).fingerprint
    )


@pytest.mark.parametrize(
    ("windows", "problem"),
    [
        ({"stride": 12}, "the stride of windows must be 1 to 11, less than a window, not 12"),
        ({"stride": 0}, "must be 1 to 11"),
        ({"stride": 2.5}, "the stride of windows must be a whole number of tokens"),
        ({"step": 3}, "no setting of windows is called 'step'; .*stride"),
        ({"merge": "median"}, "no way to merge windows is called 'median'"),
        (7, "windows must be True or"),
        ({"stride": 11}, "the tokens around the text take 2 of 12 tokens, which leaves less than a stride of 11"),
    ],
)
def test_bad_windows(windows, problem):
    with pytest.raises(TrothError, match=problem):
        troth.explain(load(windows=windows), TEXT, "random")


def test_what_the_model_cannot_do_is_refused_in_windows_too():
    with pytest.raises(TrothError, match="takes no additive attention mask"):
        troth.explain(load("deberta_v2"), TEXT, "leave_one_out", masking="attention", progress=False)


def test_what_has_no_windows_is_refused():
    with pytest.raises(TrothError, match=r"windows need a model that reads tokens; .* is a black box"):
        troth.load_model(kinds.probabilities, labels=["a", "b", "c"], windows=True)
    with pytest.raises(TrothError, match="use "):
        troth.explain(load(), TEXT, "alti")
    with pytest.raises(TrothError, match="use leave_one_out, gradient or attention"):
        troth.explain(load(), TEXT, "attention_x_gradient")
    assert load(windows=True).stride == 6
    assert type(load(windows=False)).__name__ == "Encoder"
