"""A causal language model that retrieves by rule: after some letters it writes what followed them before."""

from types import SimpleNamespace

import torch
from transformers import GPT2Config, PreTrainedModel

import fakes

ORDER = 6  # letters that must be the same
SURE = 8.0


class Retriever(PreTrainedModel):
    """Of the next token those are likely that stood behind the last six tokens anywhere before, however often."""

    config_class = GPT2Config

    def __init__(self, config):
        super().__init__(config)
        self.head = torch.nn.Linear(1, config.vocab_size, bias=False)

    def get_input_embeddings(self):
        return torch.nn.Embedding.from_pretrained(self.head.weight)

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, **_):
        length = input_ids.shape[1]
        padded = torch.nn.functional.pad(input_ids, (ORDER - 1, 0), value=-1)
        before = padded.unfold(1, ORDER, 1)  # [rows, length, ORDER]
        same = (before[:, :, None] == before[:, None]).all(-1) & torch.ones(length, length).tril(-1).bool()
        following = torch.nn.functional.one_hot(input_ids.roll(-1, 1), self.config.vocab_size).float()
        return SimpleNamespace(logits=SURE * ((same.float() @ following) > 0).float(), past_key_values=None)


def retriever():
    """The model and its tokenizer, in which most letters are tokens."""
    tokenizer = fakes.end_of_text()
    tokenizer.model_max_length = 4096
    return Retriever(GPT2Config(vocab_size=len(tokenizer), n_positions=4096, bos_token_id=0, eos_token_id=0)), tokenizer
