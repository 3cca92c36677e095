"""inseq leaves a model that was in training mode in evaluation mode."""

import inseq
from _language_model import model, say, tokenizer

network = model().train()
inseq.load_model(network, "saliency", tokenizer=tokenizer(), device="cpu")
say(not network.training, f"model.training was True and is {network.training}")
