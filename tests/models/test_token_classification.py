"""Token classifiers: the label of one word is explained, against loops over plain transformers."""

import json

import numpy as np
import pytest
import torch
from transformers import pipeline
from typer.testing import CliRunner

import fakes
import heads
import troth
from troth.cli import app
from troth.core.errors import TrothError
from troth.models.token_classification import TokenClassification

TEXT = "a good film with unlovable cast , a good film"
TOKENIZER = fakes.tokenizer_for("bert")


def model(labels=heads.LABELS):
    return heads.token_classifier(labels)


def tokens(text=TEXT):
    batch = TOKENIZER(text, return_offsets_mapping=True)
    return batch["input_ids"], batch["offset_mapping"]


def place_of(start, text=TEXT):
    """The first token that covers a character."""
    return next(place for place, (begin, end) in enumerate(tokens(text)[1]) if begin <= start < end)


@torch.no_grad()
def logits(ids):
    return model().model(input_ids=torch.tensor([ids])).logits[0]


def without_each(word, place, column, text=TEXT):
    """Leave-one-out by hand: the fall of the logit at a place with each word masked."""
    ids, offsets = tokens(text)
    whole, falls = logits(ids)[place, column], []
    for start, end in word:
        masked = [
            TOKENIZER.mask_token_id if begin >= start and stop <= end and stop > begin else number
            for number, (begin, stop) in zip(ids, offsets, strict=True)
        ]
        falls.append(float(whole - logits(masked)[place, column]))
    return falls


@pytest.mark.parametrize("word", [{"word": "unlovable"}, {"word": "good"}, {"word": "good", "start": 36}])
@pytest.mark.parametrize("units", ["word", "token", "sentence"])
def test_leave_one_out_is_the_fall_of_the_label_at_the_first_piece(word, units):
    (found,) = troth.explain(model(), TEXT, "leave_one_out", target={**word, "label": "B-LOC"}, units=units)
    place = place_of(word.get("start", TEXT.index(word["word"])))
    assert found.label(found.target) == "B-LOC"
    np.testing.assert_allclose(found.scores, without_each(found.spans, place, found.target), atol=1e-5)
    np.testing.assert_allclose(found.probabilities, logits(tokens()[0])[place].softmax(-1), atol=1e-6)


def test_gradients_are_those_of_the_label_at_its_place():
    (found,) = troth.explain(
        model(), TEXT, "input_x_gradient", target={"word": "film", "label": "I-ORG"}, units="token"
    )
    network, (ids, _) = model().model, tokens()
    vectors = network.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_()
    network(inputs_embeds=vectors).logits[0, place_of(7), heads.LABELS.index("I-ORG")].backward()
    expected = (vectors.grad * vectors).sum(-1)[0, 1:-1].detach()
    np.testing.assert_allclose(found.scores, expected, rtol=1e-4, atol=1e-5)


def test_a_deleted_word_leaves_a_mask_token_where_its_label_is_read():
    (found,) = troth.explain(
        model(), TEXT, "leave_one_out", target={"word": "unlovable", "label": "B-PER"}, masking="delete"
    )
    ids, offsets = tokens()
    place = place_of(17)
    whole = logits(ids)[place, found.target]
    expected = []
    for start, end in found.spans:
        kept = [
            (number, here == place)
            for here, (number, (begin, stop)) in enumerate(zip(ids, offsets, strict=True))
            if not (begin >= start and stop <= end and stop > begin) or here == place
        ]
        rest = [TOKENIZER.mask_token_id if asked and start == 17 else number for number, asked in kept]
        expected.append(float(whole - logits(rest)[[asked for _, asked in kept].index(True), found.target]))
    np.testing.assert_allclose(found.scores, expected, atol=1e-5)
    assert found.units[4] == "unlovable"


def test_without_a_target_the_surest_entity_is_explained():
    (found,) = troth.explain(model(), TEXT, "leave_one_out")
    probabilities = logits(tokens()[0]).softmax(-1)
    firsts = [place_of(start) for start, _ in found.spans]
    surest = max(firsts, key=lambda place: float(probabilities[place, 1:].max()))
    start = found.spans[firsts.index(surest)][0]
    assert found.question.encoding.asked == (surest, found.spans[firsts.index(surest)])
    assert f"at character {start}" in found.note
    assert found.target == int(probabilities[surest].argmax())


def test_a_label_without_its_prefix_is_the_most_probable_of_its_scheme():
    says = logits(tokens()[0])
    for word, start in (("good", 2), ("cast", 27), ("unlovable", 17), ("with", 12)):
        (found,) = troth.explain(model(), TEXT, "random", target={"word": word, "label": "PER"})
        both = [heads.LABELS.index(label) for label in ("B-PER", "I-PER")]
        assert found.target == max(both, key=lambda label: float(says[place_of(start), label]))
        (found,) = troth.explain(model(), TEXT, "random", target={"word": word, "label": "ORG"})
        assert found.label(found.target) == "I-ORG"  # the only one
        (found,) = troth.explain(model(), TEXT, "random", target={"word": word})
        assert found.target == int(says[place_of(start)].argmax())
    plain = model(("O", "LOC", "B-LOC"))
    assert troth.explain(plain, TEXT, "random", target={"word": "film", "label": "LOC"})[0].target == 1


def test_words_in_a_row_are_read_at_their_first():
    (both,) = troth.explain(model(), TEXT, "leave_one_out", target={"word": "unlovable cast", "label": "PER"})
    (one,) = troth.explain(model(), TEXT, "leave_one_out", target={"word": "unlovable", "label": "PER"})
    np.testing.assert_array_equal(both.scores, one.scores)
    assert both.question.encoding.asked[1] == (17, 31)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"word": "London"}, "example 0 has no word 'London'; its words are a, good, film, with, unlovable, cast, ','"),
        ({"word": "ood"}, "example 0 has no word 'ood'"),
        ({"word": "good", "start": 3}, "example 0 has no 'good' at character 3; it occurs at 2, 36"),
        ({"word": "good", "label": "MISC"}, "no label is called 'MISC'; there are: O, B-PER, I-PER, B-LOC"),
        ({"word": "good", "tag": "LOC"}, "no part of a target is called 'tag'"),
        ({"label": "LOC"}, 'a target must name its word: {"word": "London", "label": "LOC"}, not'),
        ({"word": "good", "label": 3}, "label must be the name of a label, not 3"),
        ("MISC", "no class is called 'MISC'"),
        ('{"word": ', "is not JSON"),
    ],
)
def test_errors(target, said):
    with pytest.raises(TrothError) as raised:
        troth.explain(model(), TEXT, "leave_one_out", target=target)
    assert said.replace("','", ",") in str(raised.value)


def test_a_word_is_refused_where_it_means_nothing():
    with pytest.raises(TrothError, match="a target that names a word needs a token classifier"):
        troth.explain(fakes.encoder(), TEXT, "random", target={"word": "good"})
    with pytest.raises(TrothError, match="glob_enc reads what reaches the first token"):
        troth.explain(model(), TEXT, "glob_enc")
    with pytest.raises(TrothError, match="windows need a model that classifies whole texts"):
        troth.load_model(model(), windows=True)
    short = troth.load_model(heads.token_network(), tokenizer=TOKENIZER, max_length=6)
    with pytest.raises(TrothError, match="'cast' comes after the 6 tokens that were read"):
        troth.explain(short, TEXT, "random", target={"word": "cast"})


def test_words_of_one_text_are_proved_and_kept_apart():
    targets = [{"word": "good"}, {"word": "good", "start": 36}, json.dumps({"word": "film", "label": "LOC"})]
    proved = troth.prove(model(), troth.explain(model(), TEXT, "leave_one_out", target=targets))
    for one, target in zip(proved, targets, strict=True):
        (alone,) = troth.prove(model(), troth.explain(model(), TEXT, "leave_one_out", target=target))
        assert one.proof.without_top == pytest.approx(alone.proof.without_top, abs=1e-6)
        again = troth.Attribution.from_dict(json.loads(json.dumps(one.to_dict())), model())
        assert again.question.encoding.asked == one.question.encoding.asked
        (before,), (after,) = (troth.measure(model(), [each], "comprehensiveness") for each in (one, again))
        assert before.value == pytest.approx(after.value, abs=1e-6)
    own = troth.Attribution.from_scores(model(), TEXT, [0.0] * 10, target=targets[1])
    assert own.question.encoding.asked[1] == (36, 40)


def test_folders_pipelines_and_the_command_line(tmp_path):
    network = heads.token_network()
    network.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    folder = troth.load_model(tmp_path)
    piped = troth.load_model(pipeline("token-classification", model=network, tokenizer=TOKENIZER))
    assert type(folder) is type(piped) is TokenClassification
    assert folder.fingerprint == piped.fingerprint == model().fingerprint
    target = '{"word": "good", "start": 36, "label": "LOC"}'
    asked = ["-m", str(tmp_path), "-e", "leave_one_out", "--target", target, "--json"]
    (facts,) = json.loads(CliRunner().invoke(app, ["explain", TEXT, *asked]).stdout)
    (found,) = troth.explain(model(), TEXT, "leave_one_out", target=json.loads(target))
    assert (facts["word"], facts["target"]) == ([36, 40], found.target)
    np.testing.assert_allclose(facts["scores"], found.scores, atol=1e-6)
