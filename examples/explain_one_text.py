"""Explain one text: which words led to the classifier's decision, and how faithful is the explanation?

python examples/explain_one_text.py [MODEL]        a folder or a hub name; by default the model that comes with troth
"""

import sys

import troth

model = troth.load_model(sys.argv[1] if len(sys.argv) > 1 else "embedded")
text = "A slow start, but what a wonderful ending."
explained = troth.explain(model, text, ["leave_one_out", "integrated_gradients"])
for name, (found,) in explained.items():
    print(name, {unit: round(float(score), 2) for unit, score in zip(found.units, found.scores, strict=True)})
    proof = troth.prove(model, [found])[0].proof
    print(f"without its top fifth: {proof.probability:.0%} -> {proof.without_top:.0%}, without random words: ", end="")
    print(f"{proof.random_low:.0%} to {proof.random_high:.0%}")
