"""Every masking on every kind of model: only units are touched, keeping all is no change, company changes nothing."""

import pytest
import torch

import fakes
from kinds import KIND_CASES, model_of, readable, refusals
from troth.core import catalog
from troth.core.types import Example, Question
from troth.engine.prober import Prober
from troth.engine.probes import Probe

MASKINGS = catalog.names("maskings")
EXAMPLES = [
    Example("pair", "the soup was cold", text_pair="is the film good ?"),
    Example("single", "my new phone is fast , bright and a joy to use"),
]


def masking_of(kind, name):
    if name == "infill":  # with a masked language model that has the tokens of the classifier
        family = kind if kind in fakes.FAMILIES else "roberta" if kind == "llama_head" else "bert"
        return catalog.build("maskings", f"infill(model={fakes.masked_lm(family)!r}, draws=2, rounds=2)")
    return catalog.build("maskings", name)


def ask(prober, question, keep, masking):
    def look():
        return (yield Probe(question, keep, masking, purpose="test"))

    return prober.ask(look()).logits


@pytest.mark.parametrize("kind", KIND_CASES)
@pytest.mark.parametrize("name", MASKINGS)
def test_masking(kind, name):
    model, masking = model_of(kind), masking_of(kind, name)
    encodings = model.encode(readable(kind, EXAMPLES))
    together = Prober(model)

    def looks(encoding):
        question = Question(encoding, target=0)
        keep = torch.stack(
            [torch.arange(question.n_units) % 2, torch.ones(question.n_units), torch.zeros(question.n_units)]
        )
        return (yield Probe(question, keep.float(), masking, purpose="test")).logits

    with refusals("maskings", kind, name):
        answers = list(together.run(looks(encoding) for encoding in encodings))
    for encoding, answer in zip(encodings, answers, strict=True):
        alone = Prober(model, memory=1).ask(looks(encoding))
        torch.testing.assert_close(answer, alone, rtol=1e-4, atol=1e-4)
        plain = ask(Prober(model), Question(encoding, target=0), torch.ones(1, encoding.n_units), None)
        torch.testing.assert_close(answer[1:2], plain, rtol=1e-4, atol=1e-4)
        assert not torch.allclose(answer[2], answer[1], atol=1e-5), "erasing everything changed nothing"


@pytest.mark.parametrize("name", MASKINGS)
@pytest.mark.parametrize("family", fakes.FAMILIES)
def test_tokens_in_no_unit_are_untouched(family, name, monkeypatch):
    model, masking = fakes.encoder(family), masking_of(family, name)
    (encoding,) = model.encode(EXAMPLES[:1])
    seen = []
    original = type(model).forward
    monkeypatch.setattr(
        type(model), "forward", lambda self, rows, **options: seen.append(rows) or original(self, rows, **options)
    )
    with refusals("maskings", family, name):
        ask(Prober(model), Question(encoding, target=0), torch.zeros(1, encoding.n_units), masking)
    rows = seen[-1]
    fixed = rows.units[0] < 0
    assert rows.ids[0, fixed].tolist() == encoding.ids[encoding.units < 0].tolist()
    if rows.embeddings is not None:
        torch.testing.assert_close(rows.embeddings[0, fixed], model.embed(encoding.ids[encoding.units < 0]))
    if rows.attention is not None:
        assert (rows.attention[0, fixed] == 0).all()
