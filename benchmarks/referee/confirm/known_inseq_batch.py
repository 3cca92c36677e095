"""inseq#110: are a text's scores in a batch those that it gets alone?"""

import inseq
import numpy as np
import torch
from _tiny import WORDS, say
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

tokens = ["<pad>", "<unk>", "<eos>", *WORDS]
made = Tokenizer(models.WordLevel({token: place for place, token in enumerate(tokens)}, unk_token="<unk>"))
made.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=made,
    pad_token="<pad>",
    unk_token="<unk>",
    eos_token="<eos>",
    bos_token="<eos>",
    padding_side="left",
)
torch.manual_seed(0)
network = GPT2LMHeadModel(
    GPT2Config(vocab_size=len(tokens), n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=2, eos_token_id=2)
).eval()
for parameter in network.parameters():
    if parameter.dim() > 1:
        torch.nn.init.normal_(parameter, 0, 0.3)
explainer = inseq.load_model(network, "integrated_gradients", tokenizer=tokenizer, device="cpu")
texts = ["the film was", "it was not a very good"]


def scores(given):
    out = explainer.attribute(given, [f"{text} plot" for text in given], show_progress=False, n_steps=50)
    return [each.target_attributions.sum(-1)[:, -1].nan_to_num().numpy() for each in out.sequence_attributions]


together = scores(texts)
gaps = []
for text, found in zip(texts, together, strict=True):
    (alone,) = scores([text])
    count = min(len(alone), len(found))
    gaps.append(float(np.abs(alone[-count:] - found[-count:]).max() / np.abs(alone).max()))
say(max(gaps) > 0.01, f"the scores differ by {max(gaps):.2%} of the largest")
