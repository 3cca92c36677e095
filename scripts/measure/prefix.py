"""How much faster leave-one-out is when the prompt's keys and values are shared: 400 tokens of prompt, 30 of text.

python scripts/measure/prefix.py FOLDER     a causal language model, or none for a random one of SmolLM2-135M's size
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))  # the tests' small tokenizers

from troth import Example, explain, load_model

SIZES = {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3}


def random_model() -> tuple[Any, Any]:
    """A Llama of SmolLM2-135M's shape with the tests' vocabulary."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from fakes import sentence_piece

    tokenizer = sentence_piece()
    torch.manual_seed(0)
    config = LlamaConfig(
        **SIZES, vocab_size=max(len(tokenizer), 49152), intermediate_size=1536, max_position_embeddings=1024
    )
    tokenizer.model_max_length = 1024
    return LlamaForCausalLM(config).eval(), tokenizer


def words(tokenizer: Any, count: int) -> str:
    """A text of so many tokens."""
    text = "a"
    while len(tokenizer(text, add_special_tokens=False)["input_ids"]) < count:
        text += " a good book is the one" if count > 100 else " good"
    return text


def measure(folder: str | None, repeats: int = 3) -> dict[str, float]:
    """CPU seconds of leave-one-out with and without sharing, their ratio, and the largest difference of a score."""
    torch.set_num_threads(1)
    network, tokenizer = (folder, None) if folder else random_model()
    if folder:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder)
    prompt = f"{words(tokenizer, 398)} {{text}} is"
    model: Any = load_model(
        network, None if folder else tokenizer, device="cpu" if folder else None, prompt=prompt,
        class_words=["good", "bad"], chat=False,
    )  # fmt: skip
    text = words(tokenizer, 30)
    (encoding,) = model.encode([Example("0", text)], "token")
    seconds: dict[bool, list[float]] = {True: [], False: []}
    scores: dict[bool, Any] = {}
    for _ in range(repeats):
        for shares in (True, False):
            model.shares_prefix = shares
            model._prefixes, model._trunks = type(model._prefixes)(), type(model._trunks)()  # paid for in every repeat
            begun = time.process_time()
            (attribution,) = explain(model, [text], "leave_one_out", units="token")
            seconds[shares].append(time.process_time() - begun)
            scores[shares] = attribution.scores
    shared, apart = min(seconds[True]), min(seconds[False])
    return {
        "prompt_tokens": float((encoding.units < 0).sum()),
        "text_tokens": float((encoding.units >= 0).sum()),
        "shared_seconds": shared,
        "apart_seconds": apart,
        "times_faster": apart / shared,
        "largest_difference": float(np.abs(scores[True] - scores[False]).max()),
        "largest_score": float(np.abs(scores[False]).max()),
    }


if __name__ == "__main__":
    for name, value in measure(sys.argv[1] if len(sys.argv) > 1 else None).items():
        print(f"{name:20} {value:.4g}")
