"""Why a language model wrote 50 tokens, token by token: troth against inseq, in one run, CPU time of one thread.

    pip install inseq; PYTHONPATH=src python benchmarks/continuation.py [FOLDER]

A causal language model's folder, or none for a random GPT-2 of 6 layers and 384 numbers. Contestants take turns; each
time is the least of its turns. inseq also scores the tokens written before each token, which troth leaves as they are.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))  # the tests' small tokenizers

WORDS = ["the", "film", "was", "good", ".", "a", "bad", "film", "was", "the", "good"]
METHODS = {
    "occlusion": ("leave_one_out", {}),
    "input_x_gradient": ("input_x_gradient", {}),
    "integrated_gradients": ("integrated_gradients(steps=20, baseline=mask, rule=gauss_legendre)", {"n_steps": 20}),
}


def model_of(folder: str | None) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

    if folder:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.chat_template = None
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(), tokenizer
    from fakes import end_of_text

    tokenizer = end_of_text()
    tokenizer.pad_token = tokenizer.eos_token
    torch.manual_seed(0)
    sizes = {"n_embd": 384, "n_layer": 6, "n_head": 6, "n_positions": 256, "vocab_size": len(tokenizer)}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, pad_token_id=0)).eval(), tokenizer


def measure(folder: str | None = None, written: int = 50, turns: int = 2) -> Iterator[dict[str, Any]]:
    """CPU seconds of both for each method, and the largest difference of their scores for the first token."""
    import inseq

    import troth

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    network, tokenizer = model_of(folder)
    text = " ".join(WORDS * 2)
    continuation = "".join(f" {word}" for word in (WORDS * 9)[:written])
    mask = tokenizer.unk_token or tokenizer.eos_token
    model = troth.load_model(network, tokenizer, continuation=continuation, mask_text=mask)
    for method, (spec, options) in METHODS.items():
        peer = inseq.load_model(network, method, tokenizer=tokenizer)

        def ours(spec: str = spec) -> Any:
            found = troth.explain(model, text, spec, units="token", target="each", progress=False)
            return found.matrices()[0].scores

        def theirs(peer: Any = peer, options: Any = options) -> Any:
            found = peer.attribute(
                text, text + continuation, attributed_fn="probability", logprob=True, show_progress=False, **options
            ).sequence_attributions[0].target_attributions  # fmt: skip
            return (found.sum(-1) if found.dim() == 3 else found).T.numpy()

        seconds: dict[Callable[[], Any], list[float]] = {ours: [], theirs: []}
        scores: dict[Callable[[], Any], Any] = {}
        for _ in range(turns):
            for contestant, times in seconds.items():
                begun = time.process_time()
                scores[contestant] = contestant()
                times.append(time.process_time() - begun)
        first = np.abs(scores[ours][0]) if method == "occlusion" else scores[ours][0]
        yield {
            "method": method,
            "troth": min(seconds[ours]),
            "inseq": min(seconds[theirs]),
            "difference": float(np.abs(first - scores[theirs][0, : len(first)]).max()),
        }


if __name__ == "__main__":
    print(f"{'method':22} {'troth s':>9} {'inseq s':>9} {'times':>7} {'difference':>11}")
    for row in measure(sys.argv[1] if len(sys.argv) > 1 else None):
        times = row["inseq"] / row["troth"]
        print(
            f"{row['method']:22} {row['troth']:9.3f} {row['inseq']:9.3f} {times:7.1f} {row['difference']:11.2g}",
            flush=True,
        )
