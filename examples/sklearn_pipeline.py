"""Explain a scikit-learn pipeline, and test whether the explanations are faithful.

python examples/sklearn_pipeline.py
"""

import tempfile

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import troth

data = troth.load_data("reviews")
pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10))
pipeline.fit([example.text for example in data], [example.label for example in data])

model = troth.load_model(pipeline, labels=["negative", "positive"])
(found,) = troth.explain(model, "A slow start, but what a wonderful ending.", "leave_one_out", target="positive")
print(dict(zip(found.units, found.scores.round(2).tolist(), strict=True)))

test = troth.load_data("reviews", limit=20)
board = troth.bench(model, test, ["leave_one_out"], ["comprehensiveness"], tempfile.mkdtemp(), masking="delete")
print(board.require("leave_one_out beats random"))
