"""MaSF: a p-value for how usual the model's hidden states of an input are; small means out of distribution.

Max-Simes-Fisher (Haroush et al., 2022; for text Madsen et al., 2024, appendix F.2): the largest activation of every
hidden unit is placed in its empirical distribution over reference inputs. The two-sided p-values are combined over
hidden units by Simes, placed again, combined over layers by Fisher, and placed a last time, one-sided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from troth.core import catalog, draws
from troth.core.errors import TrothError, unknown
from troth.core.types import Encoding, Question, Rows
from troth.engine.answers import Answers
from troth.engine.prober import Prober
from troth.engine.probes import Probe, Reading, Readout, at_least_single, keep_all
from troth.engine.routines import Routine
from troth.maskings import Masking
from troth.models import TextClassifier, refuse
from troth.statistics import simes
from troth.validity import _counts
from troth.validity._counts import Aggregation, Floats

FEWEST = 30  # the least number of references
# Rounded, because equal hidden states, which masked inputs often have in the first layers, differ slightly by batch.
_DECIMALS = 4


@dataclass(frozen=True)
class HiddenStates(Readout):
    """Reads the maximum of each hidden unit over positions; padding is left out, special tokens are not."""

    about_target = False
    averaged = False  # the mean over several texts is not a hidden state of any text
    remembered = False  # large, and never asked for twice

    def read(self, model: TextClassifier, rows: Rows) -> Reading:
        with torch.no_grad():
            output = model.forward(rows, hidden=True)
        if not output.hidden:
            raise refuse(model.name, "hidden states to read", "MaSF cannot test it")
        padding = ~rows.real[..., None]
        views = [at_least_single(layer.masked_fill(padding, -torch.inf).amax(1)) for layer in output.hidden]
        return Reading(
            output.logits, rows={f"layer {number}": view.round(decimals=_DECIMALS) for number, view in enumerate(views)}
        )


HIDDEN_STATES = HiddenStates()


def largest(answer: Answers) -> list[NDArray[Any]]:
    """The values as one array per layer: [rows, hidden]."""
    return [answer.rows[f"layer {number}"].numpy() for number in range(len(answer.rows))]


def require_hidden_states(model: TextClassifier) -> None:
    """Refuses models whose hidden states cannot be read, before any work is done."""
    if not model.has_hidden_states:
        raise model.lacks("hidden states", "MaSF cannot test it")


@dataclass(frozen=True, eq=False)
class MaSF:
    """The three levels of empirical distributions: `fit` builds them, `p_values` places inputs in them."""

    embeddings: tuple[NDArray[Any], ...]  # one array per layer, [hidden, references], sorted, in the dtype given
    layer_statistics: Floats  # [layers, references], sorted
    statistics: Floats  # [references], sorted
    over_hidden: Aggregation = "simes"
    over_layers: Aggregation = "fisher"
    self_included: bool = True

    @classmethod
    def fit(cls, embeddings: ArrayLike, **options: Any) -> Self:
        """Fits on references [examples, layers, hidden], already the maximum over positions.

        `over_hidden` and `over_layers` name how each step combines p-values (the paper: Simes, then Fisher). References
        are placed in their own distributions, as in the paper. `self_included=False` leaves each one out of its own:
        this keeps p-values of new inputs uniform if there are many hidden units and few references.
        """
        return cls.fit_layers(_layers(embeddings), **options)

    @classmethod
    def fit_layers(
        cls,
        layers: Sequence[NDArray[Any]],
        over_hidden: Aggregation = "simes",
        over_layers: Aggregation = "fisher",
        self_included: bool = True,
    ) -> Self:
        """As `fit`, from one array [examples, hidden] per layer; layers may differ in size."""
        for name in (over_hidden, over_layers):
            if name not in _counts.AGGREGATIONS:
                raise unknown("aggregation", name, _counts.AGGREGATIONS)
        references = len(layers[0])
        if references == 0:
            raise TrothError("MaSF needs reference inputs, but there are none; give it a validation set")
        others = references if self_included else references - 1
        ordered = tuple(np.empty(layer.shape[::-1], layer.dtype) for layer in layers)

        def layer_statistic(layer: int) -> Floats:
            smaller = _counts.sort(layers[layer], ordered[layer])
            return _counts.aggregate(over_hidden, smaller, others, references)

        by_layer = _counts.each_layer(len(layers), layer_statistic)  # [layers, references]
        layer_statistics = np.sort(by_layer, axis=-1)
        by_example = _counts.join_layers(over_layers, layer_statistics, by_layer, others)
        return cls(ordered, layer_statistics, np.sort(by_example), over_hidden, over_layers, self_included)

    @classmethod
    def from_model(
        cls,
        prober: Prober,
        encodings: Sequence[Encoding],
        masked: bool = True,
        seed: int = 0,
        *,
        share: float = 0.5,
        **options: Any,
    ) -> Self:
        """Fits on the model's hidden states of validation inputs, transformed as its training data were.

        For masked fine-tuning, every second input loses a uniformly drawn share of its units by the prober's masking,
        which must be the one of the training; the others stay whole. `share` sets another share of masked inputs;
        `masked=False` masks none, for a model that was trained on whole inputs. `options` are those of `fit`.
        """
        if len(encodings) < FEWEST:
            raise TrothError(
                f"MaSF needs {FEWEST} validation examples, but there are {len(encodings)}; with fewer, no "
                "p-value could "
                "be small enough to show anything: give it more"
            )
        require_hidden_states(prober.model)
        if masked and not prober.masking.tested_by_masf:
            raise TrothError(why_not_tested(prober.masking))
        return cls.fit_layers(reference_views(prober, encodings, share if masked else 0.0, seed), **options)

    @property
    def smallest(self) -> float:
        """The smallest possible p-value: that of an input beyond all references in every hidden unit.

        With Simes over many hidden units, many references are themselves beyond all others in some unit of every layer.
        If one reference in twenty is, no p-value can be below 0.05.
        """
        return float(self.p_values_of([np.full((1, len(layer)), np.inf, layer.dtype) for layer in self.embeddings])[0])

    def p_values(self, embeddings: ArrayLike) -> Floats:
        """One p-value for each of the inputs [examples, layers, hidden]."""
        return self.p_values_of(_layers(embeddings))

    def p_values_of(self, layers: Sequence[NDArray[Any]]) -> Floats:
        """As `p_values`, from one array [examples, hidden] per layer."""
        sizes, reference_sizes = [layer.shape[1] for layer in layers], [len(layer) for layer in self.embeddings]
        if sizes != reference_sizes:
            raise TrothError(
                f"embeddings have {_sizes(sizes)}, the references {_sizes(reference_sizes)}: "
                "use the model that the references came from"
            )
        references = self.embeddings[0].shape[1]

        def layer_statistic(layer: int) -> Floats:
            smaller = _counts.search(self.embeddings[layer], layers[layer])
            return _counts.aggregate(self.over_hidden, smaller, references, references)

        by_layer = _counts.each_layer(len(layers), layer_statistic)
        by_example = _counts.join_layers(self.over_layers, self.layer_statistics, by_layer, references)
        as_unusual = references - np.searchsorted(self.statistics, by_example, side="left")
        added = 0 if self.self_included else 1  # the input itself counts as one more draw from the null distribution
        return np.asarray((as_unusual + added) / (references + added), np.float64)


def reference_views(prober: Prober, encodings: Sequence[Encoding], share: float, seed: int = 0) -> list[NDArray[Any]]:
    """One array per layer, [references, hidden], for inputs of which the given share is masked at random and the others
    are whole.
    """
    # Exactly that share is masked, and drawn at random: neither the order of the inputs nor their texts decide.
    drawn = [draws.key(seed, encoding.example.id, "masf", "chosen") for encoding in encodings]
    chosen = set(np.argsort(drawn, kind="stable")[: int(share * len(drawn))].tolist())

    def view(place: int, encoding: Encoding) -> Routine[list[NDArray[Any]]]:
        question = Question(encoding, target=0, seed=seed)
        keep = keep_all(question)
        if place in chosen:  # erases a uniformly drawn share of its units
            numbers = question.draws("masf").uniforms(1, 1 + question.n_units)
            keep = (numbers[:, 1:] >= numbers[:, :1]).to(keep.dtype)
        answer = yield Probe(question, keep, readout=HIDDEN_STATES)
        return largest(answer)

    views = prober.run(view(place, encoding) for place, encoding in enumerate(encodings))
    return [np.concatenate(layer) for layer in zip(*views, strict=True)]


def why_not_tested(masking: Masking) -> str:
    """The reason why the test means nothing under a masking that changes the length of texts."""
    name = catalog.name_of(masking)
    return f"not tested: under {name} an erased input is a shorter text, not a masked one; use mask_token"


def data_set_p_value(p: ArrayLike) -> float:
    """Simes's p-value for the hypothesis that all observations are in distribution; below α = 0.05 it is rejected."""
    return float(simes(np.ravel(p)))


def _sizes(layers: Sequence[int]) -> str:
    return f"{len(layers)} layers of {', '.join(map(str, sorted(set(layers))))}"


def _layers(embeddings: ArrayLike) -> list[NDArray[Any]]:
    """[examples, layers, hidden] as one array per layer."""
    values = np.asarray(embeddings)
    if values.ndim != 3 or 0 in values.shape[1:]:
        raise TrothError(f"MaSF takes embeddings [examples, layers, hidden], not shape {values.shape}")
    if len(values) and np.isnan(values.max()):
        raise TrothError("embeddings contain NaN, which cannot be compared; find the input that causes it")
    return [values[:, layer] for layer in range(values.shape[1])]
