"""How much faster fAML is with many examples side by side than one by one, and whether they come to the same.

    python scripts/measure/aml.py --examples 32
    python scripts/measure/aml.py --model FOLDER --data sst2 --steps 10

Side by side: every example has its own copy of the attribution model's weights, all of them in one batch. One by one:
plain PyTorch, a batch of one, the weights put back after each example. Both do the same steps in float32 without TF32,
after a warm-up; the choice among the maps by the metric, which both need, is timed apart. The attribution model is not
fitted: what it says has no part in the time. pAML, one pass of each model, is timed too.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from troth.attribution_model import saving
from troth.attribution_model.losses import DualMask
from troth.attribution_model.maps import Map, Tuned
from troth.attribution_model.model import AttributionModel, from_model, read
from troth.core.types import Encoding, Question
from troth.data import load_data
from troth.engine.prober import Prober
from troth.engine.probes import Probe, Readout, keep_all
from troth.engine.routines import Routine
from troth.models import TextClassifier, load_model
from troth.training.corpus import Corpus
from troth.verbs.explain import explain_each

LOSS = DualMask(0.5, 0.5, 0.5)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", default="embedded")
    options.add_argument("--data", default="reviews")
    options.add_argument("--examples", type=int, default=32)
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--learning-rate", type=float, default=4e-5)
    options.add_argument("--repeat", type=int, default=3, help="the fastest of so many runs is reported")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = options.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    model = load_model(given.model, device=given.device)
    own = from_model(model, seed=0).eval()
    examples = load_data(given.data).limit(given.examples, seed=0)
    encodings = model.encode(examples.examples)
    tuned = Tuned(own, LOSS, given.steps, given.learning_rate)

    def side_by_side() -> list[Tensor]:
        return maps_of(model, encodings, tuned)

    def alone() -> list[Tensor]:
        return [one_by_one(model, own, encoding, given.steps, given.learning_rate) for encoding in encodings]

    with tempfile.TemporaryDirectory() as folder:
        about = {"loss": {}, "metric": "aopc_comprehensiveness", "learning_rate": given.learning_rate}
        saving.save(Path(folder), own, about)
        spec = f"attributive_masking(checkpoint={folder!r}, steps={given.steps})"

        def whole() -> list[Tensor]:
            found = explain_each(Prober(model), examples.examples, spec)
            return [torch.from_numpy(one.scores) for one in found]

        fast, together = timed(side_by_side, given)
        slow, apart = timed(alone, given)
        both, _ = timed(whole, given)
        single, _ = timed(lambda: maps_of(model, encodings, Map(own)), given)
    difference = max(float((one - other).abs().max()) for one, other in zip(together, apart, strict=True))
    name = torch.cuda.get_device_name() if given.device.startswith("cuda") else given.device
    print(f"{given.model} on {len(encodings)} examples of {given.data}, {given.steps} steps each, {name}")
    print(f"one by one     {slow:8.3f} s")
    print(f"side by side   {fast:8.3f} s    {slow / fast:.1f} times as fast")
    print(f"… and the choice by aopc_comprehensiveness: {both:.3f} s in all, {both / len(encodings):.4f} s an example")
    print(f"pAML           {single:8.3f} s    {single / len(encodings):.5f} s an example")
    print(f"largest difference of a score {difference:.1e}")
    facts = {"device": name, "one_by_one": slow, "side_by_side": fast, "with_metric": both, "paml": single}
    print(json.dumps({**facts, "times_as_fast": slow / fast, "largest_difference": difference}))


def maps_of(model: TextClassifier, encodings: list[Encoding], readout: Readout) -> list[Tensor]:
    def ask(encoding: Encoding) -> Routine[Tensor]:
        question = Question(encoding, target=-1)
        answer = yield Probe(question, keep_all(question), readout=readout)
        return answer.rows["maps"][0, -1, : question.n_units]

    return list(Prober(model).run(ask(encoding) for encoding in encodings))


def one_by_one(model: TextClassifier, own: AttributionModel, encoding: Encoding, steps: int, rate: float) -> Tensor:
    """The last map of one example; the weights are put back."""
    weights = own.own_weights()
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    corpus = Corpus([encoding], [0]).to(model.device)
    rows = corpus.rows(torch.tensor([0]), torch.tensor([0]), model)
    with model.at_rest():
        with torch.no_grad():
            told = model.forward(rows).logits.softmax(-1)
        page = read(own, rows)
        optimizer = torch.optim.AdamW(list(weights.values()), lr=rate, fused=own.device.type == "cuda")
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
            loss = LOSS(model, rows, own.scores(page, told), page.present, told)
            gradients = torch.autograd.grad(loss.sum(), list(weights.values()))
            for weight, gradient in zip(weights.values(), gradients, strict=True):
                weight.grad = gradient
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            found = own.scores(page, told).sigmoid()[0, : encoding.n_units].cpu()
            for name, weight in weights.items():
                weight.copy_(before[name])
    return found


def timed(work: Callable[[], list[Tensor]], given: argparse.Namespace) -> tuple[float, list[Tensor]]:
    result, best = work(), float("inf")  # the first run warms up
    for _ in range(given.repeat):
        begun = now(given.device)
        work()
        best = min(best, now(given.device) - begun)
    return best, result


def now(device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main()
