"""Bytes of one emoji share offsets, so SHAP's masker repeats the character in the text that it builds: shap#2849."""

import numpy as np
import shap
from _tiny import say
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
made = Tokenizer(models.BPE({token: place for place, token in enumerate(["<pad>", "<mask>", *alphabet])}, []))
made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
made.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", mask_token="<mask>")

text = "a 🙂 b"
masker = shap.maskers.Text(tokenizer)
count = len(tokenizer(text)["input_ids"])
(whole,) = masker(np.ones(count, bool), text)
say(whole[0] != text, f"with every token kept, {text!r} is read as {whole[0]!r}")
