"""The referee on one library, in the library's own environment: prints JSON.

build/peers/common/bin/python benchmarks/referee/run.py captum [METHOD] [PROPERTY …]
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "src")]


def leave_out(verdicts: Any, reasons: Mapping[str, str]) -> None:
    """Marks the properties that do not apply to this library, with the reason."""
    for place, each in enumerate(verdicts):
        if each.name in reasons:
            verdicts[place] = replace(each, status="not supported", why=f"not applicable: {reasons[each.name]}")


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
            leave_out(verdicts, getattr(function, "left_out", {}))
            claims = {"claims": list(function.claims), "of": function.of}
            replies.append({"method": name, "seconds": verdicts.seconds, **claims, **verdicts.to_dict()})
    sys.stdout.write(json.dumps({"library": library, "versions": versions, "methods": replies}) + "\n")


if __name__ == "__main__":
    # Its own folder holds modules of the libraries' names.
    sys.path = [folder for folder in sys.path if Path(folder or ".").resolve() != HERE / "adapters"]
    main()
