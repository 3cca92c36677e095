"""Transformers Interpret gives the last [SEP] of a single text the token type of a second text."""

from _tiny import model, say, tokenizer
from transformers_interpret import SequenceClassificationExplainer

own = tokenizer()
explainer = SequenceClassificationExplainer(model(), own)
explainer("not very good", index=1)
theirs, ours = explainer.token_type_ids[0].tolist(), own("not very good")["token_type_ids"]
say(theirs != ours, f"token types {theirs}, of the tokenizer {ours}")
