"""Small models the tests build: a lookup table with logits written in the test, and random ones of every family."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (
    AlbertConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    ModernBertConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
    RobertaConfig,
    XLMRobertaConfig,
)

from troth.attribution_model import saving
from troth.attribution_model.model import AttributionModel, from_model
from troth.core.types import Example, Question
from troth.maskings.mask_token import MaskToken
from troth.models.black_box import BlackBox
from troth.models.encoder import Encoder
from troth.models.prompted import Prompted

CORPUS = [
    "a good film with a great cast and a bad ending",
    "not a bad book , but the plot was dull and slow",
    "the soup was cold , the service awful , the bill absurd",
    "my new phone is fast , bright and a joy to use",
    "why would anyone pay for this ? nobody should !",
    "is the film good ? the book was better , honestly .",
    "don't waste $3.50 on it ; it's well-made but unlovable",
]
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
FAMILIES = ("bert", "roberta", "xlm_roberta", "distilbert", "albert", "electra", "deberta_v2", "modernbert")


WORDS = sorted({word for line in CORPUS for word in line.replace("'", " ' ").replace("$", " $ ").split()})
LETTERS = sorted(set("".join(CORPUS)) - {" "})


def wordpiece() -> PreTrainedTokenizerFast:
    """[CLS] text [SEP] pair [SEP], lower case, as BERT's."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = dict.fromkeys([*special, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "##ing", "##ful"])
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ids = [("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]"))]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ids)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=64,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True)),
    )


def byte_level() -> PreTrainedTokenizerFast:
    """<s> text </s></s> pair </s>, byte-level BPE, as RoBERTa's."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    merges = [
        ("Ġ", "a"),
        ("t", "h"),
        ("Ġ", "th"),
        ("Ġth", "e"),
        ("o", "o"),
        ("Ġ", "g"),
        ("Ġg", "oo"),
        ("i", "s"),
        ("o", "k"),
    ]
    pieces = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), *(left + right for left, right in merges)]
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    ids = [(token, tokenizer.token_to_id(token)) for token in ("</s>", "<s>")]
    tokenizer.post_processor = processors.RobertaProcessing(ids[0], ids[1], trim_offsets=True, add_prefix_space=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=64,
        model_input_names=["input_ids", "attention_mask"],
        **dict(zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), special, strict=True)),
        cls_token="<s>",
        sep_token="</s>",
    )


def unigram() -> PreTrainedTokenizerFast:
    """[CLS] text [SEP] pair [SEP] over a sentence-piece vocabulary, as ALBERT's and DeBERTa's."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    pieces = dict.fromkeys([*special, "▁", *LETTERS, *(f"▁{word}" for word in WORDS if word.isalpha())])
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - len(piece) / 9) for piece in pieces], unk_id=3))
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    ids = [("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]"))]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ids)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=64,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **dict(zip(("pad_token", "cls_token", "sep_token", "unk_token", "mask_token"), special, strict=True)),
    )


@lru_cache
def tokenizer_for(family: str) -> PreTrainedTokenizerFast:
    if family in ("roberta", "modernbert"):
        return byte_level()
    return unigram() if family in ("albert", "deberta_v2", "xlm_roberta") else wordpiece()


def hf_model(family: str = "bert", classes: int = 3, seed: int = 0, **options):
    """A random transformers classifier; its weights are spread out so that every input matters."""
    tokenizer = tokenizer_for(family)
    own = {"vocab_size": len(tokenizer), "num_labels": classes, "pad_token_id": tokenizer.pad_token_id}
    common = {**SIZES, **own, **options}
    if family == "distilbert":
        names = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 64}
        config = DistilBertConfig(
            **names, vocab_size=len(tokenizer), num_labels=classes, pad_token_id=tokenizer.pad_token_id, **options
        )
    elif family == "deberta_v2":
        config = DebertaV2Config(
            **common, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, type_vocab_size=2
        )
    elif family == "modernbert":
        config = ModernBertConfig(
            **common, bos_token_id=0, eos_token_id=2, cls_token_id=0, sep_token_id=2, global_attn_every_n_layers=2,
            local_attention=8,
        )  # fmt: skip
    else:
        configs = {
            "bert": BertConfig,
            "roberta": RobertaConfig,
            "xlm_roberta": XLMRobertaConfig,
            "albert": AlbertConfig,
            "electra": ElectraConfig,
        }
        extra = {"embedding_size": 8} if family in ("albert", "electra") else {}
        config = configs[family](**common, **extra)
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model.eval()


@lru_cache
def encoder(family: str = "bert", classes: int = 3, seed: int = 0) -> Encoder:
    """A troth model around a random classifier."""
    return Encoder(hf_model(family, classes, seed), tokenizer_for(family), name=f"tiny {family}")


def partly_erased(model, target: int = 1) -> Question:
    """A question about the first text of the corpus, of which every third unit is masked."""
    (encoding,) = model.encode([Example("one", CORPUS[0])])
    left = torch.ones(encoding.n_units)
    left[::3] = 0
    return Question(encoding, target).erased(left, MaskToken())


CAUSAL = {
    "gpt2": GPT2Config,
    "llama": LlamaConfig,
    "mistral": MistralConfig,
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
}
PROMPTS = {
    "gpt2": "Is the text good?\nText: {text}\nLabel:",
    "llama": "is the film good or bad ? the book : {text} it is",
}
CLASS_WORDS = ["good", "bad", "the"]


def sentence_piece() -> PreTrainedTokenizerFast:
    """<s> text over a sentence-piece vocabulary with a real <unk>, as Llama's."""
    special = ["<unk>", "<s>", "</s>"]
    pieces = dict.fromkeys([*special, "▁", *LETTERS, *(f"▁{word}" for word in WORDS if word.isalpha())])
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - len(piece) / 9) for piece in pieces], unk_id=0))
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    names = dict(zip(("unk_token", "bos_token", "eos_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names)


def end_of_text(*more: str) -> PreTrainedTokenizerFast:
    """Byte-level BPE whose only special token is begin, end and unknown at once, as GPT-2's."""
    merges: list[tuple[str, str]] = []
    for word in ("Ġ_", "Ġgood", "Ġbad", "Ġthe", "Ġa", "Ġfilm", "Ġwas", ".Ċ", *more):
        merges += [(word[:end], word[end]) for end in range(1, len(word))]
    merges = list(dict.fromkeys(merges))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = dict.fromkeys(["<|endoftext|>", *alphabet, *(left + right for left, right in merges)])
    tokenizer = Tokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, merges))
    # As GPT-2 cuts words, but a full stop may merge with the line's end.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?[^\s.]+|\.\n|\.|\s+(?!\S)|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    names = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **names)


@lru_cache
def causal_tokenizer(family: str = "llama") -> PreTrainedTokenizerFast:
    return end_of_text() if family in ("gpt2", "qwen2", "qwen3") else sentence_piece()


def causal_model(family: str = "llama", seed: int = 0, head: bool = False, **options):
    """A random decoder, with a language head or, `head=True`, one of three classes."""
    tokenizer = causal_tokenizer(family)
    sizes = dict(SIZES, max_position_embeddings=128, vocab_size=len(tokenizer), bos_token_id=1, eos_token_id=2)
    if family != "gpt2":
        sizes |= {"num_key_value_heads": 1, "head_dim": 8}
    config = CAUSAL[family](**{**sizes, "num_labels": 3, "pad_token_id": None, **options})
    torch.manual_seed(seed)
    model = (AutoModelForSequenceClassification if head else AutoModelForCausalLM).from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model.eval()


def saved_causal(path, family: str, tokenizer=None, **options):
    """The folder of a random causal language model."""
    tokenizer = tokenizer or causal_tokenizer(family)
    causal_model(family, vocab_size=len(tokenizer), **options).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@lru_cache
def prompted(family: str = "llama") -> Prompted:
    """A random causal language model, asked for one of three words."""
    tokenizer = causal_tokenizer(family)
    prompt = PROMPTS["gpt2" if tokenizer is causal_tokenizer("gpt2") else "llama"]
    return Prompted(
        causal_model(family), tokenizer, name=f"tiny prompted {family}", prompt=prompt, class_words=CLASS_WORDS
    )


class Lookup(BlackBox):
    """Logits by text, written in the test; "[M]" is what erased words become. Unknown texts are an error."""

    def __init__(self, logits: dict[str, list[float]]) -> None:
        self.table = logits
        classes = len(next(iter(logits.values())))
        super().__init__(
            self._look_up, labels=[f"class {index}" for index in range(classes)], mask_text="[M]", name="lookup"
        )

    def _look_up(self, texts):
        classes = len(next(iter(self.table.values())))
        rows = [self.table[text] if text else self.table.get("", [0.0] * classes) for text in texts]
        return torch.tensor(rows, dtype=torch.float64).softmax(-1).numpy()


def planted(word: str = "awful"):
    """A callable that answers class 1 exactly as much as the planted word is there."""

    def predict(texts):
        return [
            [0.1, 0.9] if word in (text if isinstance(text, str) else text[0]).split() else [0.9, 0.1] for text in texts
        ]

    return predict


def planted_bert(word: str = "awful"):
    """A BERT whose one layer looks for the planted word wherever it stands; class 1 is how much of it there is.

    The first number of every vector says "the planted word": 4 for that word, 0 for the others. Both heads look where
    it is high, and only it reaches the classes.
    """
    tokenizer = tokenizer_for("bert")
    model = hf_model("bert", classes=2, num_hidden_layers=1)
    bert, layer = model.bert, model.bert.encoder.layer[0].attention
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "LayerNorm" not in name:
                parameter.zero_()
        words, types = bert.embeddings.word_embeddings.weight, bert.embeddings.token_type_embeddings.weight
        for vectors in (words.normal_(), types.normal_()):  # without the types only a vector's direction would count
            vectors[:, 0] = 0
        words[tokenizer.convert_tokens_to_ids(word), 0] = 4
        for head in (0, 8):
            layer.self.query.bias[head] = 2
            layer.self.key.weight[head, 0] = layer.self.value.weight[head, 0] = 1
            layer.output.dense.weight[0, head] = 1
        bert.pooler.dense.weight[0, 0] = 0.5
        model.classifier.weight[1, 0], model.classifier.bias[1] = 4, -2
    return Encoder(model, tokenizer, name="planted bert")


@lru_cache
def masked_lm(family: str = "bert", always: str = "", seed: int = 0) -> str:
    """A folder with a random masked language model that has the tokens of a family; `always` is all it ever writes."""
    folder = Path(tempfile.mkdtemp(prefix="troth-masked-lm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tokenizer = tokenizer_for(family)
    torch.manual_seed(seed)
    model = BertForMaskedLM(BertConfig(**SIZES, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
        if always:
            model.cls.predictions.bias[tokenizer.convert_tokens_to_ids(always)] = 1e4
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def attribution_model(family: str = "bert", classes: int = 3, seed: int = 0) -> AttributionModel:
    """A random attribution model for the random classifier of three classes."""
    return from_model(encoder(family, classes), seed).eval()


@lru_cache
def checkpoint(family: str = "bert", labels: tuple[str, ...] = ("LABEL_0", "LABEL_1", "LABEL_2")) -> str:
    """A folder with such a model, as `troth fit` writes it; its steps are long, so that each moves the map."""
    folder = Path(tempfile.mkdtemp(prefix="troth-attributive-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    own = attribution_model(family, len(labels))
    own.labels = labels
    saving.save(folder, own, {"loss": {}, "metric": "aopc_comprehensiveness", "learning_rate": 3e-3})
    return str(folder)
