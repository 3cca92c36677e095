"""For a tokenizer without a mask token, Interpreto adds a token to the user's tokenizer and a row to the embeddings."""

import torch
from _tiny import model, say, tokenizer
from interpreto import Occlusion

explained, own = model(), tokenizer(mask=False)
before = len(own), explained.get_input_embeddings().num_embeddings
Occlusion(explained, own)(["film good"], targets=torch.tensor([[1]]))
after = len(own), explained.get_input_embeddings().num_embeddings
say(before != after, f"tokens in the tokenizer and rows of the embeddings: {before} before, {after} afterwards")
