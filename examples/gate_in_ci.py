"""Fail a build when explanations are no longer faithful.

python examples/gate_in_ci.py      exit code 0: met, 1: not met, 3: too few texts to tell
"""

import sys
import tempfile

import troth

data = troth.load_data("reviews", limit=40)
bench = troth.bench("embedded", data, ["leave_one_out"], ["comprehensiveness"], tempfile.mkdtemp(), progress=False)
required = bench.leaderboard.require("leave_one_out beats random")
print(required)
sys.exit({True: 0, False: 1, None: 3}[required.met])
