import pytest
import torch

from fakes import encoder, planted
from troth.core import draws
from troth.core.errors import TrothError
from troth.core.types import Example, Question, Rows
from troth.engine.prober import Prober
from troth.engine.probes import Probe
from troth.maskings.gaussian import Gaussian
from troth.models.black_box import BlackBox

MODEL = encoder("bert")


def rows_of(text, copies, key=7, width=None):
    (encoding,) = MODEL.encode([Example(id="a", text=text)])
    length = len(encoding.ids)
    wide = torch.full((copies, width or length), MODEL.filler_id)
    wide[:, :length] = encoding.ids
    units = torch.full_like(wide, -1)
    units[:, :length] = encoding.units
    return Rows(
        encodings=[encoding] * copies,
        ids=wide,
        units=units,
        lengths=torch.full((copies,), length),
        target=torch.zeros(copies, dtype=torch.long),
        against=torch.full((copies,), -1),
        keys=draws.row_keys(key, torch.arange(copies)),
    )


def factors(masking, keep, rows):
    """What each element was multiplied by: [rows, length, hidden]"""
    return (masking.erase(rows, keep, MODEL).embeddings / MODEL.embed(rows.ids)).detach()


@pytest.mark.parametrize(
    ("form", "kept", "spread"),
    # γ·λ with γ ~ N(0, 0.25): 0.5 · 0.64; γ ~ N(0, 0.25 · 0.64): 0.5 · 0.8
    [("product", 0.36, 0.32), ("variance", 0.36, 0.4), ("product", 0.0, 0.5), ("variance", 0.0, 0.5)],
)
def test_the_noise_has_the_spread_of_its_equation(form, kept, spread):
    rows = rows_of("a good film with a great cast", 400)
    found = factors(Gaussian(variance=0.25, form=form), torch.full(rows.ids.shape, kept), rows)
    assert found.mean().item() == pytest.approx(1.0, abs=0.01)
    assert found.std().item() == pytest.approx(spread, rel=0.01)
    excess = (((found - 1) / spread) ** 4).mean().item()
    assert excess == pytest.approx(3.0, abs=0.15)  # a normal distribution's


def test_what_is_kept_whole_is_not_touched_and_the_rest_by_how_little_is_kept():
    rows = rows_of("a good film", 200)
    keep = torch.tensor([1.0, 0.9, 0.5, 0.0, 1.0]).expand(200, -1)
    found = factors(Gaussian(), keep, rows)
    assert (found[:, [0, 4]] == 1).all()
    assert torch.allclose(found[:, [1, 2, 3]].std((0, 2)), torch.tensor([0.1, 0.5, 1.0]), rtol=0.05)


def test_a_wider_batch_draws_the_same_noise():
    keep = torch.full((2, 5), 0.5)
    narrow = factors(Gaussian(), keep, rows_of("a good film", 2))
    wide = factors(Gaussian(), torch.full((2, 9), 0.5), rows_of("a good film", 2, width=9))
    assert torch.equal(narrow, wide[:, :5])
    assert not torch.equal(narrow[0], narrow[1])


def test_normals_do_not_depend_on_how_many_are_drawn():
    keys = torch.tensor([3, 4])
    assert torch.equal(draws.normals(keys, 10), draws.normals(keys, 25)[:, :10])


def test_alone_and_in_company_the_model_says_the_same():
    texts = ["a good film with a great cast", "dull", "the soup was cold , the service awful"]
    encodings = MODEL.encode([Example(id=str(index), text=text) for index, text in enumerate(texts)])

    def looking(encoding):
        keep = torch.linspace(0, 1, encoding.n_units).expand(3, -1)
        return (yield Probe(Question(encoding, target=0), keep, Gaussian(variance=0.5)))

    together = list(Prober(MODEL).run(map(looking, encodings)))
    for encoding, answer in zip(encodings, together, strict=True):
        alone = Prober(MODEL, memory=1).ask(looking(encoding))
        torch.testing.assert_close(alone.logits, answer.logits, atol=1e-5, rtol=1e-5)
        assert len(answer.logits.unique(dim=0)) == 3  # each row has its own noise


def test_errors_a_user_can_mend():
    with pytest.raises(TrothError, match="variance must be above 0, not -1"):
        Gaussian(variance=-1)
    box = BlackBox(planted(), name="rule")
    (encoding,) = box.encode([Example(id="a", text="a good film")])

    def looking():
        return (yield Probe(Question(encoding, target=0), torch.zeros(1, 3), Gaussian()))

    with pytest.raises(TrothError, match="rule has no word vectors"):
        Prober(box).ask(looking())
