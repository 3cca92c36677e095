"""ContextCite moves PyTorch's global random generator, although it returns the same scores for every seed."""

import torch
from _language_model import model, say, tokenizer
from context_cite import ContextCiter
from context_cite.context_partitioner import BaseContextPartitioner


class Words(BaseContextPartitioner):
    def split_context(self):
        pass

    @property
    def num_sources(self):
        return len(self.context.split())

    def get_source(self, index):
        return self.context.split()[index]

    def get_context(self, mask=None):
        return " ".join(word for place, word in enumerate(self.context.split()) if mask is None or mask[place])


network, own, runs, moved = model(), tokenizer(), [], []
own.chat_template = "{{ messages[0]['content'] }}"
text = "the film was not very good"
for seed in (1, 2):
    citer = ContextCiter(
        network, own, text, "", partitioner=Words(text), prompt_template="{context}",
        generate_kwargs={"max_new_tokens": 2, "do_sample": False},
    )  # fmt: skip
    torch.manual_seed(seed)
    before = torch.get_rng_state()
    runs.append([round(float(score), 4) for score in citer.get_attributions(verbose=False)])
    moved.append(not torch.equal(torch.get_rng_state(), before))
say(all(moved), f"torch.get_rng_state() differs afterwards; the scores for two seeds are equal: {runs[0] == runs[1]}")
