"""What citing costs: passages, then their sentences, next to plain passes written by hand and to Captum.

    python benchmarks/gpu_cite.py                   # an NVIDIA GPU, bfloat16: random Llamas of 1B and 8B parameters
    python benchmarks/gpu_cite.py --model FOLDER --texts FILE --device cpu --passages 8 --answer 30 --rows 1 \
        --rounds 2 --no-sentences --features 8 --seconds 3000    # one CPU thread
    python benchmarks/gpu_cite.py [--device cpu] --write gpu_cite.json …    # only writes a table of citing_speed.md

A model reads `--tokens` tokens in `--passages` passages of 100 sentences, and an answer of `--answer` tokens. All that
do the same work take turns. One JSON line per contender: `times` (CPU time on the CPU), `passes`, `gigabytes` (the peak
of GPU memory) and `difference` (the largest, from troth's scores, whose largest is `of`).

- plain: passes by hand, `rows` at a time, which share the states of the prompt up to the first erased token, as troth's
- captum: LLMAttribution with `forward_in_tokens=False`, one pass per erased prompt: its fastest setting
- captum, token by token: a pass per token of the answer, for `--features` groups of passages. This is Captum's
  default without its cache. With the cache (and transformers 5) it reads the whole prompt again for each token and
  keeps all copies in the cache, which is slower still and gives other scores

inseq erases single tokens only, so there is no work that both could do.
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
import page
import torch
import transformers
from inputs import vocabulary
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers import PreTrainedTokenizerFast as Fast

import troth
from troth.core.types import Example
from troth.core.units import sentence_spans
from troth.models.continuation import Continuation

# width, layers, heads, heads of keys and values, width inside, vocabulary: Llama 3.2 1B and Llama 3.1 8B
SHAPES = {
    "1b": (2048, 16, 32, 8, 8192, 128_256),
    "8b": (4096, 32, 32, 8, 14_336, 128_256),
    "tiny": (64, 2, 4, 2, 128, 4_000),
}
SENTENCES = 100
QUESTION = "Which of these is it?"
PROMPT = "Answer with the help of these passages.\n\n{passages}\n\nQuestion: {question}\nAnswer:"
WORDS = vocabulary(1_000)
LEFT = "not begun: the time is up"
SOME = "some groups of passages"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "citing_speed.md"
MARKS = {
    "cuda": ("<!-- cite: written by benchmarks/gpu_cite.py -->", "<!-- /cite -->"),
    "cpu": ("<!-- cite on a CPU: written by benchmarks/gpu_cite.py -->", "<!-- /cite on a CPU -->"),
}


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


def cut(text: str) -> str:
    """Its first 100 words, as a sentence at the end."""
    return " ".join(text.replace("{", "(").replace("}", ")").split()[:100]).rstrip(".") + "."


def make_answer(tokenizer: Any, tokens: int, words: list[str]) -> str:
    """As many of the words as take so many tokens."""
    words = words[:tokens]
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
        self.clock = time.process_time if device == "cpu" else time.perf_counter
        self.about: dict[str, Any] = {}
        self.kept: list[dict[str, Any]] = []

    def emit(self, **facts: Any) -> None:
        self.kept.append({**self.about, **facts})
        sys.stdout.write(json.dumps(self.kept[-1]) + "\n")
        sys.stdout.flush()
        if folder := os.environ.get("OUT"):
            Path(folder, "gpu_cite.json").write_text(json.dumps(self.kept, indent=1), encoding="utf-8")

    def turns(self, work: str, contenders: dict[str, Callable[[], tuple[int, Any]]], rounds: int) -> None:
        """Each contender gives its passes and scores; those that fail are left out of the next rounds."""
        facts: dict[str, dict[str, Any]] = {name: {"times": []} for name in contenders}
        scores: dict[str, Any] = {}
        for _ in range(rounds):
            for name, run in contenders.items():
                if "error" in facts[name]:
                    continue
                if time.perf_counter() > self.end:
                    facts[name].setdefault("left", LEFT)
                    continue
                try:
                    seconds, gigabytes, (facts[name]["passes"], scores[name]) = self.measured(run)
                    facts[name]["times"].append(round(seconds, 4))
                    if gigabytes:
                        facts[name]["gigabytes"] = max(gigabytes, facts[name].get("gigabytes", 0))
                except Exception as error:
                    facts[name]["error"] = f"{type(error).__name__}: {error}"[:500]
        ours = scores.get("troth")
        for name, found in facts.items():
            if ours is not None and name in scores and len(scores[name]) == len(ours):
                found["difference"], found["of"] = float(np.abs(scores[name] - ours).max()), float(np.abs(ours).max())
            self.emit(work=work, by=name, **found)

    def measured(self, run: Callable[[], Any]) -> tuple[float, float, Any]:
        """Time and peak memory of one run, and what it gave."""
        gc.collect()
        if self.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        begun = self.clock()
        found = run()
        if self.device == "cuda":
            torch.cuda.synchronize()
        seconds = self.clock() - begun
        return seconds, torch.cuda.max_memory_allocated() / 1e9 if self.device == "cuda" else 0.0, found


def works(measuring: Measuring, network: Any, tokenizer: Any, given: argparse.Namespace, rounds: int) -> None:
    if given.texts:
        texts = [cut(text) for text in given.texts.read_text(encoding="utf-8").splitlines()[: given.passages]]
        answer = make_answer(tokenizer, given.answer, texts[len(texts) // 2].split())  # it repeats that passage
    else:
        texts = make_passages(given.passages, given.tokens)
        answer = make_answer(tokenizer, given.answer, random.Random(1).choices(WORDS, k=given.answer))
    tokenizer.chat_template = None
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
    rows, divided = erased(model, texts, passages), erased(model, texts, sentences)
    measuring.about |= {
        "tokens": len(rows[0][1]) - len(model.ids) + 1, "passages": len(texts), "sentences": len(sentences),
        "answer": len(model.ids),
    }  # fmt: skip

    def cited(tolerance: float, some: list[str] = texts) -> tuple[int, Any]:
        found = troth.cite(network, QUESTION, some, answer, prompt=PROMPT, tolerance=tolerance, **options)
        return found.passes, np.concatenate([found.scores, [] if tolerance else found.whole.sentence_scores])

    def by_hand(rows: list[tuple[int, list[int]]], at_once: int) -> tuple[int, Any]:
        values = plain(model, rows, at_once)
        return len(rows), (values[0] - values[1:]).numpy()

    def peer(features: list[list[str]], **how: Any) -> tuple[int, Any]:
        return captum(network, tokenizer, features, answer, **how)

    cited(1e9 if measuring.device == "cpu" else 0, texts[:4])  # warms up
    whole = [[text] for text in texts]
    contenders: dict[str, Callable[[], tuple[int, Any]]] = {"troth": lambda: cited(1e9)}
    for at_once in given.rows:
        contenders[f"plain, {at_once} at a time"] = lambda at_once=at_once: by_hand(rows, at_once)
    if given.captum:
        contenders["captum"] = lambda: peer(whole, forward_in_tokens=False)
    measuring.turns("passages", contenders, rounds)
    if given.features:
        edges = np.linspace(0, len(texts), given.features + 1).astype(int).tolist()
        groups = [["\n\n".join(texts[start:end])] for start, end in pairwise(edges)]
        slow = {"captum, token by token": lambda: peer(groups, use_cached_outputs=False)}
        measuring.turns("passages" if given.features == len(texts) else SOME, slow, 1)
    if not given.sentences:
        return
    every, at_once = [*rows, *divided[1:]], given.rows[-1]
    parts = [[text[first:last] for first, last in sentence_spans(text)] for text in texts]
    contenders = {"troth": lambda: cited(0), f"plain, {at_once} at a time": lambda: by_hand(every, at_once)}
    if given.captum and rounds > 1:

        def both() -> tuple[int, Any]:
            (first, scores), (second, more) = (peer(each, forward_in_tokens=False) for each in (whole, parts))
            return first + second, np.concatenate([scores, more])

        contenders["captum"] = both
    measuring.turns("passages and sentences", contenders, max(1, rounds - 1))


def captum(network: Any, tokenizer: Any, features: list[list[str]], answer: str, **how: Any) -> tuple[int, Any]:
    """LLMAttribution erases each of the features, which stand in passages, with the separator after it."""
    from captum.attr import FeatureAblation, LLMAttribution, TextTemplateInput

    values = [text + (" " if text is not some[-1] else "\n\n") for some in features for text in some]
    values[-1] = values[-1].rstrip()
    template = PROMPT.replace("{passages}", "{}" * len(values)).replace("{question}", QUESTION)
    given = TextTemplateInput(template, values)
    with torch.no_grad():
        found = LLMAttribution(FeatureAblation(network), tokenizer).attribute(given, target=f" {answer}", **how)
    scores = found.seq_attr.float().cpu().numpy()
    return len(scores) + 1, scores


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
    parser.add_argument(
        "--texts", type=Path, help="a file with a passage per line, cut to 100 words, instead of --tokens"
    )
    parser.add_argument("--answer", type=int, default=64)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4], help="of the plain passes at a time")
    parser.add_argument("--rounds", default="3,2", help="for each model; sentences take one less")
    parser.add_argument("--captum", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--sentences", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--features", type=int, default=1, help="of Captum token by token; 0 for none")
    parser.add_argument("--seconds", type=float, default=135, help="no measurement begins later")
    parser.add_argument("--write", type=Path, nargs="+", help="results to write into the page; nothing is measured")
    given = parser.parse_args()
    if given.write:
        write(given.write, MARKS[given.device])
        return
    if given.device == "cpu":
        torch.set_num_threads(1)
    measuring = Measuring(given.device, given.seconds)
    measuring.about = {"device": torch.cuda.get_device_name() if given.device == "cuda" else page.processor()}
    measuring.emit(torch=torch.__version__, transformers=transformers.__version__)
    rounds = list(map(int, given.rounds.split(",")))
    about = measuring.about
    for number, (shape, network, tokenizer) in enumerate(networks(given)):
        measuring.about = {**about, "model": shape}
        works(measuring, network, tokenizer, given, rounds[min(number, len(rounds) - 1)])
        given.features = 0  # once is enough
        del network
        gc.collect()
        if given.device == "cuda":
            torch.cuda.empty_cache()


# --- the page


def write(files: list[Path], marks: tuple[str, str]) -> None:
    """A table of docs/reference/citing_speed.md, from the results of one or more runs."""
    kept = [facts for file in files for facts in json.loads(file.read_text(encoding="utf-8")) if "work" in facts]
    lines = [
        "| device | model | task | by | passes | seconds | times troth | per pass | peak GB | difference |",
        "|---|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    ours: dict[tuple[str, ...], float] = {}
    for facts in kept:
        task = (facts["device"], facts["model"], facts["work"])
        start = f"| {' | '.join(task)} | {facts['by']} "
        if not facts["times"]:
            lines.append(f"{start}| | {facts.get('error', facts.get('left')).replace('|', '/')} | | | | |")
            continue
        seconds = min(facts["times"])
        if facts["by"] == "troth":  # it comes first
            ours[task] = seconds
        ratio = f"{seconds / ours[task]:.2f}" if task in ours else ""
        memory = f"{facts['gigabytes']:.1f}" if "gigabytes" in facts else ""
        gap = f"{facts['difference']:.2g} of {facts['of']:.2g}" if "difference" in facts else ""
        times = ", ".join(f"{each:.2f}" for each in facts["times"])
        each = f"{seconds / facts['passes']:.3f}"
        lines.append(f"{start}| {facts['passes']} | {times} | {ratio} | {each} | {memory} | {gap} |")
    page.put(PAGE, marks, "\n".join(lines))


if __name__ == "__main__":
    main()
