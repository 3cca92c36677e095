"""Are masked inputs in distribution for the embedded model, and for its plainly fine-tuned twin?

`measure` writes p-values by model, form of the references, variant of MaSF, explainer and ratio as JSON, after every
explainer; `plot` draws them. `docs/results/masf.md` tells what came out.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from troth import catalog
from troth.benching import EXPLAINERS
from troth.data import load_data
from troth.models import load_model
from troth.probing import Prober
from troth.validity.checking import erased_views
from troth.validity.masf import MaSF, data_set_p_value

POINTS = range(0, 10_001, 1000)
VARIANTS = {
    "paper": {},
    "left out": {"self_included": False},
    "calibrated": {"over_hidden": "fisher", "self_included": False},  # as troth check does
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=["measure", "plot"])
    parser.add_argument("files", type=Path, nargs="+", help="JSON; measure takes one, plot one a model")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--title", default="masked fine-tuning")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--explainers", nargs="+", default=EXPLAINERS)
    parser.add_argument("--out", type=Path, default=Path("docs/images/masf.png"))
    options = parser.parse_args()
    if options.stage == "measure":
        measure(options)
    else:
        plot([json.loads(path.read_text()) for path in options.files], options.out)


def measure(options: argparse.Namespace) -> None:
    """References: SST-2's validation set, which neither model was trained on; tested: sentences of SST's test set."""
    model = load_model(options.model)
    known = model.encode(load_data("sst2", split="validation"), "token", "both")
    asked = model.encode(load_data("sst", split="test", limit=options.limit))
    fitted = {}
    for form in ("masked", "whole"):
        for name, chosen in VARIANTS.items():
            fitted[f"{form}, {name}"] = MaSF.from_model(Prober(model), known, form == "masked", **chosen)
    report = {
        "title": options.title, "references": len(known), "tested": len(asked),
        "ratios": [point / 10_000 for point in POINTS],
        "floor": {name: one.smallest for name, one in fitted.items()}, "p": {}, "share_below_0.05": {},
    }  # fmt: skip
    for spec in options.explainers:
        start = time.time()
        views = list(erased_views(Prober(model), catalog.build("explainers", spec), asked, POINTS))
        together = [np.concatenate(layer) for layer in zip(*views, strict=True)]
        for name, one in fitted.items():
            p = one.p_values_of(together).reshape(len(views), -1)
            report["p"].setdefault(name, {})[spec] = [data_set_p_value(column) for column in p.T]
            report["share_below_0.05"].setdefault(name, {})[spec] = (p < 0.05).mean(0).tolist()
        options.files[0].write_text(json.dumps(report, indent=1) + "\n")
        print(spec, f"{time.time() - start:.0f} s", flush=True)


def plot(reports: list[dict], out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    forms = {"masked, calibrated": "references masked", "whole, calibrated": "references whole"}
    figure, axes = pyplot.subplots(len(reports), len(forms), figsize=(9, 3.1 * len(reports)), sharex=True, sharey=True)
    for row, report in zip(axes, reports, strict=True):
        for axis, (name, form) in zip(row, forms.items(), strict=True):
            for spec, p in report["p"][name].items():
                axis.plot(report["ratios"], p, label=spec, marker=".", linewidth=1.2)
            axis.axhline(0.05, color="black", linestyle="dashed", linewidth=0.8)
            axis.set_title(f"{report['title']}, {form}", fontsize=10)
            axis.set_yscale("log")
            axis.set_ylim(0.001, 1.5)
            axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("share of words masked")
    for row in axes:
        row[0].set_ylabel("p-value of the data set")
    axes[0][0].legend(fontsize=7, loc="lower left")
    figure.tight_layout()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    main()
