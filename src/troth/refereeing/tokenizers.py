"""Small tokenizers of the kinds that break attribution code: unusual ids, special tokens, word pieces and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

WORDS = (
    "good", "bad", "great", "dull", "very", "not", "film", "plot", "the", "a", "was", "it", "is", "and", "cast",
    "really",
)  # fmt: skip
PIECES = ("un", "##lov", "##able", "cafe", ".", "!")
LONGEST = 24  # tokens that the models read


def wordpiece(*, words_first: bool = False) -> Any:
    """[CLS] text [SEP] second text [SEP] in lower case, like BERT's; with `words_first`, id 0 is a word.

    >>> [wordpiece(words_first=first).pad_token_id for first in (False, True)]
    [0, 22]
    """
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    tokens = (*WORDS, *PIECES, *special) if words_first else (*special, *WORDS, *PIECES)
    ids = {token: place for place, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return _fast(tokenizer, dict(zip(names, special, strict=True)), inputs)


def byte_level() -> Any:
    """<s> text </s></s> second text </s> over bytes, like RoBERTa's: the padding id is 1, an emoji is four tokens."""
    special = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    merges: list[tuple[str, str]] = []
    for word in (*WORDS, *(f"Ġ{word}" for word in WORDS)):
        merges += [(word[:end], word[end]) for end in range(1, len(word))]
    merges = list(dict.fromkeys(merges))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {
        token: place
        for place, token in enumerate(dict.fromkeys([*special, *alphabet, *(left + right for left, right in merges)]))
    }
    tokenizer = Tokenizer(models.BPE(ids, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=False
    )
    names = ("cls_token", "pad_token", "sep_token", "unk_token", "mask_token")
    named: dict[str, Any] = dict(zip(names, special, strict=True)) | {"bos_token": "<s>", "eos_token": "</s>"}
    # Includes the blank before it, like RoBERTa's.
    named["mask_token"] = AddedToken("<mask>", lstrip=True, special=True)
    return _fast(tokenizer, named, ["input_ids", "attention_mask"])


def begin_only() -> Any:
    """<s> text, like Llama's: no token at the end, no padding token and no mask token."""
    special = ("<unk>", "<s>", "</s>")
    tokens = [*special, *(f"▁{word}" for word in WORDS), "▁", *"abcdefghijklmnopqrstuvwxyz."]
    scores = [0.0] * 3 + [-1.0] * len(WORDS) + [-20.0] * 28
    tokenizer = Tokenizer(models.Unigram(list(zip(tokens, scores, strict=True)), unk_id=0))
    tokenizer.add_special_tokens(list(special))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    names = dict(zip(("unk_token", "bos_token", "eos_token"), special, strict=True))
    return _fast(tokenizer, names, ["input_ids", "attention_mask"])


def _fast(tokenizer: Tokenizer, special: Mapping[str, Any], inputs: Sequence[str]) -> Any:
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, model_max_length=LONGEST, model_input_names=list(inputs), **special
    )


def ids_of(tokenizer: Any, word: str) -> list[int]:
    """The ids of a word at the beginning of a text and after a space."""
    vocabulary = tokenizer.get_vocab()
    return [vocabulary[written] for written in (word, f"Ġ{word}", f"▁{word}") if written in vocabulary]
