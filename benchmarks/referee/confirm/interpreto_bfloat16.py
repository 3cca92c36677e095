"""Interpreto's integrated gradients of a model in bfloat16 end in an error about types."""

import torch
from _tiny import model, say, tokenizer
from interpreto import IntegratedGradients

try:
    IntegratedGradients(model().to(torch.bfloat16), tokenizer())(["not very good film"], targets=torch.tensor([[1]]))
except RuntimeError as error:
    say("dtype" in str(error), f"RuntimeError: {' '.join(str(error).split())[:90]}")
say(False, "no error")
