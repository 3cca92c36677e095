"""What all contestants are given: random models with a made-up vocabulary, as folders any library loads, and texts."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PROMPT_TOKENS = 400


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    words: int = 30_000
    causal: bool = False

    @property
    def name(self) -> str:
        return f"{self.layers} × {self.width}{' causal' if self.causal else ''}"


SIZES = {
    "tiny": Size(2, 128, 2_000),
    "small": Size(6, 384),
    "base": Size(12, 768),
    "causal": Size(6, 384, 5_000, causal=True),
    "tiny-causal": Size(2, 128, 2_000, causal=True),
}

# Tokens of each text, without the two special ones.
LENGTHS = {
    "many": (20, 24, 28, 22, 30, 26, 21, 25, 29, 23, 27, 20, 30, 24, 28, 22) * 2,
    "short": (20, 26, 30, 23),
    "one": (24,),
    "beam": (12,),
    "long": (254,),
    "longest": (510,),
    "causal": (30,),
}


def make_texts(lengths: str, size: Size) -> list[str]:
    words = vocabulary(size.words)
    drawn = random.Random(lengths)
    return [" ".join(drawn.choices(words, k=length)) for length in LENGTHS[lengths]]


def make_prompt(size: Size) -> str:
    """A prompt of PROMPT_TOKENS tokens around the text."""
    words = random.Random("prompt").choices(vocabulary(size.words), k=PROMPT_TOKENS)
    return f"{' '.join(words[:-2])} {{text}} {' '.join(words[-2:])}"


def class_words(size: Size) -> list[str]:
    return vocabulary(size.words)[:2]


def vocabulary(count: int) -> list[str]:
    """Made-up words of syllables."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    drawn = random.Random(0)
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(drawn.choices(syllables, k=drawn.randint(2, 4)))] = None
    return list(words)


def make_model(folder: Path, size: Size) -> None:
    tokenizer = _causal_tokenizer(size) if size.causal else _tokenizer(size)
    tokenizer.save_pretrained(folder)
    # Transformers 5 writes a class name that 4, which some peers need, does not know.
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "tokenizer_class": "PreTrainedTokenizerFast"}))
    (_causal_model(size) if size.causal else _classifier(size)).save_pretrained(folder)


def _classifier(size: Size) -> Any:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=size.words + len(SPECIAL), hidden_size=size.width, num_hidden_layers=size.layers,
        num_attention_heads=size.width // (64 if size.width > 400 else 32), intermediate_size=4 * size.width,
        num_labels=2, initializer_range=0.08,
    )  # fmt: skip
    return BertForSequenceClassification(config)


def _causal_model(size: Size) -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=size.words + len(SPECIAL), n_embd=size.width, n_layer=size.layers, n_head=size.width // 32,
        n_positions=1024, bos_token_id=2, eos_token_id=3, pad_token_id=0, initializer_range=0.08,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def _word_piece(size: Size) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    words = [*SPECIAL, *vocabulary(size.words)]
    tokenizer = Tokenizer(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _tokenizer(size: Size) -> Any:
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    tokenizer = _word_piece(size)
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=512, **dict(zip(names, SPECIAL, strict=True))
    )


def _causal_tokenizer(size: Size) -> Any:
    from tokenizers import decoders
    from transformers import PreTrainedTokenizerFast

    tokenizer = _word_piece(size)
    tokenizer.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=1024, pad_token="[PAD]", unk_token="[UNK]", bos_token="[CLS]",
        eos_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip
