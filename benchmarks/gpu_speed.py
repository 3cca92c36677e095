"""How long explaining takes on a GPU, next to a plain batched loop: a random model of BERT-base size, made-up texts.

    python benchmarks/gpu_speed.py                  # an NVIDIA GPU, bfloat16; 1,024 texts of 26, 128 and 256 tokens
    python benchmarks/gpu_speed.py --grow 100000    # does the cost per text stay, does memory?
    python benchmarks/gpu_speed.py --profile missed # where the time goes in works that miss their limit; or: all
    python benchmarks/gpu_speed.py --device cpu --size tiny --dtype float32    # what Python takes

One JSON line per measurement: `ms` per text (the better of two runs, one where that takes long), `plain_ms` of a loop
over the same rows written by hand, `rows` asked of the model per text and `model_ms`, what bare passes over as many
whole rows take, `busy` the GPU's utilization by nvidia-smi, `limit` what the work must reach on an H200. Nothing is
downloaded.
"""

import argparse
import cProfile
import gc
import json
import pstats
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import transformers
from inputs import vocabulary
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

import troth
from troth.engine.prober import Prober
from troth.verbs.explain import explain_each
from troth.verbs.measure import measure_each

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIZES = {"base": (12, 768, 12), "small": (6, 384, 12), "tiny": (1, 16, 1)}  # layers, width, heads
EXPLAINERS = {
    "gradient": "gradient",
    "leave_one_out": "leave_one_out",
    "ig_20": "integrated_gradients(steps=20)",
    "beam_10": "beam_search(width=10)",
}
METRICS = {"aopc": ["aopc_comprehensiveness", "aopc_sufficiency"], "recursive": ["recursive_erasure(step=0.1)"]}
# Searches ask for thousands of rows per text: only on short ones.
METHODS = {26: ["gradient", "leave_one_out", "ig_20", *METRICS, "beam_10"]}
LONG = ["gradient", "leave_one_out", "ig_20"]
# Milliseconds per text on an H200, bfloat16.
LIMITS = {
    26: {"gradient": 0.12, "leave_one_out": 0.45, "ig_20": 0.8, "aopc": 0.3, "recursive": 4.0, "beam_10": 12.0},
    128: {"gradient": 0.3, "leave_one_out": 8.0, "ig_20": 3.0},
    256: {"leave_one_out": 30.0, "ig_20": 6.0},
}


WORDS = vocabulary(30_000)


def make_texts(count: int, words: int, seed: int = 1) -> list[str]:
    drawn = random.Random(seed)
    return [" ".join(drawn.choices(WORDS, k=words)) for _ in range(count)]


def make_tokenizer() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.WordPiece({word: number for number, word in enumerate([*SPECIAL, *WORDS])}))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    backend.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=512, **dict(zip(names, SPECIAL, strict=True))
    )


def make_model(size: str, device: str, dtype: str) -> BertForSequenceClassification:
    layers, width, heads = SIZES[size]
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS) + len(SPECIAL), hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * width, num_labels=2, initializer_range=0.05,
    )  # fmt: skip
    return BertForSequenceClassification(config).to(device, getattr(torch, dtype)).eval()


# --- the plain loops: all rows of some texts at once, no text looked at alone


class Plain:
    """What somebody would write by hand for texts of one length that are all tokenized already."""

    def __init__(self, model: Any, tokenizer: Any, texts: list[str], tokens: int) -> None:
        self.model, self.device = model, model.device
        self.ids = torch.tensor(tokenizer(texts, truncation=True, max_length=tokens)["input_ids"])
        self.mask = tokenizer.mask_token_id
        self.rows = 1 << 12 if tokens <= 64 else 1 << 10

    def _chunks(self, rows_per_text: int) -> Iterator[Tensor]:
        for part in self.ids.split(max(1, self.rows // rows_per_text)):
            yield part.to(self.device)

    def leave_one_out(self) -> list[Tensor]:
        found = []
        places = self.ids.shape[1] - 2
        with torch.no_grad():
            for ids in self._chunks(places + 1):
                rows = ids[:, None].repeat(1, places + 1, 1)
                each = torch.arange(places, device=self.device)
                rows[:, each, each + 1] = self.mask
                logits = self.model(input_ids=rows.flatten(0, 1)).logits.view(len(ids), places + 1, -1)
                found.append((logits[:, -1:] - logits[:, :-1]).float()[..., 0])
        return [part.cpu() for part in found]

    def _gradients(self, vectors: Tensor) -> Tensor:
        vectors = vectors.detach().requires_grad_()
        logits = self.model(inputs_embeds=vectors).logits
        return torch.autograd.grad(logits.float().amax(-1).sum(), vectors)[0]

    def gradient(self) -> list[Tensor]:
        embedding = self.model.get_input_embeddings()
        gram = embedding.weight.float().T @ embedding.weight.float()
        found = []
        for ids in self._chunks(1):
            gradient = self._gradients(embedding(ids)).float()
            found.append(((gradient @ gram) * gradient).sum(-1).sqrt())
        return [part.cpu() for part in found]

    def ig_20(self) -> list[Tensor]:
        embedding = self.model.get_input_embeddings()
        places = (torch.arange(1, 21, device=self.device) / 20).to(embedding.weight.dtype)
        found = []
        for ids in self._chunks(20):
            whole = embedding(ids).detach()
            path = (places[:, None, None] * whole[:, None]).flatten(0, 1)
            gradient = self._gradients(path).float().view(len(ids), 20, *whole.shape[1:])
            found.append((gradient.mean(1) * whole.float()).sum(-1))
        return [part.cpu() for part in found]

    def row_ms(self) -> float:
        """What one whole row takes of the model alone, in large batches."""
        count = self.rows if self.device.type == "cuda" else 256
        ids = self.ids[:1].to(self.device).expand(count, -1).contiguous()

        def passes() -> None:
            with torch.no_grad():
                self.model(input_ids=ids)
                self.model(input_ids=ids).logits.cpu()

        return 1000 * seconds(passes) / (2 * count)


# --- measuring


@contextmanager
def utilization(device: str) -> Iterator[list[float]]:
    """The GPU's utilization in percent, five times a second, for as long as the block runs."""
    seen: list[float] = []
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"]
    try:
        poll = subprocess.Popen(command, stdout=subprocess.PIPE, text=True) if device == "cuda" else None
    except OSError:
        poll = None
    try:
        yield seen
    finally:
        if poll is not None:
            poll.terminate()
            seen += [float(line) for line in (poll.communicate()[0] or "").split() if line.isdigit()]


def seconds(work: Callable[[], Any], enough: float = 1.5, most: int = 2) -> float:
    """The better of two runs; one where that takes long."""
    times: list[float] = []
    while len(times) < most and sum(times) < enough:
        gc.collect()
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def profiled(work: Callable[[], Any], title: str, device: str) -> None:
    """Where the host's time goes, by cProfile, and for how much of the time the device works, by torch's profiler."""
    profile = cProfile.Profile()
    profile.runcall(work)
    sys.stderr.write(f"\n=== {title}\n")
    for order in ("cumulative", "tottime"):
        pstats.Stats(profile, stream=sys.stderr).sort_stats(order).print_stats(25)
    if device == "cuda":
        begun = time.perf_counter()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            work()
            torch.cuda.synchronize()
            taken = time.perf_counter() - begun
        events = seen.key_averages()
        busy = sum(event.self_device_time_total for event in events) / 1e6
        sys.stderr.write(f"device: {busy:.3f} s of {taken:.3f} s\n")
        sys.stderr.write(events.table(sort_by="self_device_time_total", row_limit=12, max_name_column_width=60) + "\n")
    sys.stderr.flush()


def measured(method: str, model: Any, texts: list[str]) -> tuple[Callable[[], Any], Callable[[], float]]:
    """The work to be timed, and how many rows it asks per text."""
    probers: list[Prober] = []

    def prober() -> Prober:
        probers.append(Prober(model))
        return probers[-1]

    if method in EXPLAINERS:

        def work() -> Any:
            probers.clear()
            return list(explain_each(prober(), texts, EXPLAINERS[method]))
    else:
        attributions = troth.explain(model, texts, "leave_one_out", progress=False)

        def work() -> Any:
            probers.clear()
            return [list(measure_each(prober(), attributions, metric)) for metric in METRICS[method]]

    return work, lambda: sum(one.cost.forward for one in probers) / len(texts)


def emit(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def contest(
    model: Any, plain: Plain | None, method: str, texts: list[str], row_ms: float, about: dict[str, Any]
) -> dict[str, Any]:
    texts = texts[: len(texts) // 8] if method == "beam_10" else texts
    warm, _ = measured(method, model, texts[: 16 if method == "beam_10" else 64])
    warm()
    work, rows = measured(method, model, texts)
    with utilization(model.device.type) as seen:
        taken = seconds(work)
    facts: dict[str, Any] = {"ms": round(1000 * taken / len(texts), 4), "rows": round(rows(), 1)}
    if limit := LIMITS.get(about["tokens"], {}).get(method):
        facts["limit"] = limit
    if by_hand := getattr(plain, method, None):
        facts["plain_ms"] = round(1000 * seconds(by_hand, most=1 if taken > 1 else 2) / len(texts), 4)
    facts["model_ms"] = round(row_ms * rows(), 4)
    facts["busy"] = round(statistics.mean(seen), 1) if seen else None
    emit(method=method, texts=len(texts), **about, **facts)
    return facts


def grow(model: Any, most: int, words: int) -> None:
    """Gradient of more and more texts, one at a time out of the stream: time and memory."""
    count = 1000
    while count <= most:
        texts = iter(make_texts(count, words, seed=count))
        if model.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        begun = time.perf_counter()
        for _ in explain_each(Prober(model), texts, "gradient"):
            pass
        taken = time.perf_counter() - begun
        with open("/proc/self/statm") as pages:
            host = int(pages.read().split()[1]) * resource.getpagesize() >> 20
        gpu = torch.cuda.max_memory_allocated() >> 20 if model.device.type == "cuda" else None
        emit(method="gradient", grown_to=count, ms=round(1000 * taken / count, 4), host_mb=host, gpu_mb=gpu)
        count *= 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--tokens", default="26,128,256", help="lengths of the texts, comma-separated")
    parser.add_argument("--only", action="append", help="this method only (may be given often)")
    parser.add_argument("--no-cut", action="store_true", help="without texts of 512 words cut to 128 tokens")
    parser.add_argument("--grow", type=int, default=0, help="gradient of 1,000, 10,000, … up to so many texts")
    parser.add_argument("--no-plain", action="store_true", help="without the loops by hand")
    parser.add_argument("--no-lane", action="store_true", help="read by the model itself, not by the fast lane")
    parser.add_argument("--profile", choices=["all", "missed"], help="where the time goes, on stderr")
    given = parser.parse_args()
    if given.device == "cpu":
        torch.set_num_threads(1)
    network, tokenizer = make_model(given.size, given.device, given.dtype), make_tokenizer()
    name = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    emit(machine=name, model=given.size, dtype=given.dtype, **versions)
    model = troth.load_model(network, tokenizer=tokenizer)
    with model._fused.closed() if given.no_lane else nullcontext():
        contests(given, network, tokenizer, model)


def contests(given: argparse.Namespace, network: Any, tokenizer: Any, model: Any) -> None:
    for tokens in map(int, filter(None, given.tokens.split(","))):
        texts = make_texts(given.texts if tokens <= 128 else max(1, given.texts // 4), tokens - 2)
        plain = Plain(network, tokenizer, texts, tokens)
        row_ms = plain.row_ms()
        for method in METHODS.get(tokens, LONG):
            if not given.only or method in given.only:
                by_hand = None if given.no_plain else plain
                facts = contest(model, by_hand, method, texts, row_ms, {"tokens": tokens})
                if given.profile == "all" or (given.profile and facts["ms"] > facts.get("limit", float("inf"))):
                    profile_of(method, tokens, model, given)
    if not given.no_cut and (not given.only or "gradient" in given.only):
        short = troth.load_model(network, tokenizer=tokenizer, max_length=128)
        texts = make_texts(given.texts, 512)
        plain = Plain(network, tokenizer, texts, 128)
        contest(short, plain, "gradient", texts, plain.row_ms(), {"tokens": 128, "cut_from_words": 512})
    if given.grow:
        grow(model, given.grow, 24)


def profile_of(method: str, tokens: int, model: Any, given: argparse.Namespace) -> None:
    """Right after the measurement, so that it is there even if the script is stopped later."""
    count = min(given.texts, 32 if method == "beam_10" else 128 if tokens > 128 else 512)
    work, _ = measured(method, model, make_texts(count, tokens - 2))
    work()
    profiled(work, f"{method}, {count} texts of {tokens} tokens", given.device)


if __name__ == "__main__":
    main()
