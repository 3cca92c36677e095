"""Speed and memory against the libraries a user would otherwise take.

    python benchmarks/install.py                              # once: the peers, in environments of their own
    python benchmarks/speed.py --write docs/reference/benchmarks.md     # about 12 minutes on one core
    python benchmarks/speed.py --only leave_one_out --only lime
    python benchmarks/speed.py --only "leave_one_out 12 × 768" --peers captum

The same random models and the same texts for all. CPU time of one thread, medians over turns; a ratio is the median
over the turns of theirs / ours, so above 1 we are faster. Memory is the most a run took above what the process held
before it. The floor is what the necessary operations would take at the measured speed of matrix products (floor.py).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import page
from inputs import SIZES, make_model
from turns import Contestants, contest
from works import Work, works


def run(chosen: list[Work], turns: int, seconds: float) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        models = {size: Path(folder) / size for size in {work.size for work in chosen}}
        for size, path in models.items():
            make_model(path, SIZES[size])
        contestants = Contestants(models)
        results = []
        try:
            for work in chosen:
                begun = time.perf_counter()
                results.append(contest(work, contestants, turns, seconds))
                took = time.perf_counter() - begun
                sys.stderr.write(f"{page.table(results[-1:], heading=False)}    {took:.0f} s\n")
        finally:
            contestants.close()
    return results


def choose(only: list[str], peers: list[str], everything: bool, quick: bool) -> list[Work]:
    chosen = [work for work in works() if everything or work.key in only or not work.costly]
    if only:
        chosen = [work for work in chosen if any(work.key.startswith(name) for name in only)]
    if peers:
        chosen = [replace(work, peers=tuple(peer for peer in work.peers if peer.library in peers)) for work in chosen]
    if quick:
        sizes = {"small": "tiny", "base": "tiny", "causal": "tiny-causal"}
        chosen = [replace(work, size=sizes[work.size]) for work in chosen]
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="works that begin so (may be given often)")
    parser.add_argument("--peers", action="append", default=[], help="against this library only (may be given often)")
    parser.add_argument("--everything", action="store_true", help="also what takes minutes for one text")
    parser.add_argument("--quick", action="store_true", help="models of 2 × 128: does it run at all?")
    parser.add_argument("--turns", type=int, default=5, help="at most so many runs of each")
    parser.add_argument("--seconds", type=float, default=25, help="turns of one work end after so much CPU time")
    parser.add_argument("--write", type=Path, help="the page to put the tables into")
    parser.add_argument("--json", type=Path, help="a file for all numbers")
    parser.add_argument("--again", type=Path, help="print and write a run that is in such a file; nothing is measured")
    given = parser.parse_args()
    chosen = choose(given.only, given.peers, given.everything, given.quick)
    if not chosen:
        parser.error(f"no work is called {', '.join(given.only)}; there are: {', '.join(work.key for work in works())}")
    results = json.loads(given.again.read_text()) if given.again else run(chosen, given.turns, given.seconds)
    print(page.about(results))
    print(page.table(results))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))
    if given.write:
        page.write(given.write, results)


if __name__ == "__main__":
    main()
