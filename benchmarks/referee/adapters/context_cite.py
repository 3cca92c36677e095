"""ContextCite explains a model's response by parts of its context; here the context is the text, cut at its blanks."""

from __future__ import annotations

import re

from context_cite import ContextCiter
from context_cite.context_partitioner import BaseContextPartitioner

from adapters.base import claiming, single
from adapters.generating import NOT_GENERATING, LanguageModel

PACKAGES = ("context-cite",)


class Words(BaseContextPartitioner):
    """The words between blanks; ContextCite's own partitioner needs data that NLTK downloads."""

    def __init__(self, context):
        super().__init__(context)
        self.split_context()

    def split_context(self):
        self.spans = [match.span() for match in re.finditer(r"\S+", self.context)]

    @property
    def num_sources(self):
        return len(self.spans)

    def get_source(self, index):
        return self.context[slice(*self.spans[index])]

    def get_context(self, mask=None):
        if mask is None:
            return self.context
        return " ".join(source for source, kept in zip(self.sources, mask, strict=True) if kept)


# Random ablations and a sparse regression: no score is exact.
@claiming(
    left_out={**NOT_GENERATING, "long_text": "it reads only ablations of the text, and those are short enough here"}
)
def context_citer(model, tokenizer, texts, target):
    network = LanguageModel(model, tokenizer, says=target)
    begin = network.tokenizer.convert_ids_to_tokens(network.config.bos_token_id)
    network.tokenizer.chat_template = begin + "{{ messages[0]['content'] }}"
    results = []
    for text in texts:
        words = Words(single(text))
        citer = ContextCiter(network, network.tokenizer, text, "", partitioner=words, prompt_template="{context}")
        scores = citer.get_attributions(verbose=False)
        results.append(list(zip(words.spans, map(float, scores), strict=True)))
    return results


METHODS = {"ContextCiter": context_citer}
