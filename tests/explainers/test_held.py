"""Methods that take layers apart hold more than the model does, and say so before batches are cut."""

import pytest

import troth
from fakes import encoder
from troth.core import catalog
from troth.engine.prober import Prober
from troth.explainers.decomp_x import Parts
from troth.verbs.explain import explain_each


def batches(name, memory, monkeypatch, text="a good film with a bad ending", count=12):
    model, sizes = encoder("bert"), []
    original = type(model).forward

    def forward(self, rows, **options):
        if options.get("hidden"):
            sizes.append(len(rows))
        return original(self, rows, **options)

    monkeypatch.setattr(type(model), "forward", forward)
    prober = Prober(model, memory=memory)
    list(explain_each(prober, [troth.Example(str(place), text) for place in range(count)], name))
    return sizes


def test_decomp_x_counts_a_part_of_every_token_for_every_token(monkeypatch):
    length, hidden, layers, heads = 9, 16, 2, 2
    parts = 3 * 4 * length**2 * hidden
    states = 4 * length * (hidden * (layers + 1) + heads * layers * length)
    plain = encoder("bert").bytes_per_row(length, backward=False, attentions=True)
    assert Parts().bytes_per_row(encoder("bert"), length) == plain + parts + states
    assert batches("decomp_x", 4 * (plain + parts + states), monkeypatch) == [4, 4, 4]


@pytest.mark.parametrize("name", ["alti", "glob_enc"])
def test_rollouts_count_all_layers_and_what_each_token_offers(name, monkeypatch):
    length, hidden, layers, heads = 9, 16, 2, 2
    plain = encoder("bert").bytes_per_row(length, backward=False, attentions=True)
    held = 4 * length * (hidden * (layers + 1) + heads * layers * length + heads * hidden)
    assert batches(name, 3 * (plain + held), monkeypatch) == [3, 3, 3, 3]


def test_a_refusal_still_names_the_method():
    with pytest.raises(troth.core.errors.TrothError, match="decomp_x reads BERT"):
        troth.explain(encoder("albert"), "a good film", catalog.build("explainers", "decomp_x"))
