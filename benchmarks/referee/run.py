"""The referee on one library, in the library's own environment: prints JSON.

build/peers/common/bin/python benchmarks/referee/run.py captum [METHOD] [PROPERTY …]
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "src")]


def main() -> None:
    import torch
    import transformers

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    from troth.refereeing.verb import referee

    library, *rest = sys.argv[1:]
    adapter = importlib.import_module(f"adapters.{library}")
    versions = {name: version(name) for name in (*adapter.PACKAGES, "transformers", "torch")}
    replies = []
    for name, function in adapter.METHODS.items():
        if not rest or rest[0] == name:
            verdicts = referee(function, name=name, only=rest[1:] or None)
            claims = {"claims": list(function.claims), "of": function.of}
            replies.append({"method": name, "seconds": verdicts.seconds, **claims, **verdicts.to_dict()})
    sys.stdout.write(json.dumps({"library": library, "versions": versions, "methods": replies}) + "\n")


if __name__ == "__main__":
    # Its own folder holds modules of the libraries' names.
    sys.path = [folder for folder in sys.path if Path(folder or ".").resolve() != HERE / "adapters"]
    main()
