"""No training decision depends on how long a text is: which rows are masked and how much, the order, a row's weight."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy import stats

from troth.core.types import Example
from troth.training import bases
from troth.training.corpus import Corpus, batches
from troth.training.fit import fit, fit_stacked
from troth.training.loop import TrainingCopy
from troth.training.recipes.masked import Masked
from troth.training.settings import settings

EPOCHS = 24
UNLIKELY = 1e-4  # a p-value below it is no accident: seeds are fixed


@dataclass(frozen=True)
class Watched(Masked):
    """Masked fine-tuning that notes for every row what was decided about it."""

    notes: dict = field(default_factory=lambda: defaultdict(list), compare=False)

    def rows(self, rows, place, size, model):
        changed = super().rows(rows, place, size, model)
        gone = (changed.ids != rows.ids).sum(1).tolist()
        copies = len(place) // size
        for copy in range(copies):
            for row in range(copy * size, (copy + 1) * size):
                name = rows.encodings[row].example.id
                step = len(self.notes["steps", copy])
                share = gone[row] / rows.encodings[row].n_units
                self.notes[copy, name].append((share, size, step))
            self.notes["steps", copy].append(size)
        return changed

    def validation(self):
        return {"unmasked": Masked(train="no")}

    final = validation


def texts(count):
    """Of 8 to 8 + count words, so that even a rate near 0 usually touches one."""
    return [Example(f"t{n}", " ".join(["good"] * (8 + n)), None, n % 2) for n in range(count)]


def trained(side_by_side, recipe, count=77, batch_size=8):
    examples = texts(count)
    start = bases.build("bilstm_attention(embedding=2, hidden=2)")
    seeds = (0, 1)
    models = [start.build(examples, ("bad", "good"), seed, None) for seed in seeds]
    data = [
        Corpus(model.encode(examples, units="token", segments="both"), [one.label for one in examples])
        for model in models
    ]
    chosen = settings(epochs=EPOCHS, batch_size=batch_size, best_by="last", precision="no")
    if side_by_side:
        copies = [TrainingCopy(model, data[0], data[0], seed) for model, seed in zip(models, seeds, strict=True)]
        fit_stacked(copies, recipe, chosen, device="cpu")
    else:
        fit(models[0], recipe, data[0], data[0], chosen, cpu=True)
    return examples


@pytest.mark.full
@pytest.mark.parametrize(
    ("variant", "side_by_side"),
    [("paper", True), ("paper", False), ("released", False)],
)
def test_every_text_is_masked_in_about_half_of_the_epochs_however_long_it_is(variant, side_by_side):
    recipe = Watched(variant=variant)
    examples = trained(side_by_side, recipe)
    lengths = [len(one.text) for one in examples]
    for copy in range(1 + side_by_side):
        noted = np.array([recipe.notes[copy, one.id] for one in examples])  # [texts, epochs, 3]
        assert noted.shape == (77, EPOCHS, 3)
        share, size, step = np.moveaxis(noted, -1, 0)
        masked = share > 0
        # 24 draws of about a half: none is near never or always (it was 39 and 38 of 77 texts).
        assert masked.sum(1).min() >= 3
        assert masked.sum(1).max() <= EPOCHS - 3
        for decided in (masked.mean(1), _mean_where(share, masked), step.mean(1)):
            assert stats.spearmanr(decided, lengths).pvalue > UNLIKELY
        # 77 texts in batches of 8 leave one of 5: it is not kept for the longest.
        last = (size == 5).sum(1)
        assert last.sum() == 5 * EPOCHS
        assert stats.spearmanr(last, lengths).pvalue > UNLIKELY
        assert last.max() <= 8


@hypothesis_settings(max_examples=25)
@given(st.lists(st.integers(1, 60), min_size=6, max_size=60), st.integers(2, 16), st.integers(0, 100))
def test_place_in_the_batch_and_size_of_the_batch_are_drawn_for_any_lengths(lengths, size, seed):
    given_lengths = torch.tensor(lengths)
    n, epochs = len(lengths), 60
    odd, small = np.zeros(n), np.zeros(n)
    whole = n // size * size
    for epoch in range(epochs):
        cut = batches(given_lengths, size, seed, epoch)
        assert sorted(torch.cat(cut).tolist()) == list(range(n))
        for rows in cut:
            odd[rows[1::2]] += 1
            small[rows] += len(rows) < size
    # Each count is a sum of 60 draws of the same probability for every text; five deviations are never met by chance.
    chance = (whole // size * (size // 2) + (n - whole) // 2) / n
    assert np.abs(odd - epochs * chance).max() < 5.5 * np.sqrt(epochs * 0.25) + 1
    share = (n - whole) / n
    assert np.abs(small - epochs * share).max() < 6 * np.sqrt(epochs * max(share * (1 - share), 0.05)) + 1


def test_texts_about_as_long_still_meet():
    lengths = torch.randint(1, 500, (4000,), generator=torch.Generator().manual_seed(0))
    cut = batches(lengths, 16, seed=0, epoch=0)
    spread = np.mean([float(lengths[rows].float().std()) for rows in cut])
    assert spread < 0.1 * float(lengths.float().std())


def _mean_where(values, chosen):
    return (values * chosen).sum(1) / chosen.sum(1)
