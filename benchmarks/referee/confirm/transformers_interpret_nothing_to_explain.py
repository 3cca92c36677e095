"""Where no word has an effect, Transformers Interpret divides by a norm of 0."""

import math

import torch
from _tiny import model, say, tokenizer
from transformers_interpret import SequenceClassificationExplainer

explained = model()
with torch.no_grad():
    explained.classifier.weight.zero_()
found = SequenceClassificationExplainer(explained, tokenizer())("good film", index=1)
say(any(math.isnan(score) for _, score in found), f"{found}")
