"""Speed and memory of every explainer against the libraries a user would otherwise take.

    python benchmarks/speed.py --install    # once: the peers, each in an environment of its own (build/peers)
    python benchmarks/speed.py --write docs/benchmarks.md
    python benchmarks/speed.py --quick --only lime

The same random BERT and the same texts for all. Contestants are processes that live through the whole run and take
turns, so what else the machine does hits them alike. CPU seconds of one thread, medians over the turns; the ratio is
the median over the turns of ours / theirs. Memory is the most a run took above what the process held before it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
MARKS = ("<!-- speed: written by benchmarks/speed.py -->", "<!-- /speed -->")
SAME = 1e-3  # scores that differ by less than this share of the largest one are the same

# Environments and what is in each; ours has the others.
ENVIRONMENTS = {
    "shap": ["torch==2.13.0", "transformers==5.22.2", "shap==0.51.0"],
    "lime": ["torch==2.13.0", "transformers==5.22.2", "lime==0.2.0.1"],
    "solvex": ["torch==2.13.0", "transformers==5.22.2", "solvex==1.0.3"],
    "ferret": ["torch==2.13.0", "ferret-xai==0.4.2", "pyarrow<20"],  # it wants transformers 4 and numpy 1
}


@dataclass(frozen=True)
class Contest:
    """One explainer, its options, who else takes part, and on which texts."""

    method: str
    peers: tuple[str, ...]
    options: dict = field(default_factory=dict)
    texts: str = "long"
    peer_options: dict | None = None
    sampled: bool = False  # other draws, so other scores


def contests(quick: bool) -> list[Contest]:
    samples, steps, width = (100, 5, 5) if quick else (1000, 20, 50)
    beam = {"width": width, "objective": "comp_minus_suff", "of": "probability", "drop_duplicates": False}
    return [
        Contest("gradient", ("transformers", "captum")),
        Contest("input_x_gradient", ("captum", "ferret")),
        Contest("integrated_gradients", ("captum", "ferret"), {"steps": steps}),
        Contest("sequential_integrated_gradients", ("captum",), {"steps": steps // 2}, "short"),
        Contest("gradient_shap", ("captum",), {"samples": steps}, sampled=True),
        Contest("attention", ("transformers",)),
        Contest("attention_x_gradient", ("transformers",)),
        Contest("leave_one_out", ("captum",)),
        Contest("lime", ("lime", "captum", "ferret"), {"samples": samples}, "short", sampled=True),
        Contest("kernel_shap", ("shap", "captum"), {"samples": samples}, "short", sampled=True),
        Contest("exact_shapley", ("shap", "captum"), {}, "tiny"),
        Contest("beam_search", ("solvex",), beam, "tiny" if quick else "short", {"width": width}),
        Contest("text_rank", ("networkx",), {"steps": 100}, peer_options={}),
        Contest("tf_idf", ("sklearn",)),
    ]


class Process:
    """A contestant, alive until the end."""

    def __init__(self, python: str, library: str, folder: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if library == "troth":
            environment["PYTHONPATH"] = str(HERE.parent / "src")
        self.process = subprocess.Popen(
            [python, str(HERE / "peers.py"), library, folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        self.ready = "ready" in self._reply()

    def run(self, method: str, texts: list[str], options: dict) -> dict:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"method": method, "texts": texts, "options": options}) + "\n")
        self.process.stdin.flush()
        return self._reply()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()

    def _reply(self) -> dict:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "it ended"}


def make_model(folder: Path, quick: bool) -> None:
    """A random BERT with a made-up vocabulary, as a folder every library can load."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = vocabulary(2_000 if quick else 30_000)
    tokenizer = Tokenizer(models.WordPiece({word: number for number, word in enumerate([*special, *words])}))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=512, **dict(zip(names, special, strict=True))
    ).save_pretrained(folder)
    # Transformers 5 writes a class name that 4 (ferret's) does not know.
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "tokenizer_class": "PreTrainedTokenizerFast"}))
    width, layers = (128, 2) if quick else (384, 6)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words) + 5, hidden_size=width, num_hidden_layers=layers, num_attention_heads=width // 32,
        intermediate_size=4 * width, num_labels=2, initializer_range=0.08,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)


def vocabulary(count: int) -> list[str]:
    """Made-up words of syllables."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    drawn = random.Random(0)
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(drawn.choices(syllables, k=drawn.randint(2, 4)))] = None
    return list(words)


def make_texts(quick: bool) -> dict[str, list[str]]:
    """Long, short and tiny texts, of mixed lengths as real ones are."""
    words = vocabulary(2_000 if quick else 30_000)
    drawn = random.Random(1)
    lengths = {"long": (20, 35, 64, 120, 28, 45, 80, 50), "short": (8, 14, 20, 11), "tiny": (6, 5)}
    if quick:
        lengths = {"long": (12, 20, 40), "short": (6, 10), "tiny": (4, 5)}
    return {name: [" ".join(drawn.choices(words, k=length)) for length in given] for name, given in lengths.items()}


def contest(one: Contest, processes: dict[str, Process], texts: list[str], turns: int) -> list[dict]:
    """A row for each peer, everybody taking turns after a first run that does not count."""
    taking_part = ["troth", *(peer for peer in one.peers if peer in processes)]
    runs: dict[str, list[dict]] = {library: [] for library in taking_part}
    for turn in range(turns + 1):
        for library in taking_part:
            options = one.options if library == "troth" or one.peer_options is None else one.peer_options
            reply = processes[library].run(one.method, texts, options)
            if turn or "error" in reply:
                runs[library].append(reply)
    rows = []
    for peer in one.peers:
        row = {"method": one.method, "peer": peer, "options": one.options}
        failed = next((run["error"] for run in [*runs["troth"], *runs.get(peer, [])] if "error" in run), None)
        if peer not in runs or failed:
            rows.append({**row, "failed": failed or "not installed"})
            continue
        ours, theirs = runs["troth"], runs[peer]
        row["ours_cpu"], row["peer_cpu"] = (statistics.median(run["cpu"] for run in side) for side in (ours, theirs))
        row["ours_peak"], row["peer_peak"] = (statistics.median(run["peak"] for run in side) for side in (ours, theirs))
        row["ratio"] = statistics.median(a["cpu"] / b["cpu"] for a, b in zip(ours, theirs, strict=True))
        row["difference"] = None if one.sampled else difference(ours[0]["scores"], theirs[0]["scores"])
        rows.append(row)
    return rows


def difference(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """The largest difference of two scores, as a share of the largest score."""
    pairs = [pair for one, other in zip(ours, theirs, strict=True) for pair in zip(one, other, strict=True)]
    return max(abs(a - b) for a, b in pairs) / max(abs(b) for _, b in pairs)


def table(rows: list[dict]) -> str:
    lines = [
        "| explainer | CPU s | MB | peer | CPU s | MB | ours / peer | scores |",
        "|---|--:|--:|---|--:|--:|--:|---|",
    ]
    for row in rows:
        options = ", ".join(f"{name}={value}" for name, value in row["options"].items())
        name = f"`{row['method']}`" + (f" ({options})" if options else "")
        if "failed" in row:
            lines.append(f"| {name} | | | {row['peer']} | | | | {row['failed'][:60]} |")
            continue
        apart = row["difference"]
        scores = "sampled" if apart is None else "same" if apart < SAME else "others"
        lines.append(
            f"| {name} | {row['ours_cpu']:.3f} | {row['ours_peak']:.0f} | {row['peer']} | {row['peer_cpu']:.3f} "
            f"| {row['peer_peak']:.0f} | {row['ratio']:.2f} | {scores} |"
        )
    return "\n".join(lines)


def write(path: Path, body: str) -> None:
    """Puts the table between its marks, or at the end of the page."""
    page = path.read_text() if path.exists() else "# Benchmarks\n"
    section = f"{MARKS[0]}\n{body}\n{MARKS[1]}"
    before, found, rest = page.partition(MARKS[0])
    page = f"{before}{section}{rest.partition(MARKS[1])[2]}" if found else f"{page.rstrip()}\n\n{section}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page)


def install(folder: Path) -> None:
    for name, packages in ENVIRONMENTS.items():
        subprocess.run([sys.executable, "-m", "venv", str(folder / name)], check=True)
        subprocess.run([str(folder / name / "bin/python"), "-m", "pip", "install", "-q", *packages], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small model and few texts: does it run at all?")
    parser.add_argument("--only", action="append", help="this explainer only (may be given often)")
    parser.add_argument("--turns", type=int, default=0, help="runs that count, each (5; 2 with --quick)")
    parser.add_argument("--peers", type=Path, default=Path("build/peers"), help="where the peers' environments are")
    parser.add_argument("--install", action="store_true", help="make the peers' environments and stop")
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    given = parser.parse_args()
    if given.install:
        install(given.peers)
        return
    chosen = [one for one in contests(given.quick) if not given.only or one.method in given.only]
    turns = given.turns or (2 if given.quick else 5)
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), given.quick)
        processes: dict[str, Process] = {}
        try:
            for library in ["troth", *dict.fromkeys(peer for one in chosen for peer in one.peers)]:
                own = given.peers / library / "bin/python"
                python = str(own) if library in ENVIRONMENTS else sys.executable
                if library not in ENVIRONMENTS or own.exists():
                    process = Process(python, library, folder)
                    if process.ready:
                        processes[library] = process
            texts = make_texts(given.quick)
            for one in chosen:
                start = time.perf_counter()
                rows += contest(one, processes, texts[one.texts], turns)
                sys.stderr.write(f"{one.method}: {time.perf_counter() - start:.0f} s\n")
        finally:
            for process in processes.values():
                process.close()
    model = "BERT, 2 layers of 128" if given.quick else "BERT, 6 layers of 384"
    about = (
        f"A random {model}; {turns} turns; {platform.processor() or platform.machine()}, one thread, "
        f"Python {platform.python_version()}. *ours / peer* below 1: ours is faster.\n"
    )
    sys.stdout.write(f"{about}\n{table(rows)}\n")
    if given.write:
        write(given.write, f"{about}\n{table(rows)}")


if __name__ == "__main__":
    main()
