"""Has troth become slower? Fails when a ratio to a peer is more than a fifth below that of ratios.json.

    python benchmarks/check.py            # under 3 minutes
    python benchmarks/check.py --write    # what is measured now becomes what is expected
    python benchmarks/check.py --write --json run.json    # what speed.py --json has measured does

Ratios of CPU time hold from machine to machine, as seconds do not. What falls is measured once more before it counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from speed import run
from works import Work, contender, works

RATIOS = Path(__file__).parent / "ratios.json"
FALL = 0.2
CHECKED = {
    "input_x_gradient 6 × 384 many": "captum",
    "integrated_gradients 6 × 384 short": "captum",
    "leave_one_out 6 × 384 short": "captum:best",
    "aopc 6 × 384 short": "ferret",
    "lime 6 × 384 one": "lime",
    "kernel_shap 6 × 384 one": "shap",
    "beam_search 6 × 384 beam": "solvex",
    "soft 6 × 384 many": "hand",
    "recursive_leave_one_out 6 × 384 one": "hand:plain",
    "causal_leave_one_out 6 × 384 causal causal": "hand",
}


def selection() -> list[Work]:
    return [replace(work, peers=(contender(CHECKED[work.key]),)) for work in works() if work.key in CHECKED]


def measured(chosen: list[Work]) -> dict[str, float]:
    """Their time / ours of each work and peer; whoever fails is missing."""
    return ratios(run(chosen, turns=3, seconds=12))


def ratios(results: list[dict[str, Any]]) -> dict[str, float]:
    """Of works that are checked, to the peer they are checked against."""
    peers = {key: contender(peer).name for key, peer in CHECKED.items()}
    rows = [(result["key"], row) for result in results for row in result["contenders"]]
    return {
        f"{key} / {row['name']}": round(row["ratio"], 2)
        for key, row in rows
        if "ratio" in row and row["name"] == peers.get(key)
    }


def fallen(expected: dict[str, float], now: dict[str, float]) -> dict[str, str]:
    """What is missing or too slow, and why."""
    return {
        name: f"was {before}, is {now[name]}" if name in now else f"was {before}, could not be measured"
        for name, before in expected.items()
        if now.get(name, 0) < (1 - FALL) * before
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep what is measured now as what is expected")
    parser.add_argument("--json", type=Path, help="a run that speed.py has measured, instead of measuring now")
    given = parser.parse_args()
    now = ratios(json.loads(given.json.read_text())) if given.json else measured(selection())
    if given.write:
        RATIOS.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n")
        return
    expected = json.loads(RATIOS.read_text())
    slower = fallen(expected, now)
    again = [work for work in selection() if any(name.startswith(f"{work.key} /") for name in slower)]
    if again and not given.json:
        slower = fallen({name: expected[name] for name in slower}, measured(again))
    for name, why in slower.items():
        print(f"slower by more than a fifth: {name}: {why}")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
