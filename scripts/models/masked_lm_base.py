"""Continues an encoder with masked language modeling, so that it is a base that knows its mask token.

    python scripts/models/masked_lm_base.py --base FOLDER --corpus texts.txt.xz reviews.jsonl.gz --out FOLDER --epochs 3
    python scripts/models/masked_lm_base.py --base FOLDER --held-out other.jsonl.gz --epochs 0      # only measures
    python scripts/models/masked_lm_base.py --base FOLDER --corpus texts.txt.xz --out FOLDER --head-only

A corpus is plain text with one paragraph per line, or JSON lines with the field `text`; both may be compressed with
gzip or xz. Texts are joined and cut into blocks. A hundredth of the blocks is held out, unless `--held-out` names other
files. One token in five is predicted: 80 % of these are masked, 10 % replaced at random and 10 % left (Devlin et al.,
2019). The output folder has the weights in half precision with the head of the language model, the tokenizer, and
`masked_lm.json`: the settings, the time, and loss and accuracy on the held-out blocks before and after training.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoTokenizer, get_linear_schedule_with_warmup

PREDICTED, MASKED, REPLACED = 0.2, 0.8, 0.1  # shares of the tokens, and of the predicted tokens
IGNORED = -100  # label of tokens that are not predicted
CLIP = 1.0  # norm of the gradient


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = parsed(arguments)
    torch.manual_seed(options.seed)
    tokenizer = AutoTokenizer.from_pretrained(options.base)
    if tokenizer.mask_token is None:
        raise SystemExit(f"{options.base} has no mask token; choose a base that has one")
    model = AutoModelForMaskedLM.from_pretrained(options.base, dtype=torch.float32).to(options.device)
    blocks = cut(tokenizer, read(options.corpus, options.limit), options.length)
    if options.held_out:
        held_out = cut(tokenizer, read(options.held_out, options.limit), options.length)
    else:
        order = torch.randperm(len(blocks))
        held_out, blocks = blocks[order].tensor_split([math.ceil(len(blocks) / 100)])
    if not len(held_out) or (options.epochs and not len(blocks)):
        raise SystemExit(f"the texts are too short for blocks of {options.length} tokens; give more texts or --length")
    facts: dict[str, Any] = {"settings": {name: str(value) for name, value in vars(options).items()}}
    facts |= {"tokens": blocks.numel(), "held_out_tokens": held_out.numel()}
    facts["before"] = evaluate(model, held_out, tokenizer, options)
    print("before", facts["before"], flush=True)
    if options.epochs:
        facts["steps"], facts["seconds"] = train(model, blocks, tokenizer, options)
        facts["after"] = evaluate(model, held_out, tokenizer, options)
        print("after", facts["after"], flush=True)
    if options.out:
        model.half().save_pretrained(options.out)
        tokenizer.save_pretrained(options.out)
        (options.out / "masked_lm.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return facts


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="folder or hub name of the encoder")
    parser.add_argument("--corpus", type=Path, nargs="+", default=[], help="files to train on")
    parser.add_argument("--held-out", type=Path, nargs="+", help="files to measure on")
    parser.add_argument("--out", type=Path, help="folder to write, which must not exist yet")
    parser.add_argument("--limit", type=int, help="read only so many texts of each file")
    parser.add_argument("--head-only", action="store_true", help="train only the head of the language model")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--length", type=int, default=128, help="tokens per block")
    parser.add_argument("--rows", type=int, default=512, help="blocks per step")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    if not options.corpus and (options.epochs or not options.held_out):
        parser.error("give --corpus to train on, or --held-out with --epochs 0 to measure only")
    if options.out and options.out.exists():
        parser.error(f"{options.out} exists; choose another --out")
    return options


def read(paths: Iterable[Path], limit: int | None) -> Iterator[str]:
    """The texts of all files."""
    for path in paths:
        opened: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
        with opened(path, "rt", encoding="utf-8") as file:
            lines = islice((line.strip() for line in file if line.strip()), limit)
            yield from (json.loads(line)["text"] if ".jsonl" in path.name else line for line in lines)


def cut(tokenizer: Any, texts: Iterator[str], length: int) -> Tensor:
    """[blocks, length] running text, with the tokenizer's special tokens around each block and between texts."""
    around = tokenizer("")["input_ids"]
    first, last = around[: len(around) // 2], around[len(around) // 2 :]
    inner, stream = length - len(around), []
    while batch := list(islice(texts, 10_000)):
        for ids in tokenizer(batch, add_special_tokens=False)["input_ids"]:
            stream += [*ids, *last]
    body = torch.tensor(stream[: len(stream) // inner * inner]).view(-1, inner)
    before, after = (torch.tensor(ids).expand(len(body), -1) for ids in (first, last))
    return torch.cat([before, body, after], dim=1)


def mask(ids: Tensor, tokenizer: Any, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs and labels. [rows, length] each; special tokens are never predicted."""
    asked = torch.rand(ids.shape, generator=generator) < PREDICTED
    asked &= ~torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    how = torch.rand(ids.shape, generator=generator)
    random = torch.randint(len(tokenizer), ids.shape, generator=generator)
    inputs = torch.where(asked & (how < MASKED), tokenizer.mask_token_id, ids)
    inputs = torch.where(asked & (how >= MASKED) & (how < MASKED + REPLACED), random, inputs)
    return inputs, torch.where(asked, ids, IGNORED)


def train(model: Any, blocks: Tensor, tokenizer: Any, options: argparse.Namespace) -> tuple[int, float]:
    """The number of steps, and the seconds they took."""
    steps = math.ceil(options.epochs * len(blocks) / options.rows)
    if options.head_only:
        model.base_model.requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=options.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, max(1, steps // 20), steps)
    generator = torch.Generator().manual_seed(options.seed)
    started, done = time.perf_counter(), 0
    model.train(not options.head_only)  # a frozen encoder works without dropout
    while done < steps:
        for rows in torch.randperm(len(blocks), generator=generator).split(options.rows)[: steps - done]:
            inputs, labels = (part.to(options.device) for part in mask(blocks[rows], tokenizer, generator))
            with torch.autocast(torch.device(options.device).type, torch.bfloat16):
                loss = model(inputs, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, CLIP)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            done += 1
            if done % 100 == 0 or done == steps:
                print(f"step {done} of {steps}: loss {loss.item():.3f}", flush=True)
    return steps, round(time.perf_counter() - started, 1)


@torch.no_grad()
def evaluate(model: Any, blocks: Tensor, tokenizer: Any, options: argparse.Namespace) -> dict[str, float]:
    """Mean loss and accuracy over the predicted tokens, which are the same ones for every model with this tokenizer."""
    model.eval()
    generator, count, loss, right = torch.Generator().manual_seed(0), 0, 0.0, 0
    for rows in blocks.split(options.rows):
        inputs, labels = (part.to(options.device) for part in mask(rows, tokenizer, generator))
        asked = labels != IGNORED
        logits, wanted = model(inputs).logits[asked].float(), labels[asked]
        loss += float(torch.nn.functional.cross_entropy(logits, wanted, reduction="sum"))
        right += int((logits.argmax(-1) == wanted).sum())
        count += len(wanted)
    return {"predicted": count, "loss": round(loss / count, 4), "accuracy": round(right / count, 4)}


if __name__ == "__main__":
    main()
