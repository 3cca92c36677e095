"""A sweep in a process of its own: driver.py STORE ENGINE WORKERS EXPLANATIONS METRICS [ADDRESS]"""

import json
import sys

from tests.sweep.works import ladder

from troth.store.store import Store
from troth.sweep.run import run

if __name__ == "__main__":
    store, engine, workers, explanations, metrics, *address = sys.argv[1:]
    outcome = run(
        ladder(int(explanations), int(metrics), sleep=0.02, journal=f"{store}.journal"),
        Store(store),
        engine=engine,
        workers=int(workers),
        address=address[0] if address else None,
        compact_every=10,
    )
    print(json.dumps([outcome.computed, outcome.stored, outcome.complete]))
