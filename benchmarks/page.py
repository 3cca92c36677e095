"""The results as tables in Markdown, and the page they go to."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

MARKS = ("<!-- speed: written by benchmarks/speed.py -->", "<!-- /speed -->")
TEXTS = {
    "many": "32 of 20–30", "short": "4 of 20–30", "one": "24", "beam": "12", "long": "256", "longest": "512",
    "causal": "400 + 30",
}  # fmt: skip


def table(results: list[dict[str, Any]], heading: bool = True) -> str:
    """A line per work and peer."""
    lines = [
        "| work | model | tokens | ms a text | MB | × floor | peer | ms a text | MB | peer / ours | fast | scores |",
        "|---|---|---|--:|--:|--:|---|--:|--:|--:|--:|---|",
    ]
    rows = [line for result in results for line in _lines(result)]
    return "\n".join([*(lines if heading else []), *rows])


def _lines(result: dict[str, Any]) -> list[str]:
    by_name = {row["name"]: row for row in result["contenders"]}
    ours, fast, least = by_name["troth"], by_name["troth (fast)"], by_name.get("floor")
    options = ", ".join(f"{name} {value}" for name, value in result["options"].items())
    name = f"`{result['work']}`" + (f" {options}" if options else "")
    first = f"| {name} | {result['size']} | {TEXTS[result['texts']]} "
    if "error" in ours:
        return [f"{first}| {ours['error']} | | | | | | | | |"]
    above = f"{least['ratio']:.2f}" if least else ""
    first += f"| {ours['ms']:.1f} | {ours['memory']:.0f} | {above} "
    lines = []
    for row in result["contenders"]:
        if row["name"] in ("floor", "troth", "troth (fast)"):
            continue
        if "error" in row:
            lines.append(f"{first}| {row['name']} | | | | | {row['error'].replace('|', '/')[:120]} |")
            continue
        scores = {None: "sampled", True: "same", False: "others"}[row["same"]]
        quick = f"{row['ms'] / fast['ms']:.2f}" if "ms" in fast else ""
        numbers = f"{row['ms']:.1f} | {row['memory']:.0f} | {row['ratio']:.2f} | {quick}"
        lines.append(f"{first}| {row['name']} | {numbers} | {scores} |")
    return lines


def about(results: list[dict[str, Any]]) -> str:
    """The machine, and what the numbers are."""
    peaks = [row["peak"] / 1e9 for result in results for row in result["contenders"] if "peak" in row]
    turns = sorted({result["turns"] for result in results})
    speed = f", matrix products at {min(peaks):.0f}–{max(peaks):.0f} GFLOP/s" if peaks else ""
    return (
        f"{processor()}, one thread{speed}; Python {platform.python_version()}, {_versions()}; {turns[0]}–{turns[-1]} "
        "turns. Models have random weights. *peer / ours* is the time of the peer divided by that of troth; *fast* is "
        'the same ratio for troth with `precision="fast"`.\n'
    )


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _versions() -> str:
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))


def write(path: Path, results: list[dict[str, Any]]) -> None:
    put(path, MARKS, f"{about(results)}\n{table(results)}")


def put(path: Path, marks: tuple[str, str], body: str) -> None:
    """Puts a section between its marks, or at the end of the page."""
    page = path.read_text() if path.exists() else "# Benchmarks\n"
    section = f"{marks[0]}\n{body}\n{marks[1]}"
    before, found, rest = page.partition(marks[0])
    page = f"{before}{section}{rest.partition(marks[1])[2]}" if found else f"{page.rstrip()}\n\n{section}\n"
    path.write_text(page)
