"""Files that are endless, huge, nested or not files at all: what is put into a folder, by name."""

from __future__ import annotations

import gzip
import json
import os
import socket
from pathlib import Path

DEEP = "[" * 100_000
_ZEROS = gzip.compress(bytes(16 << 20), 9)  # expands a thousandfold; members can stand one after the other


def fill(folder: Path, model: Path) -> None:
    """Writes all of them; what is large takes little space on the disk."""
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.csv.gz", "plan.toml", "record.json", "mine.py"):
        os.mkfifo(folder / f"fifo-{name}")
    for name, target in {"zero": "/dev/zero", "random": "/dev/urandom", "full": "/dev/full"}.items():
        for ending in ("csv", "jsonl", "json", "parquet", "csv.gz", "toml"):
            (folder / f"{name}.{ending}").symlink_to(target)
    (folder / "memory.csv").symlink_to("/proc/self/mem")
    (folder / "loop.csv").symlink_to("loop.csv")
    with socket.socket(socket.AF_UNIX) as listening:
        before = os.getcwd()
        os.chdir(folder)  # a socket's path may have few characters
        listening.bind("socket.csv")
        os.chdir(before)
    for name, size in {
        "huge.csv": 3 << 30, "huge.jsonl": 3 << 30, "huge.json": 1 << 30, "huge.parquet": 3 << 30, "long.csv": 80 << 20,
        "long.jsonl": 80 << 20, "huge.toml": 2 << 20, "record.json": 80 << 20, "mine.py": 80 << 20,
        "huge.csv.gz": 3 << 30,
    }.items():  # fmt: skip
        sparse(folder / name, size)
    row = b"a,1\n" * (4 << 20)
    for name, content in {
        "zeros.csv.gz": _ZEROS * 256,
        "zeros.jsonl.gz": _ZEROS * 256,
        "zeros.json.gz": _ZEROS * 256,
        "rows.csv.gz": gzip.compress(b"text,label\n") + gzip.compress(row) * 256,
        "deep.json.gz": gzip.compress(b"[" * (16 << 20)) * 8,
        "twice.csv.gz": gzip.compress(_ZEROS),
        "torn.csv.gz": gzip.compress(os.urandom(5_000))[:-9],
        "broken.csv.gz": b"\x1f\x8b" + bytes(100),
        "text.csv.gz": b"text,label\na,1\n",
        "text.parquet": b"text,label\na,1\n",
        "latin.csv": "text,label\né,1\n".encode("latin-1"),
        "utf16.csv": "text,label\na,1\n".encode("utf-16"),
        "nul.jsonl": b"\x00" * 1_000,
        "deep.jsonl": b'{"text": ' + b"[" * 100_000,
        "deep.json": DEEP.encode(),
        "objects.json": b'{"a":' * 100_000,
        "nested.jsonl": b'{"text": "a", "label": ' + b"[" * 500 + b"]" * 500 + b"}",
        "digits.jsonl": b'{"text": "a", "label": ' + b"9" * 5_000 + b"}",
        "digits.json": b'[{"text": "a", "label": ' + b"9" * 5_000 + b"}]",
        "quote.csv": b'text,label\n"' + b"a" * (65 << 20),
    }.items():
        (folder / name).write_bytes(content)
    parquet(folder)
    for name, files in FOLDERS.items():
        (folder / name).mkdir()
        for file, content in files.items():
            place(folder / name / file, content)
    for name, content in TRAINED.items():
        (folder / name).mkdir()
        for file in model.iterdir():
            (folder / name / file.name).symlink_to(file)
        place(folder / name / "train.json", content)


def place(path: Path, content: str | int | None) -> None:
    """A FIFO, a file of zeros of a size, or one of a text."""
    path.parent.mkdir(exist_ok=True)
    if content is None:
        os.mkfifo(path)
    elif isinstance(content, int):
        sparse(path, content)
    else:
        path.write_text(content)


def sparse(path: Path, size: int) -> None:
    with open(path, "wb") as file:
        file.truncate(size)


def parquet(folder: Path) -> None:
    """Files that expand to gigabytes: a text of a megabyte that repeats, and rows without end that hold nothing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    places = pa.array([0] * 4_000, pa.int32())
    repeated = pa.DictionaryArray.from_arrays(places, pa.array(["x" * (1 << 20)]))
    pq.write_table(pa.table({"text": repeated}), folder / "repeated.parquet", store_schema=False)
    pq.write_table(pa.table({"text": pa.nulls(300_000_000)}), folder / "nothing.parquet", compression="zstd")


_ROW = json.dumps({"annotation_id": "a", "classification": "x", "evidences": [], "docids": ["a"]}) + "\n"
# Folders of data: None is a FIFO, a number is a file of so many zeros.
FOLDERS: dict[str, dict[str, str | int | None]] = {
    "split-fifo": {"train.jsonl": None},
    "split-huge": {"train.jsonl": 3 << 30},
    "split-deep": {"test.json": DEEP},
    "saved-fifo": {"dataset_dict.json": None},
    "saved-huge": {"dataset_dict.json": 80 << 20},
    "saved-deep": {"dataset_dict.json": DEEP},
    "saved-digits": {"dataset_dict.json": '{"splits": ' + "9" * 5_000 + "}"},
    "state-fifo": {"state.json": None},
    "state-deep": {"state.json": '{"a":' * 100_000},
    "arrow-fifo": {"state.json": '{"_split": "train"}', "data.arrow": None},
    "arrow-huge": {"state.json": '{"_split": "train"}', "data.arrow": 3 << 30},
    "eraser-fifo": {"test.jsonl": _ROW, "docs/a": None},
    "eraser-huge": {"test.jsonl": _ROW, "docs/a": 80 << 20},
    "eraser-packed-fifo": {"test.jsonl": _ROW, "docs.jsonl": None},
    "eraser-packed-deep": {"test.jsonl": _ROW, "docs.jsonl": DEEP},
    "eraser-packed-huge": {"test.jsonl": _ROW, "docs.jsonl": 3 << 30},
    "records-fifo": {"one.json": None},
}
# Model folders by what their train.json is.
TRAINED: dict[str, str | int | None] = {
    "trained-fifo": None,
    "trained-deep": '{"identity": ' + DEEP,
    "trained-nested": '{"identity": ' + "[" * 500 + "]" * 500 + "}",
    "trained-digits": '{"identity": ' + "9" * 5_000 + "}",
}
