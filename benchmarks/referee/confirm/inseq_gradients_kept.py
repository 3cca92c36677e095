"""inseq sets the gradients that a model's parameters hold to None."""

import inseq
import torch
from _language_model import model, say, tokenizer

network = model()
for parameter in network.parameters():
    parameter.grad = torch.ones_like(parameter)
explainer = inseq.load_model(network, "input_x_gradient", tokenizer=tokenizer(), device="cpu")
explainer.attribute("the film was", "the film was plot", show_progress=False)
changed = [each for each in network.parameters() if each.grad is None or not bool((each.grad == 1).all())]
count = len(list(network.parameters()))
say(bool(changed), f"the gradients of {len(changed)} of {count} parameters changed")
