"""What citing costs: passages first, then their sentences, next to plain passes written by hand and to Captum.

    python benchmarks/gpu_cite.py                   # an NVIDIA GPU, bfloat16: random Llamas of 1B and 8B parameters
    python benchmarks/gpu_cite.py --model FOLDER --device cpu --passages 8 --tokens 900 --answer 30   # one CPU thread

A model reads `--tokens` tokens in `--passages` passages of 100 sentences, and an answer of `--answer` tokens. One JSON
line per measurement: `seconds` (the better of two runs; CPU time on the CPU), `passes`, and for the plain passes how
far their values are from troth's. The plain passes share the states of the prompt up to the first erased token, as
troth's do; `rows` of them are read at a time. Captum (where it is installed) erases `features` groups of passages, one
at a time; its time grows with their number. inseq erases single tokens only, so there is no work that both could do.
"""

import argparse
import gc
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from inputs import vocabulary
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers import PreTrainedTokenizerFast as Fast

import troth
from troth.core.cited import CitedAnswer
from troth.core.types import Example
from troth.core.units import sentence_spans
from troth.models.continuation import Continuation

# width, layers, heads, heads of keys and values, width inside, vocabulary: Llama 3.2 1B and Llama 3.1 8B
SHAPES = {
    "1b": (2048, 16, 32, 8, 8192, 128_256),
    "8b": (4096, 32, 32, 8, 14_336, 128_256),
    "tiny": (64, 2, 4, 2, 128, 2_000),
}
SENTENCES = 100
QUESTION = "Which of these is it?"
PROMPT = "Answer with the help of these passages.\n\n{passages}\n\nQuestion: {question}\nAnswer:"
WORDS = vocabulary(1_000)
LEFT = "not begun: the time is up"


def make_tokenizer() -> Fast:
    split = pre_tokenizers.Whitespace()
    own = [piece for piece, _ in split.pre_tokenize_str(f"{PROMPT} {QUESTION} .")]
    words = dict.fromkeys(["<unk>", "</s>", *own, *WORDS, *(word.capitalize() for word in WORDS)])
    backend = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = split
    return Fast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>", model_max_length=8192)


def make_model(shape: str, device: str) -> LlamaForCausalLM:
    width, layers, heads, groups, inside, words = SHAPES[shape]
    config = LlamaConfig(
        vocab_size=words, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=groups, intermediate_size=inside, max_position_embeddings=8192, bos_token_id=1,
        eos_token_id=1, dtype=torch.bfloat16 if device == "cuda" else torch.float32,
    )  # fmt: skip
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(config.dtype)
    try:
        with torch.device(device):
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


def make_passages(count: int, tokens: int) -> list[str]:
    """So many tokens in all (if each word is one), in passages of as many sentences as make SENTENCES together."""
    drawn = random.Random(0)
    texts = []
    for start, end in pairwise(np.linspace(0, SENTENCES, count + 1).astype(int).tolist()):
        sentences = [drawn.choices(WORDS, k=tokens // SENTENCES - 1) for _ in range(start, end)]
        texts.append(" ".join(f"{' '.join(words).capitalize()}." for words in sentences))
    return texts


def make_answer(tokenizer: Any, tokens: int) -> str:
    """As many words as take so many tokens."""
    words = random.Random(1).choices(WORDS, k=tokens)
    while len(tokenizer(" ".join(words), add_special_tokens=False)["input_ids"]) > tokens:
        words.pop()
    return " ".join(words)


# --- by hand


def erased(model: Continuation, texts: list[str], spans: list[tuple[int, int]]) -> list[tuple[int, list[int]]]:
    """Of each span: where it begins in the prompt, and the prompt without it, with the answer behind it; as tokens."""
    (encoding,) = model.encode([Example("0", "\n\n".join(texts), QUESTION)], tuple(spans))
    ids, units = encoding.ids.tolist(), encoding.units.tolist()
    rows = [(len(ids) - len(model.ids), ids)]
    for unit in range(len(spans)):
        rows.append((units.index(unit), [token for token, of in zip(ids, units, strict=True) if of != unit]))
    return rows


@torch.no_grad()
def plain(model: Continuation, rows: list[tuple[int, list[int]]], at_once: int) -> Tensor:
    """[rows] the log-probability of the answer; each row begins where it leaves the first one."""
    network, answer = model.model, torch.tensor(model.ids, device=model.device)
    whole = network(torch.tensor([rows[0][1]], device=model.device), logits_to_keep=1).past_key_values
    values = torch.empty(len(rows), device=model.device)
    order = sorted(range(len(rows)), key=lambda row: rows[row][0])
    for at in range(0, len(order), at_once):
        batch = order[at : at + at_once]
        start = rows[batch[0]][0]
        lengths = [len(rows[row][1]) - start for row in batch]
        ids = torch.zeros(len(batch), max(lengths), dtype=torch.int64)
        for place, row in enumerate(batch):
            ids[place, : lengths[place]] = torch.tensor(rows[row][1][start:])
        cache = DynamicCache()
        for number, layer in enumerate(whole.layers):
            shared = (each[:, :, :start].expand(len(batch), -1, -1, -1) for each in (layer.keys, layer.values))
            cache.update(*shared, number)
        states = network.model(ids.to(model.device), past_key_values=cache).last_hidden_state
        ends = torch.tensor(lengths, device=model.device)[:, None] - len(answer)
        asked = ends + torch.arange(len(answer), device=model.device)
        every = torch.arange(len(batch), device=model.device)[:, None]
        logs = network.lm_head(states[every, asked]).float().log_softmax(-1)
        values[batch] = logs.gather(-1, answer.expand(len(batch), -1)[..., None])[..., 0].sum(1)
    return values.cpu()


# --- measuring


class Measuring:
    """Prints what was measured, and stops beginning new work when the time is up."""

    def __init__(self, device: str, seconds: float) -> None:
        self.device, self.end = device, time.perf_counter() + seconds
        self.about: dict[str, Any] = {}
        self.kept: list[dict[str, Any]] = []

    def emit(self, **facts: Any) -> None:
        self.kept.append({**self.about, **facts})
        sys.stdout.write(json.dumps(self.kept[-1]) + "\n")
        sys.stdout.flush()
        if folder := os.environ.get("OUT"):
            Path(folder, "gpu_cite.json").write_text(json.dumps(self.kept, indent=1), encoding="utf-8")

    def seconds(self, work: Callable[[], Any], most: int = 2) -> tuple[float, Any]:
        """The better of two runs, and what the last one gave."""
        clock = time.process_time if self.device == "cpu" else time.perf_counter
        times: list[float] = []
        for _ in range(most):
            gc.collect()
            self.wait()
            begun = clock()
            found = work()
            self.wait()
            times.append(clock() - begun)
        return min(times), found

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def attempt(self, title: str, work: Callable[[], dict[str, Any]]) -> None:
        """A failure is printed, and the next work begins."""
        if time.perf_counter() > self.end:
            self.emit(work=title, error=LEFT)
            return
        try:
            self.emit(work=title, **work())
        except Exception as error:
            self.emit(work=title, error=f"{type(error).__name__}: {error}"[:500])


def works(measuring: Measuring, network: Any, tokenizer: Any, given: argparse.Namespace, features: int) -> None:
    texts, answer = make_passages(given.passages, given.tokens), make_answer(tokenizer, given.answer)
    options: dict[str, Any] = {"tokenizer": tokenizer, "chat": False, "max_length": 8192}
    prompt = PROMPT.replace("{passages}", "{text}").replace("{question}", "{text_pair}")
    model: Any = troth.load_model(network, prompt=prompt, continuation=answer, **options)
    starts = np.cumsum([0, *(len(text) + 2 for text in texts)]).tolist()
    ends = [*starts[1:-1], starts[-1] - 2]  # what separates two passages is erased with the first of them
    passages = list(zip(starts, ends, strict=False))
    sentences = [
        (start + first, start + last)
        for start, text in zip(starts, texts, strict=False)
        for first, last in sentence_spans(text)
    ]
    rows = erased(model, texts, passages)
    measuring.about |= {
        "tokens": len(rows[0][1]) - len(model.ids) + 1, "passages": len(texts), "sentences": len(sentences),
        "answer": len(model.ids),
    }  # fmt: skip

    def cited(tolerance: float, some: list[str] = texts) -> CitedAnswer:
        return troth.cite(network, QUESTION, some, answer, prompt=PROMPT, tolerance=tolerance, **options)

    cited(0, texts[:4])  # warms up

    def ours(tolerance: float) -> dict[str, Any]:
        seconds, found = measuring.seconds(lambda: cited(tolerance))
        if not tolerance:
            measuring.found = found
        return {"seconds": seconds, "passes": found.passes, "cited": len(found.cited)}

    def by_hand(rows: list[tuple[int, list[int]]], at_once: int) -> dict[str, Any]:
        seconds, values = measuring.seconds(lambda: plain(model, rows, at_once))
        scores = (values[0] - values[1:]).numpy()[: len(texts)]
        gap = np.abs(scores - measuring.found.scores).max() if measuring.found else None
        size = np.abs(scores).max()
        return {"seconds": seconds, "passes": len(rows), "rows": at_once, "difference": float(gap), "of": float(size)}

    every = [*rows, *erased(model, texts, sentences)[1:]]
    measuring.attempt("troth, passages and sentences", lambda: ours(0))
    measuring.attempt("troth, passages", lambda: ours(1e9))
    for at_once in given.rows:
        measuring.attempt("plain, passages", lambda at_once=at_once: by_hand(rows, at_once))
        measuring.attempt("plain, passages and sentences", lambda at_once=at_once: by_hand(every, at_once))
    if measuring.device == "cuda":
        measuring.emit(work="peak memory of the above", gigabytes=torch.cuda.max_memory_allocated() / 1e9)
    if features:
        measuring.attempt("captum", lambda: captum(measuring, network, tokenizer, texts, answer, features))


def captum(
    measuring: Measuring, network: Any, tokenizer: Any, texts: list[str], answer: str, features: int
) -> dict[str, Any]:
    """LLMAttribution over groups of passages: one more than `features` inputs are read."""
    from captum.attr import FeatureAblation, LLMAttribution, TextTemplateInput

    edges = np.linspace(0, len(texts), features + 1).astype(int).tolist()
    groups = ["\n\n".join(texts[start:end]) for start, end in pairwise(edges)]
    template = PROMPT.replace("{passages}", "\n\n".join(["{}"] * features)).replace("{question}", QUESTION)
    tokenizer.chat_template = None
    peer = LLMAttribution(FeatureAblation(network), tokenizer)
    given = TextTemplateInput(template, groups)
    seconds, _ = measuring.seconds(lambda: peer.attribute(given, target=f" {answer}"), most=1)
    return {"seconds": seconds, "passes": features + 1, "features": features}


def networks(given: argparse.Namespace) -> Iterator[tuple[str, Any, Any]]:
    if given.model:
        network = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32)
        yield Path(given.model).name, network.to(given.device).eval(), AutoTokenizer.from_pretrained(given.model)
    else:
        for shape in given.shapes.split(","):
            yield shape, make_model(shape, given.device), make_tokenizer()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder; otherwise random models of these shapes")
    parser.add_argument("--shapes", default="1b,8b", help=", ".join(SHAPES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--passages", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=4100)
    parser.add_argument("--answer", type=int, default=64)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4], help="of the plain passes at a time")
    parser.add_argument("--captum", default="32,8", help="features for each model; 0 for none")
    parser.add_argument("--seconds", type=float, default=150, help="no measurement begins later")
    given = parser.parse_args()
    if given.device == "cpu":
        torch.set_num_threads(1)
    measuring = Measuring(given.device, given.seconds)
    name = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    measuring.emit(machine=name, torch=torch.__version__, transformers=transformers.__version__)
    features = list(map(int, given.captum.split(",")))
    for number, (shape, network, tokenizer) in enumerate(networks(given)):
        measuring.about, measuring.found = {"model": shape}, None
        works(measuring, network, tokenizer, given, features[min(number, len(features) - 1)])
        del network
        gc.collect()
        if given.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
    table(measuring.kept)


def table(kept: list[dict[str, Any]]) -> None:
    for facts in kept:
        if "work" in facts:
            number = facts.get("seconds", facts.get("gigabytes"))
            shown = facts.get("error") if number is None else f"{number:9.3f} {facts.get('passes', '')}"
            sys.stdout.write(f"{facts['model']:10} {facts['work']:30} {facts.get('rows', ''):>3} {shown}\n")


if __name__ == "__main__":
    main()
