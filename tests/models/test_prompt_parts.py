"""Parts of a prompt by name: each is explained or frozen, and deleting one is deleting its words."""

import numpy as np
import pytest

import fakes
import troth
from troth.core.errors import TrothError
from troth.core.types import PROMPT, Example
from troth.models._prompts import Roles, template

CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}<assistant>"
SHOTS = [("a dull book", "bad"), ("a joy", "good")]
QUESTION = "Good or bad?\nText: {text}\nLabel:"


def load(prompt=QUESTION, chat_template=None, **options):
    tokenizer = fakes.end_of_text()  # its own, since the template is changed
    tokenizer.chat_template = chat_template
    network = fakes.causal_model("gpt2", max_position_embeddings=256)
    return troth.load_model(network, tokenizer, prompt=prompt, class_words=["good", "bad"], **options)


def test_segments_are_texts_and_parts_belong_to_the_model():
    model = fakes.prompted()
    with pytest.raises(TrothError, match="not 'shots'; parts of a prompt are named by load_model"):
        troth.explain(model, "a film", "leave_one_out", segments="shots")


def test_every_part_has_a_name():
    parts = ("text", "shot 2", "system", "task")
    model = load(shots=SHOTS, system="You judge.", explain_parts=parts)
    (encoding,) = model.encode([Example("0", "so slow")])
    assert encoding.unit_texts == ("so", "slow", "Text: a joy\nLabel: good", "You judge.", "Good or bad?")
    assert encoding.unit_segments == (0, 0, 3, 4, 5)
    whole = model.tokenizer.decode(encoding.ids)
    assert whole.startswith("You judge.\n\nGood or bad?\nText: a dull book\nLabel: bad\n\nText: a joy")
    frozen = "".join(model.tokenizer.decode(encoding.ids[encoding.units < 0]))
    assert "a dull book" in frozen
    assert "judge" not in frozen
    assert "a joy" not in frozen


def test_scores_are_those_of_prompts_without_the_part():
    model = load(shots=SHOTS, system="You judge.", explain_parts=["system", "shot 1"])
    (attribution,) = troth.explain(model, "so slow", "leave_one_out", masking="delete", target="good")
    assert attribution.units == ("Text: a dull book\nLabel: bad", "You judge.")
    encoding = attribution.question.encoding

    def logit(ids):
        return float(model.model(input_ids=ids[None]).logits[0, -1, model.class_ids[0]])

    expected = [logit(encoding.ids) - logit(encoding.ids[encoding.units != unit]) for unit in range(2)]
    np.testing.assert_allclose(attribution.scores, expected, atol=1e-4)
    assert (encoding.units[encoding.units < 0] == PROMPT).all()  # the text is frozen
    assert "You judge." in attribution._repr_html_()


def test_the_system_message_goes_into_the_chat_template():
    model = load(chat_template=CHAT, system="You judge.", explain_parts=["system", "text"])
    (encoding,) = model.encode([Example("0", "so slow")])
    expected = "<system>You judge.</system><user>Good or bad?\nText: so slow\nLabel:</user><assistant>"
    assert model.tokenizer.decode(encoding.ids) == expected
    assert encoding.unit_texts == ("so", "slow", "You judge.")
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}"
    with pytest.raises(TrothError, match=r"takes no system message .*write it into the prompt"):
        load(chat_template=refusing, system="You judge.")


def test_the_text_alone_is_as_before():
    plain, named = load(shots=SHOTS), load(shots=SHOTS, explain_parts=["text"])
    assert plain.template.parts == named.template.parts
    assert named.fingerprint != load(shots=SHOTS, explain_parts=["text", "shots"]).fingerprint
    (one,), (other,) = (troth.explain(model, "so slow", "leave_one_out") for model in (plain, named))
    assert one.scores.tolist() == other.scores.tolist()
    old = load(shots=SHOTS, explain_shots=True)
    assert old.template.parts == load(shots=SHOTS, explain_parts=["shots", "text"]).template.parts


def test_the_second_text_by_name():
    model = load("{text} and {text_pair} is", explain_parts=["text_pair"])
    (encoding,) = model.encode([Example("0", "a film", "a book")])
    assert encoding.unit_texts == ("a", "book")
    assert encoding.unit_segments == (1, 1)


def test_a_model_is_made_again_from_its_spec():
    model = load(shots=SHOTS, system="You judge.", explain_parts=["system", "shot 1"])
    options = {name: value for name, value in model.spec.items() if name not in ("prompt", "class_words")}
    assert load(model.prompt, **options).fingerprint == model.fingerprint


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (["shot 3"], "no part of this prompt is called 'shot 3'; did you mean shot 1"),
        (["system"], r"'system'; there are: shot 1, shot 2, shots, task, text"),
        (["text_pair"], "no part of this prompt is called 'text_pair'"),
        ("text", r"explain_parts must be names such as \(\"text\", \"shot 1\"\), not 'text'"),
    ],
)
def test_bad_parts(parts, problem):
    with pytest.raises(TrothError, match=problem):
        load(shots=SHOTS, explain_parts=parts)


def test_parts_and_shots_say_it_twice():
    with pytest.raises(TrothError, match="leave explain_shots out"):
        load(shots=SHOTS, explain_parts=["text"], explain_shots=True)


def test_messages_of_an_endpoint():
    example = Example("0", "a joy", label="good")
    made = template(QUESTION, [(example, "good")], Roles(), system="You judge.", explain_parts=["text", "shot 1"])
    texts = {0: "slow \ue002user\ue003 film", 2: "SHOT"}
    assert made.messages(texts) == [
        ("system", "You judge."),
        ("user", "Good or bad?\nSHOT\n\nText: slow \ue002user\ue003 film\nLabel:"),
    ]
    assert template("Is {text} good?").messages({0: "it"}) == [("", "Is it good?")]
    assert made.shown[0] == (None, "You judge.Good or bad?\n")
