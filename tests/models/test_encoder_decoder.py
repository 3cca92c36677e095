"""Encoder-decoders: the log-probability of what the decoder wrote, against loops over plain transformers."""

import numpy as np
import pytest
import torch

import fakes
import heads
import troth
from troth.core.errors import TrothError
from troth.models.continuation import WHOLE
from troth.models.encoder_decoder import EncoderDecoder

TEXT = "the soup was cold"
WRITTEN = "a bad book"
TOKENIZER = fakes.tokenizer_for("bert")
FAMILIES = ("bart", "t5")


def before(family):
    """What the decoder reads before the continuation: its start, and the begin token that the tokenizer writes."""
    return [heads.seq2seq_network(family).config.decoder_start_token_id, TOKENIZER.cls_token_id]


@torch.no_grad()
def said(family, ids, written=WRITTEN):
    """The log-probability of each token of the continuation."""
    labels = TOKENIZER(written, add_special_tokens=False)["input_ids"]
    first = before(family)
    read = torch.tensor([first + labels[:-1]])
    logits = heads.seq2seq_network(family)(input_ids=torch.tensor([ids]), decoder_input_ids=read).logits[0]
    probabilities = logits.log_softmax(-1)
    return [float(probabilities[len(first) - 1 + place, token]) for place, token in enumerate(labels)]


def without(spans, masked=TOKENIZER.mask_token_id):
    batch = TOKENIZER(TEXT, return_offsets_mapping=True)
    for start, end in spans:
        yield [
            masked if begin >= start and stop <= end and stop > begin else number
            for number, (begin, stop) in zip(batch["input_ids"], batch["offset_mapping"], strict=True)
        ]


@pytest.mark.parametrize("family", FAMILIES)
def test_leave_one_out_of_the_whole_and_of_each_token(family):
    model = heads.seq2seq(family)
    assert type(model) is EncoderDecoder
    every = troth.explain(model, TEXT, "leave_one_out", target=["predicted", 1, 2, 3])
    whole = np.array(said(family, TOKENIZER(TEXT)["input_ids"]))
    falls = np.array([whole - said(family, ids) for ids in without(every[0].spans)])  # [words, tokens]
    assert every[0].labels == (WHOLE, "a", " bad", " book")
    np.testing.assert_allclose(every[0].probabilities, [whole.sum(), *whole], rtol=1e-5)
    np.testing.assert_allclose(every[0].scores, falls.sum(1), atol=2e-5)
    for number, found in enumerate(every[1:]):
        np.testing.assert_allclose(found.scores, falls[:, number], atol=2e-5)
    assert every[0].units == ("the", "soup", "was", "cold")  # none of the decoder's


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_of_the_whole(family):
    model, network = heads.seq2seq(family), heads.seq2seq_network(family)
    (found,) = troth.explain(model, TEXT, "input_x_gradient")
    ids = torch.tensor([TOKENIZER(TEXT)["input_ids"]])
    labels = TOKENIZER(WRITTEN, add_special_tokens=False)["input_ids"]
    vectors = network.get_input_embeddings()(ids).detach().requires_grad_()
    read = torch.tensor([before(family) + labels[:-1]])
    logits = network(inputs_embeds=vectors, decoder_input_ids=read).logits[0, 1:].log_softmax(-1)
    logits.gather(-1, torch.tensor(labels)[:, None]).sum().backward()
    np.testing.assert_allclose(found.scores, (vectors.grad * vectors).sum(-1)[0, 1:-1].detach(), rtol=1e-4, atol=1e-5)


def test_it_explains_what_it_writes_itself():
    network = heads.seq2seq_network("bart")
    model = troth.load_model(network, tokenizer=TOKENIZER, generate=3)
    ids = TOKENIZER(TEXT)["input_ids"]
    read = before("bart")
    for _ in range(3):
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([read])).logits
        read.append(int(logits[0, -1].argmax()))
    both = troth.explain(model, [TEXT, "a good film with a great cast"], "leave_one_out")
    assert [token for token, _ in both[0].question.encoding.written] == read[2:]
    (given,) = troth.explain(
        troth.load_model(network, tokenizer=TOKENIZER, continuation=TOKENIZER.decode(read[2:])), TEXT, "leave_one_out"
    )
    if [token for token, _ in given.question.encoding.written] == read[2:]:
        np.testing.assert_allclose(given.scores, both[0].scores, atol=1e-5)


def test_every_token_as_a_matrix_and_its_proof():
    model = heads.seq2seq("bart")
    (matrix,) = troth.explain(model, TEXT, "leave_one_out", target="each").matrices()
    assert matrix.targets == ("a", " bad", " book")
    (proved,) = troth.prove(model, troth.explain(model, TEXT, "leave_one_out"))
    assert proved.proof.probability == pytest.approx(sum(said("bart", TOKENIZER(TEXT)["input_ids"])), rel=1e-5)


def test_folders_pipelines_and_spec(tmp_path):
    network = heads.seq2seq_network("bart")
    network.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    folder = troth.load_model(tmp_path, continuation=WRITTEN)
    assert type(folder) is EncoderDecoder
    assert folder.fingerprint == heads.seq2seq("bart").fingerprint
    assert troth.load_model(tmp_path, **folder.spec).fingerprint == folder.fingerprint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"continuation": "a", "generate": 2}, "pass either a continuation, or generate=40"),
        ({"continuation": " "}, "the continuation must be a text"),
        ({"continuation": "a", "prompt": "{text}"}, "prompt is for"),
        ({"continuation": "a", "labels": ["a", "b"]}, "labels are names of classes, and a continuation has no classes"),
        ({"generate": 80}, "the continuation takes 80 of the decoder's 64 tokens"),
    ],
)
def test_errors(options, said):
    with pytest.raises(TrothError, match=said):
        troth.load_model(heads.seq2seq_network("bart"), tokenizer=TOKENIZER, **options)


def test_what_it_cannot_give_is_refused():
    model = heads.seq2seq("bart")
    with pytest.raises(TrothError, match="its answer has several tokens"):
        troth.explain(model, TEXT, "attention")
    with pytest.raises(TrothError, match="use masking zero, soft or delete"):
        troth.explain(model, TEXT, "leave_one_out", masking="attention")
    with pytest.raises(TrothError, match="windows need a model"):
        troth.load_model(model, windows=True)
