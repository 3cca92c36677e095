"""A causal language model asked for a class word: against transformers called by hand."""

import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GraniteConfig

import fakes
import troth
from asking import tokens_run
from sampled import every
from troth.core.errors import TrothError
from troth.core.types import PROMPT, Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.maskings.delete import Delete
from troth.maskings.mask_token import MaskToken
from troth.maskings.zero import Zero
from troth.models import prompted

TEXTS = ["a good film", "the soup was cold , the service awful", "awful", "don't pay $3.50 !"]


def load(family="llama", prompt=None, words=("good", "bad", "the"), **options):
    tokenizer = options.pop("tokenizer", fakes.causal_tokenizer(family))
    kind = "gpt2" if family in ("gpt2", "qwen2", "qwen3") else "llama"
    network = options.pop("network", None) or fakes.causal_model(family)
    return troth.load_model(
        network, tokenizer, prompt=prompt or fakes.PROMPTS[kind], class_words=list(words), **options
    )


def by_hand(model, text, ids=None):
    """The class words' raw logits after the filled prompt, from transformers itself."""
    filled = model.prompt.replace("{text}", text)
    ids = model.tokenizer(filled, return_tensors="pt")["input_ids"] if ids is None else ids
    with torch.no_grad():
        logits = model.model(input_ids=ids).logits[0, -1]
    words = [model.tokenizer(f"{filled} {word}")["input_ids"][-1] for word in model.class_words]
    return logits[words]


def look(question, keep, masking=None):
    return (yield Probe(question, keep, masking))


@pytest.mark.parametrize("family", fakes.CAUSAL)
def test_logits_are_those_of_the_class_words(family):
    model = load(family)
    attributions = troth.explain(model, TEXTS, "leave_one_out")
    for text, attribution in zip(TEXTS, attributions, strict=True):
        expected = by_hand(model, text).softmax(-1)
        torch.testing.assert_close(torch.tensor(attribution.probabilities), expected, rtol=1e-4, atol=1e-5)
    assert model.labels == ("good", "bad", "the")


@pytest.mark.parametrize("family", fakes.CAUSAL)
def test_leave_one_out_against_rows_run_one_by_one(family):
    model = load(family)
    text = "a good film was bad"
    (attribution,) = troth.explain(model, text, "leave_one_out", target=0)
    (encoding,) = model.encode([Example("0", text)])
    whole = by_hand(model, text)[0]
    for unit, score in enumerate(attribution.scores):
        ids = torch.where(encoding.units == unit, model.mask_id, encoding.ids)
        assert score == pytest.approx(float(whole - by_hand(model, text, ids[None])[0]), abs=1e-4)


@pytest.mark.parametrize("family", every(2, fakes.CAUSAL))
@pytest.mark.parametrize(
    "explainer",
    [
        "leave_one_out",
        "integrated_gradients(steps=4)",
        "integrated_gradients(steps=4, moves='all')",
        "sequential_integrated_gradients(steps=3)",
        "gradient_shap(samples=4)",
        "deep_lift(baseline=mask)",
        "lime(samples=30)",
    ],
)
def test_sharing_the_prompt_changes_no_score(family, explainer):
    for masking in ("delete", "mask_token", "zero", "attention"):
        shared, apart = load(family), load(family)
        apart.shares_prefix = False
        one, other = (troth.explain(model, TEXTS, explainer, masking=masking, target=1) for model in (shared, apart))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a.scores, b.scores, atol=1e-4)
            assert a.rest == pytest.approx(b.rest, abs=1e-4)
        if explainer != "leave_one_out":
            break  # what travels is no masking of the user's
    assert shared._prefixes
    assert not apart._prefixes


def compare_with_transformers(network, prompt="is the film good or bad ? the book : {text} it is"):
    model = troth.load_model(network, fakes.sentence_piece(), prompt=prompt, class_words=["good", "bad"])
    text = "a good film"
    (attribution,) = troth.explain(model, text, "leave_one_out", target=0)
    (encoding,) = model.encode([Example("0", text)])
    whole = by_hand(model, text)
    torch.testing.assert_close(torch.tensor(attribution.probabilities), whole.softmax(-1), rtol=1e-4, atol=1e-5)
    for unit, score in enumerate(attribution.scores):
        ids = torch.where(encoding.units == unit, model.mask_id, encoding.ids)
        assert score == pytest.approx(float(whole[0] - by_hand(model, text, ids[None])[0]), abs=1e-4)
    return model


def test_families_whose_attention_we_do_not_know(monkeypatch):
    monkeypatch.setattr("troth.models.families.PLAIN_ATTENTION", ())
    assert compare_with_transformers(fakes.causal_model())._prefixes


def test_families_that_scale_their_logits():
    sizes = dict(fakes.SIZES, vocab_size=len(fakes.sentence_piece()), num_key_value_heads=1)
    torch.manual_seed(0)
    network = AutoModelForCausalLM.from_config(GraniteConfig(**sizes, logits_scaling=3.0)).eval()
    assert not compare_with_transformers(network)._has_plain_head


def test_a_window_that_slides_past_the_prompt():
    model = compare_with_transformers(fakes.causal_model("mistral", sliding_window=6))
    assert not model._prefixes  # what is behind the window must be forgotten, so nothing is lent
    assert compare_with_transformers(fakes.causal_model("mistral", sliding_window=60))._prefixes


def test_half_precision_reads_the_same_words():
    exact, coarse = load("llama"), load("llama", network=fakes.causal_model().to(torch.bfloat16))
    for text in TEXTS:
        (one,), (other,) = (troth.explain(model, text, "leave_one_out", target=0) for model in (exact, coarse))
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=0.05)


def test_the_attention_of_the_model_is_put_back(monkeypatch):
    model = load("gpt2")
    troth.explain(model, TEXTS, "leave_one_out")
    assert model.model.config._attn_implementation == "sdpa"
    monkeypatch.setattr("troth.models._prefix._attend_some", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        troth.explain(model, TEXTS, "leave_one_out")
    assert model.model.config._attn_implementation == "sdpa"


@pytest.mark.full
def test_sharing_the_prompt_and_the_text_is_ten_times_faster():
    """A random Llama of SmolLM2-135M's shape, 400 tokens of prompt, 30 of text, CPU time of one thread."""
    path = Path(__file__).parents[2] / "scripts" / "measure" / "prefix.py"
    spec = importlib.util.spec_from_file_location("prefix", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    found = script.measure(None, repeats=2)
    assert found["prompt_tokens"] >= 400
    assert found["text_tokens"] == 30
    assert found["times_faster"] >= 10
    assert found["largest_difference"] < 1e-4


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_prompt_is_run_once(family):
    model = load(family)
    text = "a good film was bad"
    (encoding,) = model.encode([Example("0", text)])
    assert encoding.prefix_length >= 8
    assert model._has_plain_head  # which is tried once, on its own tokens
    rows = encoding.n_units + 1
    rest = len(encoding.ids) - encoding.prefix_length
    found = tokens_run(model, lambda: troth.explain(model, text, "leave_one_out"))
    assert found == encoding.prefix_length + rows * rest
    assert tokens_run(model, lambda: troth.explain(model, text, "leave_one_out")) == rows * rest  # still known
    with torch.no_grad():
        next(model.model.parameters()).add_(0.1)
    assert tokens_run(model, lambda: troth.explain(model, text, "leave_one_out")) == found  # the weights have changed


def test_a_changed_model_gives_changed_answers():
    network = fakes.causal_model()
    model = load(network=network)
    before = troth.explain(model, TEXTS, "leave_one_out", target=0)
    with torch.no_grad():
        network.model.layers[0].mlp.down_proj.weight.mul_(-1)
    for one, text in zip(troth.explain(model, TEXTS, "leave_one_out", target=0), TEXTS, strict=True):
        torch.testing.assert_close(
            torch.tensor(one.probabilities), by_hand(model, text).softmax(-1), rtol=1e-4, atol=1e-5
        )
    assert before[0].probabilities != one.probabilities


def test_only_the_text_is_in_units():
    model = load("gpt2", "Is it good?\nText: {text}\nLabel:")
    text = "a good film"
    (encoding,) = model.encode([Example("0", text)])
    assert encoding.unit_texts == ("a", "good", "film")
    tokens = np.array(model.tokenizer.convert_ids_to_tokens(encoding.ids.tolist()))
    assert tokens[encoding.units >= 0].tolist() == ["Ġa", "Ġgood", "Ġfilm"]  # the space before the text goes with it
    assert (encoding.units[encoding.units < 0] == PROMPT).all()
    assert tokens[: encoding.prefix_length].tolist()[-2:] == ["t", ":"]
    (by_token,) = model.encode([Example("0", text)], "token")
    assert by_token.unit_texts == ("a", " good", " film")


def test_a_token_over_the_border_belongs_to_the_text():
    model = load("gpt2", "Text: {text}\nLabel:")
    (encoding,) = model.encode([Example("0", "a film.")])
    assert encoding.unit_texts == ("a", "film", ".")
    (place,) = torch.nonzero(encoding.units == 2)[:, 0]
    assert model.tokenizer.convert_ids_to_tokens(int(encoding.ids[place])) == ".Ċ"


@pytest.mark.parametrize("masking", ["delete", "mask_token", "zero", "mix", "attention", "gaussian", "soft"])
def test_a_prompt_is_never_erased(masking, monkeypatch):
    model = load("gpt2")
    seen = []
    monkeypatch.setattr(
        type(model), "forward", lambda self, rows, **_: seen.append(rows) or prompted.Output(torch.zeros(len(rows), 3))
    )
    encodings = model.encode([Example("0", "a good film"), Example("1", "(what?)")])  # prefixes of different lengths
    assert encodings[0].prefix_length != encodings[1].prefix_length
    everything = torch.zeros(1, 3), torch.zeros(1, 4)
    asks = [
        look(Question(one, 0), keep, troth.core.catalog.build("maskings", masking))
        for one, keep in zip(encodings, everything, strict=True)
    ]
    list(Prober(model).run(asks))
    for rows in seen:
        for row, encoding in enumerate(rows.encodings):
            fixed = rows.units[row] == PROMPT
            own = encoding.ids[encoding.units == PROMPT]
            assert rows.ids[row, fixed].tolist() == own.tolist()
            if rows.embeddings is not None:
                torch.testing.assert_close(rows.embeddings[row, fixed], model.embed(own))


def test_deleting_everything_leaves_the_prompt():
    model = load("gpt2")
    (encoding,) = model.encode([Example("0", "a good film")])
    answer = Prober(model).ask(look(Question(encoding, 0), torch.zeros(1, 3), Delete()))
    left = encoding.ids[encoding.units == PROMPT]
    torch.testing.assert_close(answer.logits[0], by_hand(model, "", left[None]), rtol=1e-4, atol=1e-4)
    ending = load("gpt2", "Label the text: {text}")  # nothing behind the text: the last token of the prompt is read
    (encoding,) = ending.encode([Example("0", "a good film")])
    answer = Prober(ending).ask(look(Question(encoding, 0), torch.zeros(1, 3), Delete()))
    expected = by_hand(ending, "x", encoding.ids[None, : encoding.prefix_length])
    torch.testing.assert_close(answer.logits[0], expected, rtol=1e-4, atol=1e-4)


def test_attention_masking_against_a_mask_by_hand():
    """A token that is wholly erased at the very start must not look ahead instead."""
    model = load("gpt2", "{text} is")
    (encoding,) = model.encode([Example("0", "a good film")])
    keep = torch.tensor([[0.0, 1, 0.5]])
    answer = Prober(model).ask(look(Question(encoding, 0), keep, troth.core.catalog.build("maskings", "attention")))
    weights = encoding.per_token(keep)[0]
    bias = weights.log().clamp(min=-1e30).expand(len(weights), -1)
    bias = torch.where(torch.ones_like(bias).tril() > 0, bias, -torch.inf)
    with torch.no_grad():
        logits = model.model(input_ids=encoding.ids[None], attention_mask=bias[None, None]).logits[0, -1]
    torch.testing.assert_close(answer.logits[0], logits[list(model.class_ids)], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("explainer", ["gradient", "input_x_gradient", "attention", "attention_x_gradient"])
def test_what_reads_the_whole_prompt_counts_it_in_rest(explainer):
    model = load("llama")
    (attribution,) = troth.explain(model, "a good film", explainer, target=1)
    assert attribution.rest != 0
    if explainer == "attention":
        assert attribution.scores.sum() + attribution.rest == pytest.approx(1, abs=1e-5)  # all of the last token's


def test_path_scores_sum_to_the_change_and_the_prompt_never_travels():
    model = load("llama")
    (units,) = troth.explain(model, "a good film", "integrated_gradients(steps=300, baseline=mask)", target=1)
    (everything,) = troth.explain(
        model, "a good film", "integrated_gradients(steps=300, baseline=mask, moves='all')", target=1
    )
    np.testing.assert_allclose(units.scores, everything.scores, atol=1e-4)
    assert everything.rest == pytest.approx(0, abs=1e-6)
    assert abs(units.gap) < 0.05


# --- pairs, shots, chat


def test_pairs_stand_where_the_prompt_says():
    model = load("gpt2", "Text: {text}\nAsked: {text_pair}\nLabel:")
    example = Example("0", "a good film", text_pair="was the film bad")
    first, both = (model.encode([example], segments=segments)[0] for segments in ("first", "both"))
    assert first.unit_texts == ("a", "good", "film")
    assert both.unit_texts == ("a", "good", "film", "was", "the", "film", "bad")
    assert both.unit_segments == (0, 0, 0, 1, 1, 1, 1)
    assert (first.units == -1).sum() == ((both.units >= 3).sum())  # the second text is in no unit, but no prompt either
    filled = "Text: a good film\nAsked: was the film bad\nLabel:"
    assert first.ids.tolist() == model.tokenizer(filled)["input_ids"]
    (attribution,) = troth.explain(model, example, "leave_one_out", segments="both")
    assert len(attribution.scores) == 7


def test_a_pair_and_its_place_go_together():
    with pytest.raises(TrothError, match=r"example 0: there is a second text, but the prompt does not contain"):
        load().encode([Example("0", "a", text_pair="b")])
    with pytest.raises(TrothError, match=r"example 7: the prompt contains \{text_pair\}, but there is no second text"):
        load("gpt2", "{text} and {text_pair} is").encode([Example("7", "a")])


SHOTS = [Example("a", "a dull book", label=1), Example("b", "a joy", label="good")]


def test_shots_repeat_the_line_of_the_text():
    model = load("gpt2", "Good or bad?\nText: {text}\nLabel:", shots=SHOTS)
    filled = model.template.fill(Example("0", "so slow")).text
    shown = "Text: a dull book\nLabel: bad\n\nText: a joy\nLabel: good\n\n"
    assert filled == f"Good or bad?\n{shown}Text: so slow\nLabel:"
    (encoding,) = model.encode([Example("0", "so slow")])
    assert encoding.unit_texts == ("so", "slow")
    assert encoding.ids.tolist() == model.tokenizer(filled)["input_ids"]


def test_shots_stand_where_the_prompt_wants_them():
    model = load("gpt2", "So:\n{shots}Now {text} is", shots=[("a joy", "good")])
    assert model.template.fill(Example("0", "slow")).text == "So:\nNow a joy is good\n\nNow slow is"


def test_shots_are_units_on_request():
    model = load("gpt2", "Good or bad?\nText: {text}\nLabel:", shots=SHOTS, explain_shots=True)
    (encoding,) = model.encode([Example("0", "so slow")])
    assert encoding.unit_texts == ("so", "slow", "Text: a dull book\nLabel: bad", "Text: a joy\nLabel: good")
    assert encoding.unit_segments == (0, 0, 2, 3)
    (attribution,) = troth.explain(model, "so slow", "leave_one_out", masking="delete")
    without = "Good or bad?\n\n\nText: a joy\nLabel: good\n\nText: so slow\nLabel:"
    assert (attribution.scores != 0).all()
    stays = encoding.ids[encoding.units != 2]
    assert model.tokenizer.decode(stays) == without
    assert "a dull book" in attribution._repr_html_()


@pytest.mark.parametrize(
    ("shot", "problem"),
    [
        (Example("x", "a joy"), "shot x has no label; its label must be one of good, bad, the or an index"),
        (("a joy", "fine"), "shot 0 has label 'fine'"),
        (3, "shot 0 is a int; give an Example or"),
    ],
)
def test_a_shot_without_a_class(shot, problem):
    with pytest.raises(TrothError, match=problem):
        load(shots=[shot])


CHAT = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] | trim }} </{{ message['role'] }}>\n"
    "{% endfor %}{% if add_generation_prompt %}<assistant>\n{% endif %}"
)


def with_chat():
    tokenizer = fakes.end_of_text()
    tokenizer.chat_template = CHAT
    return tokenizer


def test_a_chat_template_is_used_where_there_is_one():
    tokenizer = with_chat()
    model = load("gpt2", "Is this good: {text} ", tokenizer=tokenizer, words=["g", "b"])
    message = [{"role": "user", "content": "Is this good: a film"}]
    expected = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    (encoding,) = model.encode([Example("0", "a film")])
    assert encoding.ids.tolist() == tokenizer(expected, add_special_tokens=False)["input_ids"]
    assert encoding.unit_texts == ("a", "film")
    assert model.tokenizer.convert_ids_to_tokens(list(model.class_ids)) == ["g", "b"]  # behind "<assistant>\n"
    plain = load("gpt2", "Is this good: {text} ", tokenizer=tokenizer, words=["a", "the"], chat=False)
    assert plain.encode([Example("0", "a film")])[0].ids.tolist() == tokenizer("Is this good: a film ")["input_ids"]


def test_chat_needs_a_chat_template():
    with pytest.raises(TrothError, match="has no chat template; leave chat out"):
        load(chat=True)


# --- class words and masks


def test_a_class_word_is_the_token_that_follows():
    spaced = load("gpt2", "Text: {text} is")
    assert spaced.tokenizer.convert_ids_to_tokens(list(spaced.class_ids)) == ["Ġgood", "Ġbad", "Ġthe"]
    broken = load("gpt2", "Text: {text}\n", words=["g", "b"])
    assert broken.tokenizer.convert_ids_to_tokens(list(broken.class_ids)) == ["g", "b"]
    other = load("gpt2", "Text: {text}\n", words=["good", "b"])  # "good" is four tokens there, " good" is one
    assert other.tokenizer.convert_ids_to_tokens(list(other.class_ids)) == ["Ġgood", "b"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["good"], "class_words must be two or more different words"),
        (["good", "good"], "class_words must be two or more different words"),
        ("good", "class_words must be a list, not 'good'"),
    ],
)
def test_bad_class_words(words, problem):
    with pytest.raises(TrothError, match=problem) as caught:
        troth.load_model(
            fakes.causal_model("gpt2"), fakes.causal_tokenizer("gpt2"), prompt="{text} is", class_words=words
        )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ("Is it good?", r"the prompt 'Is it good\?' does not contain {text}; write it where the text goes"),
        ("{text} or {text}", "the prompt contains {text} 2 times; write it once"),
    ],
)
def test_bad_prompts(prompt, problem):
    with pytest.raises(TrothError, match=problem):
        load("gpt2", prompt)


def test_options_that_need_a_prompt():
    for options in ({"class_words": ["a", "b"]}, {"chat": True}, {"shots": SHOTS}):
        with pytest.raises(TrothError, match=r"is for a.* prompted language model"):
            troth.load_model(fakes.hf_model(), fakes.tokenizer_for("bert"), **options)
    with pytest.raises(TrothError, match="2 class words, but 3 labels"):
        load(words=["good", "bad"], labels=["a", "b", "c"])


def test_braces_in_a_prompt_or_a_text_are_words():
    model = load("gpt2", 'Give {"label": …} for {text} :')
    (encoding,) = model.encode([Example("0", "{text} {0} {")])
    assert model.tokenizer.decode(encoding.ids) == 'Give {"label": …} for {text} {0} { :'


def test_what_erased_words_become_is_said():
    llama, gpt2 = load("llama"), load("gpt2")
    assert llama.mask_id == llama.tokenizer.unk_token_id
    assert gpt2.tokenizer.convert_ids_to_tokens(gpt2.mask_id) == "Ġ_"  # its <unk> is its end token
    for model, words in ((llama, "<unk>"), (gpt2, "' _'")):
        assert model.notes == (f"{model.name} has no mask token: erased words become {words}",)
        with pytest.warns(UserWarning, match=f"has no mask token: erased words become {words}"):
            troth.explain(model, "a good film", "leave_one_out")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # once per model
            troth.explain(model, "a good film", "leave_one_out")
            troth.explain(load("gpt2"), "a good film", "leave_one_out", masking="delete")  # which uses no mask
    assert llama.mask_text is None
    assert gpt2.spec["mask_text"] == " _"
    chosen = load("gpt2", mask_text=" a")
    assert chosen.tokenizer.convert_ids_to_tokens(chosen._mask_id) == "Ġa"
    assert chosen.fingerprint != gpt2.fingerprint
    with pytest.raises(TrothError, match="mask_text ' awful' is not one token"):
        load("gpt2", mask_text=" awful")
    (attribution,) = troth.explain(gpt2, "a good film", "leave_one_out")
    assert "erased words become ' _'" in attribution.note
    assert "erased words become ' _'" in attribution.to_dict()["note"]


def test_a_prompt_is_part_of_the_model():
    one, other = load("gpt2", "Text: {text} is"), load("gpt2", "Words: {text} is")
    assert one.fingerprint != other.fingerprint
    assert one.fingerprint == load("gpt2", "Text: {text} is").fingerprint
    again = load("gpt2", words=one.spec.pop("class_words"), prompt=one.prompt)
    assert again.fingerprint == one.fingerprint
    assert json.loads(json.dumps(one.spec)) == one.spec


# --- long texts


@pytest.mark.parametrize("units", ["token", "word"])
def test_a_long_text_is_cut_inside_the_text(units):
    model = load("gpt2", "Text: {text}\nLabel:", max_length=18)
    text = "a good film was bad. the film was good."
    (encoding,) = model.encode([Example("0", text)], units)
    assert len(encoding.ids) <= 18
    read = model.tokenizer.decode(encoding.ids)
    assert read.startswith("Text: a good film")
    assert read.endswith("\nLabel:")
    (whole,) = load("gpt2", "Text: {text}\nLabel:").encode([Example("0", text)], units)
    assert encoding.truncated == whole.n_units - encoding.n_units > 0
    assert encoding.unit_texts == whole.unit_texts[: encoding.n_units]
    (attribution,) = troth.explain(model, text, "leave_one_out", units=units)
    assert attribution.to_dict()["truncated"] == encoding.truncated


def test_no_room_for_the_text():
    model = load("gpt2", "Text: {text}\nLabel:", max_length=12)
    with pytest.raises(
        TrothError, match="example 0: the prompt takes 13 of 12 tokens, so no room is left for the text"
    ):
        model.encode([Example("0", "a good film")])


def test_an_empty_text_has_no_units():
    (attribution,) = troth.explain(load(), "", "leave_one_out")
    assert attribution.scores.shape == (0,)


# --- how it is shown


def test_the_prompt_is_shown_around_the_text():
    model = load("gpt2", "Text <b>: {text}\nLabel:")
    (attribution,) = troth.explain(model, "a good film", "leave_one_out")
    page = attribution._repr_html_()
    assert '<span class="prompt" style="opacity:.65;white-space:pre-wrap">Text &lt;b&gt;: </span>' in page
    assert page.index("Text &lt;b&gt;") < page.index(">good<") < page.index("Label:")
    shown = troth.report.explanation.text(attribution)
    assert shown.plain == "Text <b>: a good film\nLabel:"
    assert [shown.plain[span.start : span.end] for span in shown.spans if span.style == "bright_black"] == [
        "Text <b>: ",
        "\nLabel:",
    ]


def test_maskings_are_compared_with_the_right_ids():
    """By hand: what is erased is the mask's id at the word's places, a vector of zeros, or nothing at all."""
    model = load("gpt2")
    (encoding,) = model.encode([Example("0", "a good film")])
    keep = torch.tensor([[1.0, 0, 1]])
    prober, question = Prober(model), Question(encoding, 0)
    masked = torch.where(encoding.units == 1, model._mask_id, encoding.ids)
    deleted = encoding.ids[encoding.units != 1]
    for masking, ids in ((MaskToken(), masked), (Delete(), deleted)):
        found = prober.ask(look(question, keep, masking)).logits[0]
        torch.testing.assert_close(found, by_hand(model, "x", ids[None]), rtol=1e-4, atol=1e-4)
    vectors = model.embed(encoding.ids) * (encoding.units != 1)[:, None]
    with torch.no_grad():
        expected = model.model(inputs_embeds=vectors[None]).logits[0, -1, list(model.class_ids)]
    found = prober.ask(look(question, keep, Zero())).logits[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
