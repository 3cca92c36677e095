"""Compare your own method, a function that returns one score per word, with troth's methods in one table.

python examples/own_method.py
"""

import tempfile

import troth


def longest(text):
    """Scores each word by its length."""
    return [len(word) for word in text.split()]


data = troth.load_data("reviews", limit=20)
methods = {"longest": longest, "leave_one_out": "leave_one_out"}
bench = troth.bench("embedded", data, methods, ["comprehensiveness"], out=tempfile.mkdtemp(), progress=False)
print("\n".join(bench.leaderboard.answer()))
print(bench.leaderboard.require("leave_one_out beats longest"))
