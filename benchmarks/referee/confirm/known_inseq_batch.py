"""inseq#110: are a text's scores in a batch those that it gets alone?"""

import inseq
import numpy as np
from _language_model import model, say, tokenizer

explainer = inseq.load_model(model(), "integrated_gradients", tokenizer=tokenizer(), device="cpu")
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
say(
    max(gaps) > 0.01, f"the scores differ by {max(gaps):.2%} of the largest; lengths {[len(each) for each in together]}"
)
