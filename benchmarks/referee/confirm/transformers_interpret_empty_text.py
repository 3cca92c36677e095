"""Transformers Interpret gives NaN for an empty text."""

import math

from _tiny import model, say, tokenizer
from transformers_interpret import SequenceClassificationExplainer

found = SequenceClassificationExplainer(model(), tokenizer())("", index=1)
say(any(math.isnan(score) for _, score in found), f"{found}")
