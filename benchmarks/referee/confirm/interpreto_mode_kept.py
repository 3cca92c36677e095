"""Interpreto leaves a model that was in training mode in evaluation mode."""

import torch
from _tiny import model, say, tokenizer
from interpreto import Saliency

explained = model().train()
Saliency(explained, tokenizer())(["not very good film"], targets=torch.tensor([[1]]))
say(not explained.training, f"model.training was True and is {explained.training}")
