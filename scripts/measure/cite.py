"""What citing costs: passages first, then the sentences of those that matter, beside plain passes and Captum.

python scripts/measure/cite.py FOLDER              8 passages of 100 words, an answer of 30 tokens, on one CPU thread
python scripts/measure/cite.py 1b --device cuda    a random Llama in bfloat16: 32 passages, 4,096 tokens
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))  # the tests' small tokenizers

import troth
from troth.core.types import Example
from troth.core.units import sentence_spans
from troth.models.continuation import Continuation

SHAPES = {
    "1b": {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
           "intermediate_size": 8192, "vocab_size": 128256},
    "8b": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
           "intermediate_size": 14336, "vocab_size": 128256},
}  # fmt: skip
WORDS = [
    "a",
    "good",
    "film",
    "with",
    "great",
    "cast",
    "and",
    "bad",
    "ending",
    "not",
    "the",
    "book",
    "dull",
    "slow",
    "soup",
]
FACT = "The secret word of the vault is marigold."


def passages_of(count: int, words: int, seed: int = 0) -> list[str]:
    """Texts of so many words in sentences of about 20; the fifth holds the fact."""
    choose = random.Random(seed)
    texts = []
    for number in range(count):
        sentences = [" ".join(choose.choices(WORDS, k=20)).capitalize() + "." for _ in range(words // 20)]
        if number == 4:
            sentences[-1] = FACT
        texts.append(" ".join(sentences))
    return texts


def network_of(name: str, device: str) -> tuple[Any, Any]:
    if name not in SHAPES:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32 if device == "cpu" else torch.bfloat16)
        return model.to(device).eval(), AutoTokenizer.from_pretrained(name)
    from transformers import LlamaConfig, LlamaForCausalLM

    from fakes import sentence_piece

    tokenizer = sentence_piece()
    tokenizer.model_max_length = 8192
    with torch.device(device):
        torch.set_default_dtype(torch.bfloat16)
        model = LlamaForCausalLM(LlamaConfig(**SHAPES[name], max_position_embeddings=8192)).eval()
        torch.set_default_dtype(torch.float32)
    return model, tokenizer


def seconds_of(work: Callable[[], Any], device: str) -> tuple[float, Any]:
    """CPU seconds of this process, or seconds until a GPU is done."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    if device != "cpu":
        torch.cuda.synchronize()
    start = clock()
    found = work()
    if device != "cpu":
        torch.cuda.synchronize()
    return clock() - start, found


def rows_of(model: Continuation, example: Example, spans: list[tuple[int, int]]) -> list[tuple[list[int], int]]:
    """The prompt without each span and with the answer, as ids; and up to where it is as the whole one is."""
    (encoding,) = model.encode([example], tuple(spans))
    ids, units = encoding.ids.tolist(), encoding.units.tolist()
    rows = [(ids, len(ids) - len(encoding.written))]
    for unit in range(len(spans)):
        kept = [token for token, of in zip(ids, units, strict=True) if of != unit]
        rows.append((kept, min(units.index(unit), len(kept) - len(encoding.written))))
    return rows


@torch.no_grad()
def plain(model: Continuation, rows: list[tuple[list[int], int]], *, shared: bool) -> list[float]:
    """The log-probability of the answer in every row: one pass each, which may begin where the row leaves the whole."""
    from transformers import DynamicCache

    network, answer, device = model.model, torch.tensor(model.ids, device=model.device), model.device
    whole = network(torch.tensor([rows[0][0]], device=device), use_cache=True, logits_to_keep=1).past_key_values
    values = []
    for ids, begun in rows:
        start, cache = (begun, DynamicCache()) if shared else (0, None)
        for layer, kept in enumerate(whole.layers if cache is not None else ()):
            cache.update(kept.keys[:, :, :start], kept.values[:, :, :start], layer)
        own: Tensor = torch.tensor([ids[start:]], device=device)
        logits = network(own, past_key_values=cache, use_cache=shared, logits_to_keep=len(answer)).logits[0]
        values.append(float(logits.float().log_softmax(-1).gather(1, answer[:, None]).sum()))
    return values


def captum(model: Continuation, prompt: str, pieces: list[str], answer: str) -> Any:
    """LLMAttribution over the same pieces."""
    from captum.attr import FeatureAblation, LLMAttribution, TextTemplateInput

    peer = LLMAttribution(FeatureAblation(model.model), model.tokenizer)
    return peer.attribute(TextTemplateInput(prompt, pieces), target=answer)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--passages", type=int)
    parser.add_argument("--words", type=int)
    parser.add_argument("--captum", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1 if asked.device == "cpu" else torch.get_num_threads())
    count, words = asked.passages or (8 if asked.device == "cpu" else 32), asked.words or 100
    texts = passages_of(count, words)
    network, tokenizer = network_of(asked.model, asked.device)
    answer = f"{FACT} It is what opens the heavy door, and everybody in the old town by the river knows it by heart."
    question = "What is the secret word?"
    options: dict[str, Any] = {"tokenizer": tokenizer, "chat": False, "max_length": 8192}
    prompt = "{text}\n\nQuestion: {text_pair}\nAnswer:"
    model: Any = troth.load_model(network, prompt=prompt, continuation=answer, **options)
    own = "{passages}\n\nQuestion: {question}\nAnswer:"
    facts: dict[str, Any] = {"passages": count, "words": words, "answer_tokens": len(model.ids)}
    troth.cite(network, question, texts[:2], answer, prompt=own, **options)  # warms up
    for tolerance in (0.1, 0.0):
        work = lambda tolerance=tolerance: troth.cite(  # noqa: E731
            network, question, texts, answer, prompt=own, tolerance=tolerance, **options
        )
        seconds, found = seconds_of(work, asked.device)
        facts[f"cite, tolerance {tolerance}"] = {
            "seconds": seconds, "passes": found.passes, "cited": found.cited, "divided": len(found.divided),
            "sentences": len(found.sentences),
        }  # fmt: skip
    example = Example("0", "\n\n".join(texts), question)
    starts = [sum(len(text) + 2 for text in texts[:place]) for place in range(count)]
    passages = [(start, start + len(text)) for start, text in zip(starts, texts, strict=True)]
    sentences = [
        (start + span[0], start + span[1])
        for start, text in zip(starts, texts, strict=True)
        for span in sentence_spans(text)
    ]
    rows = [*rows_of(model, example, passages), *rows_of(model, example, sentences)[1:]]
    facts["tokens"] = len(rows[0][0])
    for shared in (True, False) if asked.device != "cpu" else (True,):
        facts[f"plain passes, prefix shared: {shared}"] = {
            "seconds": seconds_of(lambda shared=shared: plain(model, rows, shared=shared), asked.device)[0],  # type: ignore[misc]
            "passes": len(rows),
        }
    if asked.captum:
        template = "\n\n".join(["{}"] * count) + f"\n\nQuestion: {question}\nAnswer:"
        seconds, _ = seconds_of(lambda: captum(model, template, texts, f" {answer}"), asked.device)
        facts["captum, passages alone"] = {"seconds": seconds, "passes": count + 1}
    if asked.device != "cpu":
        facts["peak_gb"] = torch.cuda.max_memory_allocated() / 2**30
    sys.stdout.write(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
