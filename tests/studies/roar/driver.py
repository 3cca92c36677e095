"""Recursive ROAR in a process of its own, to be killed: roar_driver.py FOLDER"""

import json
import sys
import warnings
from pathlib import Path

from tests.benchmarks.planted import OPTIONS, base, splits

from troth.studies.roar.recursive import recursive_roar

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    found = recursive_roar(
        splits(60), base(folder.parent.parent), ["input_x_gradient", "attention"], folder, seeds=(0, 1), step=0.25,
        **{**OPTIONS, "epochs": 2},
    )  # fmt: skip
    print(json.dumps([curve.to_dict() for curve in found.curves]))
