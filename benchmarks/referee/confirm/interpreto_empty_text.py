"""Interpreto's gradients of an empty text end in an index error."""

import torch
from _tiny import model, say, tokenizer
from interpreto import Granularity, Saliency

try:
    Saliency(model(), tokenizer(), granularity=Granularity.TOKEN)([""], targets=torch.tensor([[1]]))
except IndexError as error:
    say("empty" not in str(error).lower(), f"IndexError: {' '.join(str(error).split())[:90]}")
say(False, "no error")
