"""Explain a spaCy text classifier.

python examples/spacy_classifier.py
"""

import numpy as np
import spacy
from spacy.training import Example

import troth

LABELS = ["negative", "positive"]
spacy.util.fix_random_seed(0)
nlp = spacy.blank("en")
nlp.add_pipe("textcat")
cats = [{"negative": float(each.label == 0), "positive": float(each.label == 1)} for each in troth.load_data("reviews")]
texts = [each.text for each in troth.load_data("reviews")]
examples = [Example.from_dict(nlp.make_doc(text), {"cats": cat}) for text, cat in zip(texts, cats, strict=True)]
nlp.initialize(lambda: examples)
for start in [*range(0, len(examples), 32)] * 2:
    nlp.update(examples[start : start + 32])


def predict(texts):
    return np.array([[doc.cats[label] for label in LABELS] for doc in nlp.pipe(texts)])


model = troth.load_model(predict, labels=LABELS)
(found,) = troth.explain(model, "A slow start, but what a wonderful ending.", "leave_one_out", target="positive")
print(dict(zip(found.units, found.scores.round(2).tolist(), strict=True)))
