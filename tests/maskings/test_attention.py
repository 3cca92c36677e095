import copy

import pytest
import torch
from transformers import AttentionInterface

from fakes import encoder, hf_model, planted, tokenizer_for
from troth.core.errors import TrothError
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.maskings.attention import Attention
from troth.models.black_box import BlackBox
from troth.models.encoder import Encoder

FAMILIES = ("bert", "roberta", "xlm_roberta", "distilbert", "albert", "electra", "modernbert")
TEXTS = ["a good film with a great cast", "the soup was cold , the service awful"]
WEIGHTS: dict[str, torch.Tensor] = {}  # what the reference below multiplies attention by, [rows, length]


def faded_attention(module, query, key, value, attention_mask, scaling=None, **options):
    """Softmax attention written by hand: every key's share times its weight, then normalized over the keys."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    shares = (query @ key.transpose(-1, -2) * scaling).exp() * WEIGHTS["now"][:, None, None, :].to(query.dtype)
    if attention_mask is not None:
        shares = shares * (attention_mask == 0).to(query.dtype)
    shares = shares / shares.sum(-1, keepdim=True)
    return (shares @ value).transpose(1, 2).contiguous(), shares


AttentionInterface.register("faded_by_hand", faded_attention)


def both(family, implementation, classes=3):
    model = hf_model(family, classes)
    model.set_attn_implementation(implementation)
    return Encoder(model, tokenizer_for(family), name=f"tiny {family}")


def ask(model, encoding, keep, masking=None):
    question = Question(encoding, target=0)

    def looking():
        return (yield Probe(question, keep, masking or Attention()))

    return Prober(model).ask(looking()).logits


def weights_of(encoding, keep):
    return encoding.per_token(keep)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_attention_is_multiplied_by_what_is_kept_in_every_layer(family, implementation):
    model = both(family, implementation)
    reference = copy.deepcopy(model.model)
    for encoding in model.encode([Example(id="a", text=TEXTS[0]), Example(id="b", text=TEXTS[1])]):
        keep = torch.rand(3, encoding.n_units, generator=torch.Generator().manual_seed(1))
        keep[0, 1], keep[1] = 0.0, 1.0
        WEIGHTS["now"] = weights_of(encoding, keep)
        inputs = {"input_ids": encoding.ids.expand(3, -1)}
        if encoding.token_types is not None:
            inputs["token_type_ids"] = encoding.token_types.expand(3, -1)
        if family == "modernbert":
            # Its local layers must still see their window only; the reference gets it as a mask of zeros and others.
            expected = modern_by_hand(reference, inputs)
        else:
            reference.set_attn_implementation("eager")
            reference.config._attn_implementation = "faded_by_hand"
            expected = reference(**inputs).logits
        found = ask(model, encoding, keep)
        torch.testing.assert_close(found, expected.detach(), atol=1e-5, rtol=1e-5)
        assert (found[0] - found[1]).abs().max() > 1e-4  # it really changes what the model says


def modern_by_hand(reference, inputs):
    length = inputs["input_ids"].shape[1]
    steps = torch.arange(length)
    near = (steps[:, None] - steps).abs() <= reference.config.sliding_window
    window = torch.where(near, 0.0, -1.0).expand(3, 1, -1, -1)
    reference.config._attn_implementation = "faded_by_hand"
    masks = {"full_attention": torch.zeros(3, 1, length, length), "sliding_attention": window}
    return reference(**inputs, attention_mask=masks).logits


def test_the_window_of_modernbert_matters_in_that_test():
    model = both("modernbert", "eager")
    (encoding,) = model.encode([Example(id="a", text=TEXTS[0])])
    assert len(encoding.ids) > model.model.config.sliding_window + 2


@pytest.mark.parametrize("family", FAMILIES)
def test_at_zero_it_is_what_transformers_does_to_padding(family):
    model = encoder(family)
    (encoding,) = model.encode([Example(id="a", text=TEXTS[0])])
    keep = torch.ones(1, encoding.n_units)
    keep[0, [1, 3]] = 0
    inputs = {"input_ids": encoding.ids[None], "attention_mask": weights_of(encoding, keep).long()}
    if encoding.token_types is not None:
        inputs["token_type_ids"] = encoding.token_types[None]
    expected = model.model(**inputs).logits.detach()
    torch.testing.assert_close(ask(model, encoding, keep), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_company_and_padding_change_nothing(family):
    model = encoder(family)
    encodings = model.encode([Example(id=str(index), text=text) for index, text in enumerate([*TEXTS, "good"])])
    keeps = [torch.linspace(0, 1, encoding.n_units)[None] for encoding in encodings]

    def looking(encoding, keep):
        return (yield Probe(Question(encoding, target=0), keep, Attention()))

    together = list(Prober(model).run(looking(*pair) for pair in zip(encodings, keeps, strict=True)))
    for encoding, keep, answer in zip(encodings, keeps, together, strict=True):
        torch.testing.assert_close(answer.logits, ask(model, encoding, keep), atol=1e-5, rtol=1e-5)


def test_tokens_in_no_unit_keep_their_attention():
    model = encoder("bert")
    (encoding,) = model.encode([Example(id="a", text="good film", text_pair="the plot was dull")])
    nothing = ask(model, encoding, torch.zeros(1, 2))
    mask = (encoding.units < 0).long()[None]
    inputs = {"input_ids": encoding.ids[None], "token_type_ids": encoding.token_types[None], "attention_mask": mask}
    torch.testing.assert_close(nothing, model.model(**inputs).logits.detach(), atol=1e-5, rtol=1e-5)


def test_half_precision_survives_an_erased_token():
    model = Encoder(hf_model("bert").bfloat16(), tokenizer_for("bert"), name="half")
    (encoding,) = model.encode([Example(id="a", text=TEXTS[0])])
    assert torch.isfinite(ask(model, encoding, torch.zeros(1, encoding.n_units))).all()


def test_models_without_such_a_mask_refuse_by_name():
    model = encoder("deberta_v2")
    (encoding,) = model.encode([Example(id="a", text=TEXTS[0])])
    with pytest.raises(
        TrothError, match=r"tiny deberta_v2 \(deberta-v2.*takes no additive attention mask; use masking"
    ):
        ask(model, encoding, torch.zeros(1, encoding.n_units))
    averaging = Encoder(
        hf_model("modernbert", classifier_pooling="mean"), tokenizer_for("modernbert"), name="averaging"
    )
    (encoding,) = averaging.encode([Example(id="a", text=TEXTS[0])])
    with pytest.raises(TrothError, match=r"averaging .*mean pooling"):
        ask(averaging, encoding, torch.zeros(1, encoding.n_units))
    box = BlackBox(planted(), name="rule")
    (encoding,) = box.encode([Example(id="a", text=TEXTS[0])])
    with pytest.raises(TrothError, match="rule has no attention to mask"):
        ask(box, encoding, torch.zeros(1, encoding.n_units))
