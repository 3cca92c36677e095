"""A small random BERT and its tokenizer, made with transformers alone: nothing of troth is imported here."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["good", "bad", "great", "dull", "very", "not", "film", "plot", "the", "a", "was", "it", "is", "and", "cast"]


def tokenizer(longest: int = 24, mask: bool = True) -> PreTrainedTokenizerFast:
    ids = {token: place for place, token in enumerate([*SPECIAL, *WORDS])}
    made = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", *(["mask_token"] if mask else []))
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        model_max_length=longest,
        model_input_names=inputs,
        **dict(zip(names, SPECIAL, strict=False)),
    )


def model(labels: int = 3, seed: int = 0, **options) -> BertForSequenceClassification:
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=24, num_labels=labels, **options,
    )  # fmt: skip
    made = BertForSequenceClassification(config)
    for parameter in made.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0, 0.3)
    return made.eval()


def say(shown: bool, what: str) -> None:
    """One line, and exit code 0 where the fault shows."""
    print(f"{'shown' if shown else 'not shown'}: {what}")
    raise SystemExit(0 if shown else 1)
