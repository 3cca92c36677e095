"""inseq cuts a prompt that is too long without a warning, and then ends in an error about positions."""

import warnings

import inseq
from _language_model import model, say, tokenizer

explainer = inseq.load_model(model(), "saliency", tokenizer=tokenizer(), device="cpu")
text = " ".join(["film"] * 40)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        explainer.attribute(text, f"{text} plot", show_progress=False)
    except ValueError as error:
        said = " ".join([str(error), *(str(each.message) for each in caught)]).lower()
        say(not any(sign in said for sign in ("trunc", "too long", "max_length")), f"ValueError: {error}")
say(False, "no error")
