"""Builds a word-level tokenizer from texts and reads pretrained word vectors for it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import nn
from transformers import PreTrainedTokenizerFast

from troth.core import reading
from troth.core.errors import TrothError

_VECTORS = 4 * reading.DATA  # limit of the file's size; only the lines of known words are kept
SPECIAL = {
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "eos_token": "[EOS]",
    "mask_token": "[MASK]",
    "unk_token": "[UNK]",
}
# Splits English as the Penn Treebank and GloVe do: do n't, film 's, well-made; punctuation marks are tokens.
_WORD = r"\w+?(?=n['’]t\b)|n['’]t\b|['’](?:s|re|ve|m|ll|d)\b|\w+(?:-\w+)*|[^\w\s]"


def word_tokenizer(
    texts: Iterable[str], *, lowercase: bool = True, minimum_count: int = 1, max_length: int = 512
) -> PreTrainedTokenizerFast:
    """[CLS] text [EOS], for pairs [CLS] first [EOS] [CLS] second [EOS]; PAD, CLS, EOS, MASK, UNK are 0 to 4.

    Words seen less often than `minimum_count` are [UNK].
    """
    normalizer = normalizers.Sequence([normalizers.NFC(), *([normalizers.Lowercase()] if lowercase else [])])
    splitter = pre_tokenizers.Split(Regex(_WORD), behavior="removed", invert=True)
    counts = Counter(word for text in texts for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    # Most frequent first, then alphabetically: the same texts give the same ids.
    words = sorted((word for word, count in counts.items() if count >= minimum_count), key=lambda w: (-counts[w], w))
    pieces = dict.fromkeys([*SPECIAL.values(), *words])
    tokenizer = Tokenizer(models.WordLevel({piece: index for index, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [EOS]", "[CLS] $A [EOS] [CLS]:1 $B:1 [EOS]:1", [("[CLS]", 1), ("[EOS]", 2)]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        sep_token="[EOS]",
        **SPECIAL,
    )


def put_vectors(
    embedding: nn.Embedding, tokenizer: Any, vectors: Mapping[str, list[float]], *, others: Literal["drawn", "zero"]
) -> None:
    """Writes the vectors of known words into an embedding; other words get 0 or random vectors with the same spread."""
    # Sorted by index, because the vocabulary has no fixed order and the sum depends on it.
    words = sorted((index, word) for word, index in tokenizer.get_vocab().items())
    known = {index: vectors[word] for index, word in words if word in vectors}
    found = torch.tensor(list(known.values()))
    with torch.no_grad():
        embedding.weight.normal_(0, float(found.std()) if others == "drawn" else 0.0)
        embedding.weight[torch.tensor(list(known))] = found
        if embedding.padding_idx is not None:
            embedding.weight[embedding.padding_idx] = 0


def read_vectors(path: str | Path, words: Iterable[str]) -> dict[str, list[float]]:
    """Reads the vectors of some words from a text file (GloVe, fastText; also .gz) or from JSON that maps words to
    numbers.
    """
    file = Path(path)
    if not file.is_file():
        raise TrothError(f"there is no file {path} of word vectors")
    return _read_once(file, file.stat().st_mtime_ns, frozenset(words))


@lru_cache(maxsize=1)  # several seeds of a model read the same vectors
def _read_once(file: Path, _changed: int, wanted: frozenset[str]) -> dict[str, list[float]]:
    found = dict(_from_json(file, wanted) if file.suffix == ".json" else _from_text(file, wanted))
    sizes = {len(vector) for vector in found.values()}
    if len(sizes) > 1:
        raise TrothError(f"{file.name}: vectors of different sizes ({', '.join(map(str, sorted(sizes)))})")
    return found


def _from_json(file: Path, wanted: frozenset[str]) -> Iterator[tuple[str, list[float]]]:
    try:
        content = reading.json_of(file, reading.DATA)
    except ValueError as problem:
        raise TrothError(f"{file.name} is not a JSON file of word vectors ({str(problem)[:80]})") from None
    # Some packages wrap the vectors and append other numbers; `dimensions` says where a vector ends.
    vectors, size = (content["vectors"], content.get("dimensions")) if "vectors" in content else (content, None)
    return ((word, vectors[word][:size]) for word in wanted if word in vectors)


def _from_text(file: Path, wanted: frozenset[str]) -> Iterator[tuple[str, list[float]]]:
    for number, line in enumerate(reading.lines(file, _VECTORS), start=1):
        word, _, rest = line.rstrip("\r\n").partition(" ")
        # The first line of a fastText file is its size.
        if word not in wanted or (number == 1 and rest.strip().isdigit()):
            continue
        try:
            yield word, [float(part) for part in rest.split()]
        except ValueError:
            raise TrothError(f"{file.name}: line {number} has no numbers after its word") from None
