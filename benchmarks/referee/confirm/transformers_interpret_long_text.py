"""A text that is longer than the model reads ends in an index error, in Transformers Interpret."""

from _tiny import model, say, tokenizer
from transformers_interpret import SequenceClassificationExplainer

try:
    SequenceClassificationExplainer(model(), tokenizer())("film " * 40, index=1)
except Exception as error:  # whatever it is
    said = f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"
    say(not any(sign in said.lower() for sign in ("trunc", "long")), said)
say(False, "no error")
