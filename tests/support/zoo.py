"""Small random classifiers of many families, a line each: how the family is built, where it reads, what it lacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForSequenceClassification

import fakes
import troth


@dataclass(frozen=True)
class Family:
    options: dict[str, Any] = field(default_factory=dict)
    reads: str = "first"  # the state that is classified
    pads: bool = True  # whether padding changes nothing
    lacks: tuple[str, ...] = ()  # of gradients and attention
    start: str | None = None  # what its decoder reads first
    full: bool = False  # a close relative of one that is always tested


def _family(*args: Any, **options: Any) -> Family:
    known = {name: options.pop(name) for name in ("reads", "pads", "lacks", "start", "full") if name in options}
    return Family(options, **known)


def _decoder(**options: Any) -> Family:
    return _family(**{"reads": "last", "pads": False, **options})


def _bart(**options: Any) -> Family:
    sizes = {"layers": 2, "attention_heads": 2, "ffn_dim": 32}
    both = {f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in sizes.items()}
    return _family(reads="end", d_model=16, decoder_start_token_id=2, forced_eos_token_id=3, **both, **options)


# With transformers 5.17, attention and DeepLift cannot read T5, and say so; with 5.22 they can.
OLD_T5 = tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 22)


def _t5(**options: Any) -> Family:
    options["lacks"] = ("attention",) * OLD_T5
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
    return _family(reads="end", start="config", **sizes, **options)


_ONE_HEAD = {"num_key_value_heads": 1, "head_dim": 8}

FAMILIES = {
    "bert": _family(),
    "roberta": _family(full=True),
    "xlm-roberta": _family(full=True),
    "camembert": _family(),
    "distilbert": _family(),
    "albert": _family(embedding_size=8),
    "electra": _family(embedding_size=8),
    "deberta": _family(relative_attention=True, pos_att_type=["p2c", "c2p"], full=True),
    "deberta-v2": _family(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8),
    "mpnet": _family(),
    "modernbert": _family(local_attention=8, global_attn_every_n_layers=2, cls_token_id=2, sep_token_id=3),
    "eurobert": _family(reads="all", **_ONE_HEAD),
    "nomic_bert": _family(full=True),
    "xlnet": _decoder(d_model=16, n_layer=2, n_head=2, d_inner=32, max_position_embeddings=None),
    "xlm": _family(emb_dim=16, n_layers=2, n_heads=2, pad_index=0),
    "flaubert": _family(emb_dim=16, n_layers=2, n_heads=2, pad_index=0, full=True),
    "fnet": _family(pads=False, lacks=("attention",)),
    "convbert": _family(pads=False, embedding_size=16, head_ratio=2, conv_kernel_size=3),
    "mobilebert": _family(pads=False, embedding_size=16, intra_bottleneck_size=16, normalization_type="layer_norm"),
    "squeezebert": _family(lacks=("attention",), embedding_size=16, q_groups=2, k_groups=2, v_groups=2, full=True),
    "funnel": _family(d_head=8, n_head=2, d_inner=32, block_sizes=[2], num_hidden_layers=None),
    "longformer": _family(lacks=("attention",), attention_window=8, sep_token_id=3),
    "big_bird": _family(pads=False, block_size=2, num_random_blocks=1),
    "nystromformer": _family(pads=False, segment_means_seq_len=4, num_landmarks=4),
    "yoso": _family(pads=False, lacks=("attention", "derivatives")),
    "rembert": _family(input_embedding_size=8, output_embedding_size=8),
    "roformer": _family(embedding_size=16, full=True),
    "megatron-bert": _family(full=True),
    "luke": _family(entity_vocab_size=10, entity_emb_size=8, full=True),
    "ibert": _family(lacks=("gradients",)),
    "reformer": _family(
        pads=False, lacks=("gradients", "attention"), attention_head_size=8, axial_pos_embds=False,
        attn_layers=["local", "local"], local_attn_chunk_length=4, feed_forward_size=32, is_decoder=False,
    ),
    "perceiver": _family(
        lacks=("gradients", "attention"), d_model=16, num_latents=4, d_latents=16, num_blocks=1,
        num_self_attends_per_block=1, full=True,
    ),
    "bart": _bart(start="config"),
    "mbart": _bart(start="last"),
    "plbart": _bart(start="last", full=True),
    "mvp": _bart(start="config", full=True),
    "bigbird_pegasus": _bart(start="config", attention_type="original_full", full=True),
    "t5": _t5(),
    "mt5": _t5(full=True),
    "umt5": _t5(full=True),
    "gpt2": _decoder(),
    "openai-gpt": _decoder(full=True),
    "gpt_neo": _decoder(attention_types=[[["global", "local"], 1]], window_size=4, full=True),
    "gptj": _decoder(rotary_dim=4, full=True),
    "gpt_neox": _decoder(),
    "ctrl": _decoder(dff=32),
    "opt": _decoder(ffn_dim=32, word_embed_proj_dim=16),
    "bloom": _decoder(),
    "llama": _decoder(),
    "mistral": _decoder(**_ONE_HEAD, full=True),
    "qwen2": _decoder(**_ONE_HEAD),
    "qwen3": _decoder(**_ONE_HEAD, full=True),
    "gemma": _decoder(**_ONE_HEAD),
    "falcon": _decoder(full=True),
    "mpt": _decoder(d_model=16, n_heads=2, n_layers=2, max_seq_len=64, full=True),
    "modernbert-decoder": _decoder(local_attention=8, cls_token_id=2, sep_token_id=3),
}  # fmt: skip


def network(name: str, **changes: Any) -> Any:
    """A random classifier whose weights are spread out so that every input matters."""
    own = {"vocab_size": len(fakes.tokenizer_for("bert")), "num_labels": 3}
    own |= {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}  # [PAD], [CLS], [SEP]
    options = {**fakes.SIZES, **own, **FAMILIES[name].options, **changes}
    config = AutoConfig.for_model(name, **{key: value for key, value in options.items() if value is not None})
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.2)
    return model


def wrapped(name: str, **changes: Any) -> Any:
    return troth.load_model(network(name, **changes), tokenizer=fakes.wordpiece())
