"""Why a language model wrote what it wrote: against transformers called by hand, and against inseq where it is."""

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import fakes
import troth
from troth.core.errors import TrothError
from troth.core.types import Attribution, Example
from troth.models.continuation import WHOLE

PROMPT, WRITTEN = "the film was good. a bad", " film was the good"


def gpt2(**options):
    """A small GPT-2 whose erased tokens become its unknown token, as inseq's do."""
    tokenizer = fakes.end_of_text()
    tokenizer.pad_token = tokenizer.eos_token
    sizes = {"vocab_size": len(tokenizer), "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 128}
    torch.manual_seed(0)
    network = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, pad_token_id=0))
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    network.eval()
    asked = {"continuation": WRITTEN, "mask_text": "<|endoftext|>"} | options
    return troth.load_model(network, tokenizer, **asked)


def by_hand(model, context, written=None, vectors=None):
    """[tokens] the log-probability of each token behind the context: one pass of transformers."""
    written = list(model.ids if written is None else written)
    embed = model.model.get_input_embeddings()
    rows = torch.cat([embed(torch.tensor(context)) if vectors is None else vectors, embed(torch.tensor(written))])
    logs = model.model(inputs_embeds=rows[None]).logits[0].log_softmax(-1)
    before = len(rows) - len(written) - 1
    return torch.stack([logs[before + place, token] for place, token in enumerate(written)])


def occlusion(model, context):
    """[tokens, context] how much each token's log-probability falls when one of the context becomes unknown."""
    whole = by_hand(model, context)
    erased = [by_hand(model, [*context[:place], 0, *context[place + 1 :]]) for place in range(len(context))]
    return torch.stack([whole - each for each in erased], dim=1).detach().numpy()


def input_x_gradient(model, context):
    vectors = model.model.get_input_embeddings()(torch.tensor(context)).detach().requires_grad_()
    values = by_hand(model, context, vectors=vectors)
    rows = [torch.autograd.grad(value, vectors, retain_graph=True)[0] for value in values]
    return torch.stack([(row * vectors).sum(-1) for row in rows]).detach().numpy()


def integrated_gradients(model, context, steps=50):
    """[tokens, context] along the straight path from the unknown token's vectors, by Gauss-Legendre's rule."""
    embed = model.model.get_input_embeddings()
    end, start = embed(torch.tensor(context)).detach(), embed(torch.zeros(len(context), dtype=torch.int64)).detach()
    places, weights = np.polynomial.legendre.leggauss(steps)
    total = torch.zeros(len(model.ids), len(context))
    for place, weight in zip((places + 1) / 2, weights / 2, strict=True):
        vectors = (start + float(place) * (end - start)).requires_grad_()
        values = by_hand(model, context, vectors=vectors)
        rows = [torch.autograd.grad(value, vectors, retain_graph=True)[0] for value in values]
        total += float(weight) * torch.stack([(row * (end - start)).sum(-1) for row in rows])
    return total.numpy()


METHODS = {
    "leave_one_out": occlusion,
    "input_x_gradient": input_x_gradient,
    "integrated_gradients(steps=50, baseline=mask, rule=gauss_legendre)": integrated_gradients,
}


@pytest.mark.parametrize("method", METHODS)
def test_every_token_and_the_whole_against_the_formula(method):
    model = gpt2()
    expected = METHODS[method](model, model.ids_of(PROMPT))
    found = troth.explain(model, PROMPT, method, units="token", target="each")
    (matrix,) = found.matrices()
    assert matrix.scores.shape == (4, 9)
    np.testing.assert_allclose(matrix.scores, expected, atol=1e-4)
    assert matrix.targets == (" film", " was", " the", " good")
    np.testing.assert_allclose(matrix.values, by_hand(model, model.ids_of(PROMPT)).detach().numpy(), atol=1e-5)
    (whole,) = troth.explain(model, PROMPT, method, units="token")
    np.testing.assert_allclose(whole.scores, expected.sum(0), atol=2e-4)
    assert whole.probabilities[0] == pytest.approx(sum(matrix.values), abs=1e-4)


@pytest.mark.parametrize("method", ["occlusion", "input_x_gradient", "integrated_gradients"])
def test_agrees_with_inseq(method):
    """inseq lets the tokens written before travel along IG's path, too: there they belong to the text."""
    inseq = pytest.importorskip("inseq")
    model = gpt2()
    options = {"n_steps": 50} if method == "integrated_gradients" else {}
    peer = inseq.load_model(model.model, method, tokenizer=model.tokenizer)
    found = peer.attribute(
        PROMPT, PROMPT + WRITTEN, attributed_fn="probability", logprob=True, show_progress=False, **options
    )
    theirs = found.sequence_attributions[0].target_attributions
    theirs = (theirs.sum(-1) if theirs.dim() == 3 else theirs).T.numpy()  # [tokens, context and what was written]
    spec = {"occlusion": "leave_one_out"}.get(method, method)
    if method == "integrated_gradients":
        spec = "integrated_gradients(steps=50, baseline=mask, rule=gauss_legendre)"
    for place, token in enumerate(model.ids):
        before = PROMPT + model.tokenizer.decode(model.ids[:place])
        step = gpt2(continuation=model.tokenizer.decode([token]))
        (ours,) = troth.explain(step, before, spec, units="token")
        scores = np.abs(ours.scores) if method == "occlusion" else ours.scores  # inseq's occlusion has no sign
        np.testing.assert_allclose(scores, theirs[place, : len(scores)], atol=1e-3)


def test_what_it_writes_is_what_transformers_generates():
    model = gpt2(continuation=None, generate=6)
    texts = [PROMPT, "a film", "the"]
    for text, attribution in zip(texts, troth.explain(model, texts, "leave_one_out"), strict=True):
        ids = torch.tensor([model.ids_of(text)])
        written = model.model.generate(ids, do_sample=False, max_new_tokens=6, attention_mask=torch.ones_like(ids))
        new = [token for token in written[0, ids.shape[1] :].tolist() if token != 0]
        assert [token for token, _ in attribution.question.encoding.written] == new
        assert "".join(text for _, text in attribution.question.encoding.written) == model.tokenizer.decode(new)
        values = by_hand(model, ids[0].tolist(), new).detach().numpy()
        np.testing.assert_allclose(attribution.probabilities, [values.sum(), *values], atol=1e-4)


def test_texts_that_end_early_stand_beside_longer_ones():
    """The same scores alone and in company, also where one text's continuation is shorter."""
    model = gpt2(continuation=None, generate=6)
    texts = [PROMPT, "a film", "the"]
    first = {by_token(model, text)[0] for text in texts}
    ends = next(token for text in texts for token in by_token(model, text)[1:] if token not in first)
    model.tokenizer.eos_token = model.tokenizer.convert_ids_to_tokens(ends)
    together = troth.explain(model, texts, "leave_one_out")
    assert len({len(each.question.encoding.written) for each in together}) > 1
    for text, one in zip(texts, together, strict=True):
        (alone,) = troth.explain(model, text, "leave_one_out")
        np.testing.assert_allclose(one.scores, alone.scores, atol=1e-5)
        assert len(one.probabilities) == len(one.labels) == 1 + len(one.question.encoding.written)


def by_token(model, text):
    (encoding,) = model.encode([Example("0", text)])
    return [token for token, _ in encoding.written]


METRICS = [
    "comprehensiveness(ratio=0.3)", "sufficiency(ratio=0.3)", "aopc_comprehensiveness", "aopc_sufficiency",
    "recursive_erasure(step=0.25)",
]  # fmt: skip


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_measure_the_log_probability(metric):
    model = gpt2()
    attributions = troth.explain(model, PROMPT, "leave_one_out", units="token")
    (score,) = troth.measure(model, attributions, metric, explainer="leave_one_out")
    assert np.isfinite(score.value)
    if metric.startswith(("comprehensiveness", "sufficiency")):
        context = model.ids_of(PROMPT)
        order = np.argsort(-attributions[0].scores, kind="stable")[: 3 * len(context) // 10]
        chosen = metric.startswith("suff")
        left = [token for place, token in enumerate(context) if (place in order) == chosen]
        change = by_hand(model, context).sum() - by_hand(model, left).sum()
        assert score.value == pytest.approx(float(change), abs=1e-4)


def test_metrics_that_need_classes_refuse():
    model = gpt2()
    attributions = troth.explain(model, PROMPT, "leave_one_out")
    with pytest.raises(TrothError, match="decision_flip"):
        troth.measure(model, attributions, "decision_flip")


def test_deleting_the_whole_text_leaves_a_begin_token():
    model = gpt2(continuation=" film was")
    (attribution,) = troth.explain(model, "a", "leave_one_out", masking="delete")
    change = by_hand(model, model.ids_of("a")).sum() - by_hand(model, [0]).sum()
    assert attribution.scores == pytest.approx(float(change), abs=1e-4)


def test_a_chat_template_stands_around_the_text():
    tokenizer = fakes.end_of_text()
    tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>{{ '\n' }}"
    network = fakes.causal_model("gpt2", vocab_size=len(tokenizer))
    model = troth.load_model(network, tokenizer, continuation="the film")
    (encoding,) = model.encode([Example("0", "a good film")])
    assert tokenizer.decode(encoding.ids).startswith("<user>a good film\n<assistant>\nthe")
    assert encoding.unit_texts == ("a", "good", "film")
    plain = troth.load_model(network, tokenizer, continuation="the film", chat=False)
    (encoding,) = plain.encode([Example("0", "a good film")])
    assert tokenizer.decode(encoding.ids) == "a good film the"  # behind a space, and its last token is not run
    (wide,) = troth.load_model(network, tokenizer, continuation="電", chat=False).encode([Example("0", "a")])
    assert "".join(text for _, text in wide.written) == "電"


def test_it_is_made_again_and_kept():
    for options in ({"continuation": WRITTEN}, {"continuation": None, "generate": 4, "prompt": "a {text} was"}):
        model = gpt2(**options)
        again = gpt2(**{"continuation": None, "mask_text": None} | model.spec)
        assert again.fingerprint == model.fingerprint
        (attribution,) = troth.explain(model, "good film", "leave_one_out", target=2)
        back = Attribution.from_dict(attribution.to_dict(), again)
        assert back.label(2) == attribution.label(2) == attribution.question.encoding.written[1][1]
        assert troth.measure(again, [back], "comprehensiveness")[0].value == pytest.approx(
            troth.measure(model, [attribution], "comprehensiveness")[0].value
        )
    assert gpt2().fingerprint != gpt2(continuation=" film was the bad").fingerprint
    assert gpt2().labels[0] == WHOLE


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"continuation": ""}, "the continuation must be a text, not '': there is nothing to explain"),
        ({"continuation": " \n"}, "the continuation must be a text"),
        ({"continuation": " film" * 128}, "the continuation takes 128 of 128 tokens, so no room is left for a text"),
        ({"continuation": None, "generate": 0}, "generate must be a number of tokens, 1 or more, not 0"),
        ({"continuation": None, "generate": 500}, "the continuation takes 500 of 128 tokens"),
        ({"generate": 4}, "pass either a continuation, or generate=40"),
        ({"class_words": ["a", "b"]}, "class_words is for a prompted language model"),
        ({"labels": ["a", "b"]}, "labels are names of classes, and a continuation has no classes; leave labels out"),
        ({"prompt": "no place"}, "does not contain {text}"),
    ],
)
def test_bad_input(options, problem):
    with pytest.raises(TrothError, match=problem) as caught:
        gpt2(**options)
    assert "\n" not in str(caught.value)


def test_models_that_do_not_write():
    for network, tokenizer in ((fakes.hf_model(), fakes.tokenizer_for("bert")),):
        with pytest.raises(TrothError, match="does not generate text: pass a causal language model"):
            troth.load_model(network, tokenizer, continuation="the film")
    with pytest.raises(TrothError, match=r"each explains every token of a continuation, but .* writes nothing"):
        troth.explain(fakes.encoder(), "a good film", "leave_one_out", target="each")
    with pytest.raises(TrothError, match="one position that decides: its answer has several tokens"):
        troth.explain(gpt2(), "a film", "attention")


def test_no_room_for_the_text():
    model = gpt2(continuation=" film" * 100, prompt=" film" * 30 + "{text}")
    with pytest.raises(TrothError, match="the prompt takes 30 and the answer 99 of 128 tokens, so no room is left"):
        model.encode([Example("0", "a good film")])
