"""The unit's Owen value: its mean contribution over all orders in which whole sentences are added one after the other,
and the units one after the other within each sentence (Owen, 1977; the hierarchy of SHAP's partition explainer, here
sentence → unit).

Other sentences are either complete or absent, so a word is judged among readable sentences. The scores of a sentence's
units sum to the sentence's own Shapley value, and all scores to f(input) − f(all units erased) exactly. The second text
and each shot of a prompt begin a new sentence. For a single sentence, or sentences of one unit, the scores are the
Shapley values.

If all such coalitions fit into `samples`, the value is exact. Otherwise orders are drawn, each with its reverse: 2n
rows per pair, at least one pair. With a `tolerance`, it begins with four pairs and adds half as many in each round,
until the 95 % interval (Student's t over the pairs) of every score is within ± `tolerance` times the largest one, or
`samples` is reached.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from troth.core.draws import Draws
from troth.core.errors import TrothError
from troth.core.types import Attribution, Encoding, Question
from troth.core.units import join, sentence_spans
from troth.engine.probes import Of, Probe
from troth.engine.routines import Routine, per_text
from troth.explainers import SignedExplainer, _stopping
from troth.explainers._players import per_unit, players, ranks
from troth.explainers.exact_shapley import all_coalitions, shapley_weights

_FEWEST = 4  # pairs needed for an interval


@dataclass(frozen=True)
class PartitionShap(SignedExplainer):
    formula = "sᵢ = mean of f(before i, and i) − f(before i) over orders that keep sentences together"
    pitfalls = "Depends on where sentences end. On long texts it is an estimate: set tolerance."

    samples: int = 2000  # coalitions, besides the whole input and the empty one
    of: Of = "logit"
    tolerance: float | None = None  # 0.1: stop when every score is known to ± 10 % of the largest

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise TrothError(f"partition_shap: samples must be at least 2, not {self.samples}")
        _stopping.check("partition_shap", self.tolerance)

    def passes(self, n_units: int) -> int:
        pairs = max(1, self.samples // max(1, 2 * n_units))
        return min(2 * n_units * pairs + 2, 1 << min(n_units, 60))

    @per_text
    def ask(self, question: Question) -> Routine[Attribution]:
        groups = sentences(question.encoding)[players(question)]
        if len(groups) == 0:
            return Attribution(question, torch.zeros(question.n_units).numpy(), signed=self.signed)
        groups = torch.unique(groups, return_inverse=True)[1]
        exact = coalition_count(groups) <= self.samples
        scores, note = yield from (self._exact if exact else self._sampled)(question, groups)
        return Attribution(question, per_unit(question, scores).numpy(), signed=self.signed, note=note)

    def _exact(self, question: Question, groups: Tensor) -> Routine[tuple[Tensor, str]]:
        coalitions, weights = owen_weights(groups)
        answer = yield Probe(question, per_unit(question, coalitions))
        return weights.T @ answer.value(self.of).double(), "exact"

    def _sampled(self, question: Question, groups: Tensor) -> Routine[tuple[Tensor, str]]:
        count = len(groups)
        most = max(1, self.samples // (2 * count))
        orders = grouped_orders(groups, most, question.draws("partition_shap"))
        contributions = torch.zeros(0, count, dtype=torch.float64)
        for pairs in _stopping.budgets(_FEWEST, most, self.tolerance):
            new = orders[len(contributions) : pairs]
            # The reverse order begins with the last members of the order.
            both = torch.stack([new, new.flip(1)], dim=1).view(-1, count)
            answer = yield Probe(question, per_unit(question, prefixes(both)))
            values = answer.value(self.of).double().view(len(both), count + 1)
            gains = torch.zeros(len(both), count, dtype=torch.float64).scatter_(1, both, values.diff(dim=1))
            contributions = torch.cat([contributions, gains.view(-1, 2, count).mean(1)])
            scores, drawn = contributions.mean(0), len(contributions)
            note = f"{2 * drawn} orders, {2 * drawn * count} samples"
            if drawn > 1:
                errors = contributions.std(0) / drawn**0.5
                quantile = _student(drawn - 1)
                note = f"{_stopping.said(errors, 2 * drawn * count, self.samples, quantile)}, {2 * drawn} orders"
                if drawn >= _FEWEST and _stopping.narrow(scores, errors, self.tolerance, quantile):
                    break
        return scores, note


def sentences(encoding: Encoding) -> Tensor:
    """[units] The index of each unit's sentence."""
    texts = {0: encoding.example.text, 1: encoding.example.text_pair or ""}
    segments = torch.tensor(encoding.unit_segments, dtype=torch.int64)
    numbers = torch.zeros(len(segments), dtype=torch.int64)
    begun = 0
    for segment in sorted(set(encoding.unit_segments)):
        inside = segments == segment
        spans = [span for span, own in zip(encoding.unit_spans, inside.tolist(), strict=True) if own]
        cuts = sentence_spans(texts.get(segment, ""))
        numbers[inside] = begun + (torch.from_numpy(join(spans, cuts)) if cuts else 0)
        begun += max(1, len(cuts))
    return numbers


def coalition_count(groups: Tensor) -> int:
    """The number of coalitions that divide at most one sentence; some are counted twice."""
    sizes = groups.bincount().tolist()
    return int(sum(2.0 ** (len(sizes) - 1 + size) for size in sizes)) if len(groups) < 60 else 1 << 60


def owen_weights(groups: Tensor) -> tuple[Tensor, Tensor]:
    """All coalitions that divide at most one sentence, and the weight of each one's value for each player. ->
    [coalitions, players], the same
    """
    rows, weights = [], []
    count = int(groups.max()) + 1
    for group in range(count):
        inside = groups == group
        within = all_coalitions(int(inside.sum()))
        around = all_coalitions(count - 1)
        others = torch.cat([around[:, :group], torch.zeros(len(around), 1).bool(), around[:, group:]], dim=1)
        kept = others[:, groups].repeat_interleave(len(within), dim=0)
        kept[:, inside] = within.repeat(len(around), 1)
        # The weight of the sentences that joined before: |R|! (m − |R| − 1)! / m!, the total weight of its last player.
        before = -shapley_weights(others)[:, group]
        shares = torch.zeros(len(kept), len(groups), dtype=torch.float64)
        shares[:, inside] = (before[:, None, None] * shapley_weights(within)).view(-1, within.shape[1])
        rows.append(kept)
        weights.append(shares)
    return torch.cat(rows), torch.cat(weights)


def grouped_orders(groups: Tensor, wanted: int, draws: Draws) -> Tensor:
    """Random orders of the players in which each sentence is contiguous. [wanted, players]"""
    count = int(groups.max()) + 1
    uniforms = draws.uniforms(wanted, count + len(groups))
    places = ranks(uniforms[:, :count])[:, groups]
    within = ranks(uniforms[:, count:])
    return (places * len(groups) + within).argsort(dim=1)


def prefixes(orders: Tensor) -> Tensor:
    """The members before each position of each order, and after the last. [orders, n] -> [orders · (n + 1), n]"""
    places = orders.argsort(dim=1)
    return (places[:, None] < torch.arange(orders.shape[1] + 1)[:, None]).view(-1, orders.shape[1])


def _student(freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, freedom))
