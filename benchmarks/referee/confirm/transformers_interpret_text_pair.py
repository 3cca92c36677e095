"""Transformers Interpret's explainer of pairs fails on two texts of different lengths."""

from _tiny import model, say, tokenizer
from transformers_interpret import PairwiseSequenceClassificationExplainer

try:
    PairwiseSequenceClassificationExplainer(model(), tokenizer())("the good film", "bad plot", index=1)
except ValueError as error:
    say(True, f"ValueError: {' '.join(str(error).split())[:90]}")
say(False, "no error")
