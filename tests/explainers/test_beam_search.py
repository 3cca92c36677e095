from itertools import permutations

import numpy as np
import pytest
import torch
from tests.explainers.referees import explained, questions, value

import troth
from fakes import CORPUS, Lookup, encoder, planted
from troth.core import catalog
from troth.core.errors import TrothError
from troth.engine.prober import Prober
from troth.explainers.beam_search import BeamSearch
from troth.maskings.mask_token import MaskToken

TEXTS = ["a good film , honestly", "the book was better", "why would anyone pay for this ?", "the soup was cold"]


def order_of(attribution):
    """Units in erasing order."""
    return tuple(np.argsort(-attribution.scores, kind="stable").tolist())


class Values:
    """f of a set of erased units, remembered."""

    def __init__(self, question, of="logit"):
        self.question, self.of, self.known = question, of, {}

    def __call__(self, erased):
        erased = frozenset(erased)
        if erased not in self.known:
            self.known[erased] = value(encoder(), self.question, sorted(erased), self.of)
        return self.known[erased]

    def worth(self, order, objective="comprehensiveness"):
        """Σ over the prefixes of an order."""
        units = set(range(self.question.n_units))
        terms = []
        for length in range(1, len(order) + 1):
            prefix = set(order[:length])
            start = self(units - prefix) if objective == "comp_minus_suff" else self(())
            terms.append(start - self(prefix))
        return sum(terms)


def slow_beam(values, width, objective, drop_duplicates):
    """The search as FMM's text has it, with lists and sets."""
    units = range(values.question.n_units)
    beam = [((), 0.0)]
    for _ in units:
        grown, seen = [], set()
        for order, worth in beam:
            for unit in units:
                if unit in order or (drop_duplicates and frozenset((*order, unit)) in seen):
                    continue
                seen.add(frozenset((*order, unit)))
                new = (*order, unit)
                start = values(set(units) - set(new)) if objective == "comp_minus_suff" else values(())
                grown.append((new, worth + start - values(new)))
        grown.sort(key=lambda entry: -entry[1])  # stable
        beam = grown[:width]
    return beam[0][0]


def test_by_hand():
    # Alone, a is the best to erase (5 → 2); but b and c together hurt more (5 → −3), which only a wider beam sees.
    table = {
        "a b c": 5, "[M] b c": 2, "a [M] c": 4, "a b [M]": 3,
        "[M] [M] c": 2, "[M] b [M]": 2, "a [M] [M]": -3, "[M] [M] [M]": 0,
    }  # fmt: skip
    model = Lookup({text: [0, number] for text, number in table.items()})
    greedy, wide = (
        troth.explain(model, "a b c", f"beam_search(width={width})", target=1, against=0)[0] for width in (1, 10)
    )
    # Greedy: a (5 − 2), then b (5 − 2; c is as good, but later), then c.
    assert greedy.scores.tolist() == [3, 2, 1]
    # c, b, a: (5 − 3) + (5 + 3) + 5 = 15; b, c, a: 1 + 8 + 5 = 14; a, …: 3 + 3 + 5 = 11.
    assert wide.scores.tolist() == [1, 2, 3]
    assert not wide.signed
    # comp − suff, first round: f(only it) − f(without it) is −3 − 2 for a, 2 − 4 for b, 2 − 3 for c.
    (greedy,) = troth.explain(model, "a b c", "beam_search(width=1, objective=comp_minus_suff)", target=1, against=0)
    # Then c with a: 4 − 2, c with b: 2 + 3.
    assert greedy.scores.tolist() == [1, 2, 3]


@pytest.mark.parametrize("objective", ["comprehensiveness", "comp_minus_suff"])
@pytest.mark.parametrize("drop_duplicates", [True, False])
@pytest.mark.parametrize("width", [1, 3, 10])
def test_against_a_slow_search(objective, drop_duplicates, width):
    asked = questions(texts=TEXTS)
    found = explained(BeamSearch(width, objective, drop_duplicates=drop_duplicates), asked)
    for question, attribution in zip(asked, found, strict=True):
        values = Values(question)
        expected = slow_beam(values, width, objective, drop_duplicates)
        assert order_of(attribution) == expected
        assert sorted(attribution.scores) == list(range(1, question.n_units + 1))


@pytest.mark.parametrize("objective", ["comprehensiveness", "comp_minus_suff"])
@pytest.mark.parametrize("options", [{"width": 10}, {"width": 120, "drop_duplicates": False}])
def test_wide_enough_it_is_exhaustive(objective, options):
    # Of 5 units at most C(5, 2) = 10 sets live at a time, in at most 5! = 120 orders.
    (question,) = questions(texts=TEXTS[:1])
    values = Values(question, "probability")
    (attribution,) = explained(BeamSearch(objective=objective, of="probability", **options), [question])
    best = max(values.worth(order, objective) for order in permutations(range(5)))
    assert values.worth(order_of(attribution), objective) == pytest.approx(best, abs=1e-6)


def test_one_wide_is_greedy():
    asked = questions(texts=TEXTS)
    for question, attribution in zip(asked, explained(BeamSearch(width=1), asked), strict=True):
        values, erased = Values(question), []
        while len(erased) < question.n_units:
            left = [unit for unit in range(question.n_units) if unit not in erased]
            erased.append(left[int(np.argmin([values([*erased, unit]) for unit in left]))])
        assert order_of(attribution) == tuple(erased)


@pytest.mark.parametrize("objective", ["comprehensiveness", "comp_minus_suff"])
def test_a_wider_beam_is_no_worse_on_average(objective):
    asked = questions(texts=CORPUS)
    means = []
    for width in (1, 3, 10):
        found = explained(BeamSearch(width, objective), asked)
        worths = [Values(question).worth(order_of(one), objective) for question, one in zip(asked, found, strict=True)]
        means.append(np.mean(worths))
    assert means[0] < means[1] <= means[2] + 1e-6


def test_a_set_is_asked_about_once_a_round():
    (question,) = questions(texts=TEXTS[:1])
    for drop_duplicates in (True, False):
        prober = Prober(encoder())
        prober.ask(BeamSearch(10, drop_duplicates=drop_duplicates).ask([question]))[0]
        # All 31 sets of one to five units if none is dropped by the beam; kept duplicates crowd some out of it.
        assert prober.cost.forward <= 31
        assert prober.cost.forward == 31 or not drop_duplicates


@pytest.mark.parametrize("masking", ["delete", "pad"])
def test_other_maskings(masking):
    asked = questions("roberta", texts=TEXTS)
    found = explained(BeamSearch(2), asked, encoder("roberta"), masking)
    for attribution in found:
        assert sorted(attribution.scores) == list(range(1, len(attribution.scores) + 1))


def test_what_is_erased_already_is_not_searched():
    (question,) = questions(texts=TEXTS[:1])
    base = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0])
    (attribution,) = explained(BeamSearch(), [question.erased(base, MaskToken())])
    values = Values(question)

    def worth(order):
        return sum(-values({1, 3, *order[: length + 1]}) for length in range(3))

    best = max(permutations([0, 2, 4]), key=worth)
    assert [attribution.scores[unit] for unit in best] == [3, 2, 1]
    assert not attribution.scores[[1, 3]].any()


def test_the_planted_word_comes_first():
    (attribution,) = troth.explain(planted("awful"), "the soup was cold , the service awful", "beam_search", target=1)
    assert attribution.units[int(attribution.scores.argmax())] == "awful"


def test_presets_are_shorthand():
    solvex = catalog.build("explainers", "beam_search(preset=solvex)")
    assert solvex == BeamSearch(50, "comp_minus_suff", "probability", False)
    text = "beam_search(width=50, objective='comp_minus_suff', of='probability', drop_duplicates=False)"
    assert catalog.spec(solvex, full=True) == text
    assert catalog.build("explainers", text) == solvex
    assert BeamSearch(preset="fmm") == BeamSearch()
    with pytest.raises(TrothError, match="preset solvex sets width=50; drop width=20 or the preset"):
        BeamSearch(20, preset="solvex")
    with pytest.raises(TrothError, match="width must be at least 1, not 0"):
        BeamSearch(width=0)
