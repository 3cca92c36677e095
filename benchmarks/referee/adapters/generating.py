"""A classifier as a language model, for libraries that explain what a model generates.

The prompt is the text and the next token is its class: a class's logit is the logit of the word that stands for it.
The model itself appends the tokenizer's closing token to the prompt, as a template does, and it uses the attention
mask, so padding on the left (as generation needs it) does not change what the classifier reads.
"""

from __future__ import annotations

import copy

import torch
from tokenizers import processors
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

# What follows the prompt, one per class: a single token with every tokenizer.
ANSWERS = ((" it", " is", " and", " was"), ("0", "1", "2", "3"))
NOT_GENERATING = {
    "one_label_of_several": "a language model has no labels that exclude each other or not",
    "token_types": "language models have no token types",
    "text_pair": "language models read one text",
    "settings_kept": "the library gets a copy of the configuration",
    "tokenizer_kept": "the library gets a copy of the tokenizer, without its closing token",
}


class LanguageModel(PreTrainedModel, GenerationMixin):
    main_input_name = "input_ids"
    _supports_sdpa = True

    def __init__(self, classifier, tokenizer, says=None):
        config = copy.deepcopy(classifier.config)
        self.tokenizer, end = _open_ended(tokenizer)
        config.pad_token_id = self.tokenizer.pad_token_id
        config.bos_token_id = self.tokenizer("")["input_ids"][0]
        config.eos_token_id = tokenizer.eos_token_id if end is None else end
        super().__init__(config)
        self.classifier, self.end = classifier, end
        self.texts = next(each for each in ANSWERS if len(self._ids(f"a{each[0]}")) == len(self._ids("a")) + 1)
        self.answers = [self._ids(f"a{text}")[-1] for text in self.texts]
        self.training, self.says = classifier.training, says

    def _ids(self, text):
        return self.tokenizer(text)["input_ids"]

    def get_input_embeddings(self):
        return self.classifier.get_input_embeddings()

    def forward(self, input_ids=None, attention_mask=None, inputs_embeds=None, **others):
        embeddings = self.get_input_embeddings()
        vectors = embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        rows, length, size = vectors.shape
        mask = torch.ones(rows, length, dtype=torch.long) if attention_mask is None else attention_mask
        if self.says is not None:  # the prompt and the response: only the prompt is read to predict it
            vectors, mask = vectors[:, :-1], mask[:, :-1]
        counts = mask.sum(1, keepdim=True)
        # Padding moves to the right, where the classifier does not see it.
        order = mask.argsort(dim=1, descending=True, stable=True)
        vectors = vectors.gather(1, order[..., None].expand(-1, -1, size))
        if self.end is not None:
            places = torch.arange(vectors.shape[1] + 1).expand(rows, -1)
            vectors = torch.cat([vectors, torch.zeros_like(vectors[:, :1])], 1)
            vectors = torch.where((places == counts)[..., None], embeddings(torch.tensor(self.end)), vectors)
            counts = counts + 1
        read = (torch.arange(vectors.shape[1]) < counts).long()
        found = self.classifier(inputs_embeds=vectors, attention_mask=read).logits
        logits = torch.full((rows, 1, embeddings.num_embeddings), -1e4, dtype=found.dtype)
        logits[:, 0, self.answers[: found.shape[1]]] = found
        return CausalLMOutput(logits=logits.expand(-1, length, -1))

    def generate(self, input_ids, **options):
        """The response is the class that is asked about, whatever the prompt."""
        said = torch.full_like(input_ids[:, :1], self.answers[self.says])
        return torch.cat([input_ids, said], 1)

    def answer(self, target):
        """The text of the next token."""
        return self.texts[target]

    def spans(self, prompt):
        """The characters of each token of the prompt, without the opening token."""
        encoded = self.tokenizer(prompt, return_offsets_mapping=True)
        return [
            span for span, owner in zip(encoded["offset_mapping"], encoded.sequence_ids(), strict=True) if owner == 0
        ]


def _open_ended(tokenizer):
    """A copy of the tokenizer that adds no closing token and pads on the left, and the closing token's id."""
    own = copy.deepcopy(tokenizer)
    ids = tokenizer("")["input_ids"]
    begin = tokenizer.convert_ids_to_tokens(ids[0])
    own.backend_tokenizer.post_processor = processors.TemplateProcessing(f"{begin} $A", None, [(begin, ids[0])])
    own.padding_side = "left"
    return own, ids[-1] if len(ids) > 1 else None
