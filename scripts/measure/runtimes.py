"""Seconds and passes of AML and what it is compared with, side by side (AML's table 5), by one CPU thread.

    python scripts/measure/runtimes.py --model FOLDER --checkpoint FOLDER --data sst2 --texts 3 --tokens 12-14

Seconds are those this process spent on a CPU, so that others on the machine do not count; one text at a time after a
warm-up on the first, then all together. Passes are rows through the explained model, and through the attribution model.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence

import numpy as np
import torch

from troth.core.types import Example
from troth.engine.prober import Prober
from troth.engine.probes import Cost
from troth.models import TextClassifier, load_model
from troth.studies.aml._experiment import BASELINES, solvex, tested
from troth.verbs.explain import explain_each


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", required=True, help="the classifier")
    options.add_argument("--checkpoint", required=True, help="an attribution model that was fitted to it")
    options.add_argument("--data", default="sst2")
    options.add_argument("--texts", type=int, default=3)
    options.add_argument("--tokens", default="12-14", help="how long the texts are, the first of the data that are")
    options.add_argument("--beams", default="10,50,100", help="widths of Solvex's beam")
    options.add_argument("--methods", default="DCMP,LIFT,ALTI,SHAP,IG,LIME,SIG")
    given = options.parse_args()
    torch.set_num_threads(1)
    model = load_model(given.model, device="cpu")
    shortest, longest = map(int, given.tokens.split("-"))
    encodings = model.encode(tested(given.data, None).examples, "token")
    examples = [each.example for each in encodings if shortest <= each.n_units <= longest][: given.texts]
    checkpoint = f"attributive_masking(checkpoint={given.checkpoint!r}"
    methods = {"pAML": f"{checkpoint})", "fAML": f"{checkpoint}, steps=10)"}
    methods |= {name: BASELINES[name] for name in given.methods.split(",")}
    methods |= {f"SLVX, beam {width}": solvex(int(width)) for width in given.beams.split(",") if width}
    print("| method | alone, s | together, s | forward | back | of G |\n|---|--:|--:|--:|--:|--:|")
    for name, spec in methods.items():
        seconds(model, examples[:1], spec)
        alone = float(np.mean([seconds(model, [example], spec)[0] for example in examples]))
        took, cost = seconds(model, examples, spec)
        passes = [count / len(examples) for count in (cost.forward, cost.backward, cost.side_model_rows)]
        shown = " | ".join(f"{count:,.0f}" for count in passes)
        print(f"| {name} | {alone:.3f} | {took / len(examples):.3f} | {shown} |", flush=True)
    print(json.dumps([example.text for example in examples]))


def seconds(model: TextClassifier, examples: Sequence[Example], spec: str) -> tuple[float, Cost]:
    prober, begun = Prober(model), time.process_time()
    list(explain_each(prober, examples, spec, units="token"))
    return time.process_time() - begun, prober.cost


if __name__ == "__main__":
    main()
