"""Adds the head of a masked language model, trained on the frozen encoder, to the file of the embedded model.

    python scripts/models/embedded/add_masked_lm_head.py HEAD src/troth/models/embedded_model

HEAD is what `masked_lm_base.py --head-only` wrote for the same encoder; the other tensors stay as they are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("head", type=Path)
    parser.add_argument("model", type=Path)
    options = parser.parse_args()
    trained, own = load_file(options.head / WEIGHTS), load_file(options.model / WEIGHTS)
    shared = set(trained) & set(own)
    if not shared or not all(torch.equal(trained[name], own[name]) for name in shared):
        raise SystemExit(f"{options.head} has another encoder than {options.model}; train its head with --head-only")
    head = {name: tensor for name, tensor in trained.items() if name.startswith("cls.")}
    save_file(own | head, options.model / WEIGHTS, metadata={"format": "pt"})
    print(f"added {len(head)} tensors: {', '.join(sorted(head))}")


if __name__ == "__main__":
    main()
