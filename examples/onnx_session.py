"""Explain a model in ONNX Runtime. Here it is a linear model of word counts, exported by skl2onnx.

python examples/onnx_session.py
"""

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

import troth

data = troth.load_data("reviews")
words = CountVectorizer(dtype=np.float32)
counts = words.fit_transform([example.text for example in data]).toarray()
linear = LogisticRegression().fit(counts, [example.label for example in data])
exported = to_onnx(linear, counts[:1], options={"zipmap": False})
session = onnxruntime.InferenceSession(exported.SerializeToString())


def predict(texts):
    return session.run(["probabilities"], {"X": words.transform(texts).toarray()})[0]


model = troth.load_model(predict, labels=["negative", "positive"])
(found,) = troth.explain(model, "A slow start, but what a wonderful ending.", "leave_one_out", target="positive")
print(dict(zip(found.units, found.scores.round(2).tolist(), strict=True)))
