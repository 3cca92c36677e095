"""Which explainer is the most faithful on your model and data? Runs a small bench and prints its conclusions.

python examples/choose_a_method.py
"""

import tempfile

import troth

data = troth.load_data("reviews", limit=20)  # or your csv: examples/own_data.py
methods = ["leave_one_out", "gradient"]  # random explanations are added
bench = troth.bench("embedded", data, methods, ["aopc_comprehensiveness"], out=tempfile.mkdtemp(), progress=False)
print("\n".join(bench.leaderboard.answer()))
print(bench.leaderboard.to_markdown())
