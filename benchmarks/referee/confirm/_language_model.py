"""A small random GPT-2 and its tokenizer, made with transformers alone: nothing of troth is imported here."""

from __future__ import annotations

import torch
from _tiny import WORDS, say
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

__all__ = ["model", "say", "tokenizer"]
TOKENS = ["<pad>", "<unk>", "<eos>", *WORDS]


def tokenizer(longest: int = 32) -> PreTrainedTokenizerFast:
    ids = {token: place for place, token in enumerate(TOKENS)}
    made = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "<eos>", "bos_token": "<eos>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, padding_side="left", model_max_length=longest, **names)


def model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": len(TOKENS), "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
    made = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=2, eos_token_id=2)).eval()
    for parameter in made.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0, 0.3)
    return made
