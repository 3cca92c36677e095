"""Explain a linear classifier on sentence embeddings.

python examples/sentence_transformers_head.py [MODEL]
"""

import sys

from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression

import troth

data = troth.load_data("reviews", limit=200)
encoder = SentenceTransformer(sys.argv[1] if len(sys.argv) > 1 else "all-MiniLM-L6-v2")
vectors = encoder.encode([example.text for example in data])
head = LogisticRegression(max_iter=1000).fit(vectors, [example.label for example in data])

model = troth.load_model(lambda texts: head.predict_proba(encoder.encode(texts)), labels=["negative", "positive"])
(found,) = troth.explain(model, "A slow start, but what a wonderful ending.", "leave_one_out", target="positive")
print(dict(zip(found.units, found.scores.round(2).tolist(), strict=True)))
