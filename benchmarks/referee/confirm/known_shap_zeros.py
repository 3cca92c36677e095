"""shap#3217: with a tokenizer that writes <s> before the text and nothing after it, as Llama's, all values were 0."""

import numpy as np
import shap
from _tiny import WORDS, say
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

tokens = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), *((f"▁{word}", -1.0) for word in WORDS), ("▁", -9.0)]
made = Tokenizer(models.Unigram([*tokens, *((letter, -20.0) for letter in "abcdefghijklmnopqrstuvwxyz.")], unk_id=0))
made.add_special_tokens(["<unk>", "<s>", "</s>"])
made.pre_tokenizer = pre_tokenizers.Metaspace()
made.decoder = decoders.Metaspace()
made.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


def value(texts):
    return np.array([[2.0 * ("good" in text) - ("bad" in text)] for text in texts])


values = shap.Explainer(value, shap.maskers.Text(tokenizer), silent=True)(["good film"]).values
say(not np.abs(values).max() > 0, f"values {np.round(values[0, :, 0], 3).tolist()} for <s> good film")
