"""ferret turns a gradient in bfloat16 into a NumPy array, which has no such type."""

import torch
from _tiny import model, say, tokenizer
from ferret.explainers.gradient import GradientExplainer

try:
    GradientExplainer(model().to(torch.bfloat16), tokenizer())("not very good film", target=1)
except TypeError as error:
    say("BFloat16" in str(error), f"TypeError: {error}")
say(False, "no error")
