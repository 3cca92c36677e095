"""ferret's SHAP shows the model a text with repeated emoji, as SHAP's masker builds it: shap#2849."""

import torch
from _tiny import say
from ferret.explainers.shap import SHAPExplainer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForSequenceClassification

alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
made = Tokenizer(models.BPE({token: place for place, token in enumerate(["<pad>", "<mask>", *alphabet])}, []))
made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
made.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", mask_token="<mask>")
torch.manual_seed(0)
config = RobertaConfig(
    vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=40, pad_token_id=0,
)  # fmt: skip
network = RobertaForSequenceClassification(config).eval()

text, read = "a 🙂 b", []
explainer = SHAPExplainer(network, tokenizer)
forward = explainer.helper._forward


def recorded(texts, *arguments, **options):
    read.extend(map(str, texts))
    return forward(texts, *arguments, **options)


explainer.helper._forward = recorded
explainer(text, target=1)
longest = max(read, key=lambda each: each.count("🙂"))
say(longest.count("🙂") > 1, f"the model is asked about {longest!r} to explain {text!r}")
