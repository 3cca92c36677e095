"""Interpreto's gradients, which sample nothing, move Python's global random generator."""

import random

import torch
from _tiny import model, say, tokenizer
from interpreto import Saliency

explained, own = model(), tokenizer()
random.seed(1)
before = random.getstate()
Saliency(explained, own)(["not very good film"], targets=torch.tensor([[1]]))
say(random.getstate() != before, "random.getstate() differs afterwards")
