"""Makes the base of the embedded model: a small BERT pretrained from scratch on film reviews, then taught by a
fine-tuned MiniLM to tell good from bad. `scripts/models/embedded/README.md` has the whole story and the commands.

Stages, each saved under --out as soon as it is done: tokenizer, pretrained, teacher's probabilities, distilled.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import random
import re
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, CLS, SEP, MASK = 0, 2, 3, 4
LABELS = {0: "negative", 1: "positive"}


def main() -> None:
    options = arguments()
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    torch.set_float32_matmul_precision("high")
    options.out.mkdir(parents=True, exist_ok=True)
    log = Log(options.out / "log.jsonl")
    reviews = read_reviews(options.data / "corpus_imdb_unsup.txt.xz", options.reviews)
    tokenizer = train_tokenizer(reviews, options.out / "tokenizer")
    log("tokenizer", size=len(tokenizer), reviews=len(reviews))
    student = pretrain(tokenizer, reviews, options, log)
    train, validation = read_sst2(options.data / "sst2", "train"), read_sst2(options.data / "sst2", "validation")
    texts = sentences(reviews, options.sentences)
    teacher = fine_tune_teacher(options, train, validation, log)
    distil(student, tokenizer, teacher, texts, train, validation, options, log)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with corpus_imdb_unsup.txt.xz and sst2/")
    parser.add_argument("--teacher", type=Path, required=True, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reviews", type=int, default=None, help="read only so many (for a trial)")
    parser.add_argument("--sentences", type=int, default=400_000)
    parser.add_argument("--seconds", type=float, default=210, help="of pretraining")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--teacher-epochs", type=float, default=3)
    parser.add_argument("--steps", type=int, default=5000, help="of distillation")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


class Log:
    """Lines of JSON with the time since the start, printed and kept."""

    def __init__(self, path: Path) -> None:
        self.path, self.start = path, time.time()

    def __call__(self, what: str, **facts: object) -> None:
        line = json.dumps({"seconds": round(time.time() - self.start, 1), "what": what, **facts})
        print(line, flush=True)
        with self.path.open("a") as file:
            file.write(line + "\n")


# Data


def read_reviews(path: Path, limit: int | None) -> list[str]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        reviews = [line.strip() for line in file if line.strip()]
    return reviews[:limit]


def read_sst2(folder: Path, split: str) -> list[tuple[str, int]]:
    with gzip.open(folder / f"{split}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [(row["text"], int(row["label"])) for row in rows]


def sentences(reviews: list[str], count: int) -> list[str]:
    """Distinct sentences of 3 to 60 words, drawn at random."""
    found = {
        sentence
        for review in reviews
        for sentence in re.split(r"(?<=[.!?])\s+", review)
        if 3 <= len(sentence.split()) <= 60
    }
    return random.sample(sorted(found), min(count, len(found)))


def train_tokenizer(texts: list[str], folder: Path) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=8192, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    ids = [("[CLS]", CLS), ("[SEP]", SEP)]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ids)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=256,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **dict(zip(names, SPECIAL, strict=True)),
    )
    wrapped.save_pretrained(folder)
    return wrapped


def padded(tokenizer: PreTrainedTokenizerFast, texts: list[str], length: int) -> Tensor:
    """[texts, length] ids, cut and padded on the right; 16 bits are enough for either vocabulary."""
    encoded = tokenizer(texts, truncation=True, max_length=length, padding="max_length", return_tensors="np")
    return torch.from_numpy(encoded["input_ids"].astype("int32"))


# Pretraining


def pretrain(
    tokenizer: PreTrainedTokenizerFast, reviews: list[str], options: argparse.Namespace, log: Log
) -> BertForMaskedLM:
    """Masked language modeling at 20 % on blocks of running text: 128 tokens, 256 for the last sixth of the time."""
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024,
        max_position_embeddings=256, pad_token_id=PAD,
    )  # fmt: skip
    device = torch.device(options.device)
    model = BertForMaskedLM(config).to(device)
    stream = [token for ids in tokenizer(reviews, add_special_tokens=False)["input_ids"] for token in (*ids, SEP)]
    tokens = torch.tensor(stream, dtype=torch.int32, device=device)
    log("corpus", tokens=len(tokens), parameters=sum(p.numel() for p in model.parameters()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), weight_decay=0.01)
    step_of = torch.compile(masked_loss, dynamic=False) if device.type == "cuda" else masked_loss
    start, step, total = time.time(), 0, 0.0
    while (share := (time.time() - start) / options.seconds) < 1:
        length, rows = (128, options.rows) if share < 5 / 6 else (256, options.rows // 2)
        warm = min(1.0, (step + 1) / 1000)
        for group in optimizer.param_groups:
            group["lr"] = 5e-4 * min(warm, max(0.02, (1 - share) / 0.7))
        ids = blocks(tokens, rows, length)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = step_of(model, ids)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % 500 == 0 or device.type == "cpu":
            total = float(loss.detach())
            log("pretrain", step=step, loss=round(total, 3), share=round(share, 3))
    model.save_pretrained(options.out / "pretrained")
    log("pretrained", steps=step, loss=round(float(loss.detach()), 3))
    return model


def blocks(tokens: Tensor, rows: int, length: int) -> Tensor:
    """[rows, length] running text between [CLS] and [SEP], from random places."""
    starts = torch.randint(len(tokens) - length, (rows, 1), device=tokens.device)
    ids = tokens[starts + torch.arange(length, device=tokens.device)].long()
    ids[:, 0], ids[:, -1] = CLS, SEP
    return ids


def masked_loss(model: BertForMaskedLM, ids: Tensor) -> Tensor:
    """Cross-entropy at a fifth of the positions: 80 % of them masked, 10 % swapped, 10 % left."""
    rows, length = ids.shape
    noise = torch.rand(rows, length, device=ids.device).masked_fill(ids < len(SPECIAL), -1)
    chosen = noise.topk(length // 5, dim=1).indices
    truth = ids.gather(1, chosen)
    fate = torch.rand(truth.shape, device=ids.device)
    swapped = torch.randint_like(truth, len(SPECIAL), model.config.vocab_size)
    shown = torch.where(fate < 0.8, MASK, torch.where(fate < 0.9, swapped, truth))
    hidden = model.bert(ids.scatter(1, chosen, shown)).last_hidden_state
    picked = hidden.gather(1, chosen[..., None].expand(-1, -1, hidden.shape[-1]))
    logits = model.cls(picked)
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), truth.flatten())


# The teacher


def fine_tune_teacher(
    options: argparse.Namespace, train: list[tuple[str, int]], validation: list[tuple[str, int]], log: Log
) -> tuple[nn.Module, PreTrainedTokenizerFast]:
    device = torch.device(options.device)
    tokenizer = AutoTokenizer.from_pretrained(options.teacher)
    teacher = AutoModelForSequenceClassification.from_pretrained(options.teacher, num_labels=2, dtype=torch.float32)
    teacher.to(device)
    ids = padded(tokenizer, [text for text, _ in train], 64)
    labels = torch.tensor([label for _, label in train])
    steps = int(options.teacher_epochs * len(train) / 64)
    targets = nn.functional.one_hot(labels, 2).float()
    teach(teacher, ids, targets, steps=steps, rows=64, rate=5e-5, device=device)
    log("teacher", validation=accuracy(teacher, tokenizer, validation, device))
    return teacher, tokenizer


def teach(
    model: nn.Module, ids: Tensor, targets: Tensor, *, steps: int, rows: int, rate: float, device: torch.device
) -> None:
    """Cross-entropy with soft targets; a batch is as long as its longest text, and texts of a batch are of a length."""
    lengths = (ids != model.config.pad_token_id).sum(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    warm = max(1, int(0.06 * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, max(0.0, (steps - step) / max(1, steps - warm)))
    )
    model.train()
    ids, targets = ids.to(device), targets.to(device)
    done = 0
    while done < steps:
        # Shuffled, then sorted by length inside pools of 50 batches, then the batches shuffled.
        order = torch.randperm(len(ids))
        batches = []
        for pool in order.split(rows * 50):
            batches += list(pool[lengths[pool].argsort()].split(rows))
        random.shuffle(batches)
        for batch in batches:
            if done == steps:
                break
            width = int(lengths[batch].max())
            inputs = ids[batch.to(device), :width].long()
            with torch.autocast(device.type, dtype=torch.bfloat16):
                logits = model(input_ids=inputs, attention_mask=(inputs != model.config.pad_token_id).long()).logits
            loss = nn.functional.cross_entropy(logits.float(), targets[batch.to(device)])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            done += 1
    model.eval()


@torch.no_grad()
def probabilities(model: nn.Module, ids: Tensor, device: torch.device) -> Tensor:
    """[texts, 2] in order, computed in batches of like length."""
    lengths = (ids != model.config.pad_token_id).sum(1)
    found = torch.empty(len(ids), 2)
    for batch in lengths.argsort().split(1024):
        inputs = ids[batch, : int(lengths[batch].max())].long().to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(input_ids=inputs, attention_mask=(inputs != model.config.pad_token_id).long()).logits
        found[batch] = logits.float().softmax(-1).cpu()
    return found


def accuracy(
    model: nn.Module, tokenizer: PreTrainedTokenizerFast, rows: list[tuple[str, int]], device: torch.device
) -> float:
    ids = padded(tokenizer, [text for text, _ in rows], 128)
    right = probabilities(model, ids, device).argmax(-1) == torch.tensor([label for _, label in rows])
    return round(float(right.float().mean()), 4)


def distil(
    student: BertForMaskedLM,
    tokenizer: PreTrainedTokenizerFast,
    teacher: tuple[nn.Module, PreTrainedTokenizerFast],
    texts: list[str],
    train: list[tuple[str, int]],
    validation: list[tuple[str, int]],
    options: argparse.Namespace,
    log: Log,
) -> None:
    device = torch.device(options.device)
    everything = texts + [text for text, _ in train]
    targets = probabilities(teacher[0], padded(teacher[1], everything, 96), device)
    log("labeled", texts=len(everything))
    config = BertConfig.from_dict({**student.config.to_dict(), "num_labels": 2, "id2label": LABELS})
    config.label2id = {name: index for index, name in LABELS.items()}
    classifier = BertForSequenceClassification(config)
    missing = classifier.bert.load_state_dict(student.bert.state_dict(), strict=False)
    assert all(name.startswith("pooler") for name in missing.missing_keys), missing
    classifier.to(device)
    teach(
        classifier,
        padded(tokenizer, everything, 96),
        targets,
        steps=options.steps,
        rows=256,
        rate=1.5e-4,
        device=device,
    )
    log("distilled", validation=accuracy(classifier, tokenizer, validation, device))
    classifier.half().save_pretrained(options.out / "distilled")
    tokenizer.save_pretrained(options.out / "distilled")


if __name__ == "__main__":
    main()
