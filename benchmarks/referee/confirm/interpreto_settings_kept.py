"""Interpreto writes the tokenizer's padding id into the configuration of a model that has none."""

import torch
from _tiny import model, say, tokenizer
from interpreto import Saliency

explained = model(pad_token_id=None)
before = explained.config.pad_token_id
Saliency(explained, tokenizer())(["not very good film"], targets=torch.tensor([[1]]))
after = explained.config.pad_token_id
say(before != after, f"config.pad_token_id was {before} and is {after}")
