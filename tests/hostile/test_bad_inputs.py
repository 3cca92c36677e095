"""Bad input to every command: exit code 2, one clear line that names it, no traceback, nothing written."""

from __future__ import annotations

import re
from importlib import import_module
from typing import get_type_hints

import pytest
import typer.main

from troth import cli
from troth.core.terminal import visible

COMMANDS = typer.main.get_command(cli.app).commands

# What makes each command work, so that one bad option is all that is wrong.
GOOD = {
    "explain": ["a good film", "-m", "model", "-e", "gradient"],
    "bench": [
        *["-m", "model", "-d", "data.jsonl", "-e", "random", "--metrics", "sparsity"],
        *["--workers", "1", "--limit", "3", "--out", "new"],
    ],
    "check": ["-m", "model", "-d", "data.jsonl", "-e", "random", "--limit", "4"],
    "train": ["plain", "--data", "data.jsonl", "--base", "scratch", "--out", "new"],
    "fit": ["attributive_masking", "-m", "model", "--data", "data.jsonl", "--out", "new"],
    "fresh": ["--data", "data.jsonl", "--out", "new"],
    "study": ["roar", "--out", "new"],
    "sweep": ["plan.toml", "--out", "new", "--workers", "1"],
    "report": ["run"],
    "runs": ["."],
    "query": ["run", "select 1"],
    "diff": ["run", "run"],
    "list": [],
    "doctor": [],
}
NO_INTEGER = ["x", "", "1.5", "nan", "1e3", "٣x", "\x1b[2J", "--", "0x10"]
NO_NUMBER = ["x", "", "1,5", "\x07", "1e", "--"]
METHODS = ["loo", "", "(", "lime(", "__import__('os').system('touch owned')", "lime\x1b[31m", "é" * 300, "a;b"]
# By option: values that no command of ours may take.
BAD = {
    "units": ["letter", "", "Word", "word\x00"[:4] + "\x1b", "é"],
    "segments": ["second", "", "0"],
    "target": ["joyful", "99", "-7", "", "9" * 30, "\x1b]0;x\x07"],
    "against": ["joyful", "99", "-7", "9" * 30],
    "masking": [*METHODS, "mask_token(x=1)", "zero(1)", "gaussian(sigma=1e999)"],
    "explainer": [*METHODS, "lime(samples=1000000000000)", "lime(samples=-1)", "lime(samples=1.5)",
                  "lime(samples=True)", "lime(kernel_width=nan)", "lime(kernel_width=1e999)",
                  "integrated_gradients(steps=0)", "integrated_gradients(steps=99999999999999)",
                  "beam_search(width=0)", "lime(samples=2, samples=3)"],
    "metrics": [*METHODS, "sparsity(x=1)", "soft_comprehensiveness(samples=1000000000000)",
                "comprehensiveness(ratio=2)", "comprehensiveness(ratio=-1)", "recursive_erasure(step=0)"],
    "model": ["absent/of/everything", "./absent", "file", "folder", "torn", "\x1b[2J/a/b", "/dev/null"],
    "data": ["absent.csv", "file", "folder", "reviws", "\x1b[2J.csv", "run"],
    "device": ["meta", "", "nowhere", "cuda:99", "cpu:x", "\x07"],
    "engine": ["spark", "", "Ray", "\x1b"],
    "workers": ["0", "-1", "99999999"],
    "threads": ["0", "-1", "99999999"],
    "gpus": ["nan", "-1", "inf"],
    "limit": ["-1"],
    "shard": ["0/4", "5/4", "x", "1/0", "-1/4", "", "1/2/3"],
    "split": ["absent", "\x1b"],
    "sort": ["nothing", "sparsit", ""],
    "text": ["absent", "\x1b[2J"],
    "label": ["absent"],
    "out": ["file", "file/below", "folder/../file"],
    "html": [".", "file/page.html", "folder"],
    "step": ["nan", "0", "-1", "2", "0.3", "inf"],
    "mask_text": ["x"],
    "class_words": ["good,bad"],
    "address": ["somewhere", "127.0.0.1:1"],
}  # fmt: skip
BAD["explainers"] = BAD["explainer"]
OURS = ("explain", "bench", "sweep", "list", "runs")  # the rest only by type, below


def options(command):
    return [option for option in COMMANDS[command].params if option.opts[0].startswith("-") and not option.is_flag]


def by_type():
    for command in COMMANDS:
        hints = get_type_hints(getattr(import_module(f"troth.commands.{command}"), command))
        for option in options(command):
            kinds = str(hints[option.name])  # int, float | None, list[int] | None
            for value in NO_INTEGER if "int" in kinds else NO_NUMBER if "float" in kinds else []:
                yield command, option.opts[0], value


def by_name():
    for command in OURS:
        for option in options(command):
            for value in BAD.get(option.name, []):
                yield command, option.opts[0], value


# (arguments, what the line says)
OTHERS = [
    (["explan"], "No such command 'explan'"),
    (["\x1b]0;x\x07"], r"No such command"),
    (["explain", "x", "--explainr", "lime"], "No such option: --explainr"),
    (["explain", "\udcff"], "the text is no valid Unicode"),
    (["explain", "a", "-m", "\udcff/a/b"], r"there is no model folder \xff/a/b"),
    (["explain", ""], "the text is empty"),
    (["explain", "a", "b", "--pair", "c"], "--pair goes with one text, not 2"),
    (["explain", "a", "-m", "model", "--no-chat"], "chat goes with a prompt"),
    (["explain", "a", "-m", "small", "-e", "gradient"], "word vectors; use the tokenizer it was trained with"),
    (["explain", "a", "-m", "torn"], "cannot load torn as a text classifier"),
    (["train", "plain", "--data", "data.jsonl", "--base", "torn", "--out", "new"], "cannot load torn to train it"),
    (["explain", "a", "-m", "model", "--html", ""], "cannot write"),
    (["sweep", "absent.toml"], "there is no plan file absent.toml"),
    (["sweep", "folder"], "folder is no plan file"),
    (["sweep", "data.jsonl"], "data.jsonl: line 1"),
    (["sweep", "file"], "models is missing"),
    (["sweep", "\udcff.toml"], r"there is no plan file \xff.toml"),
    (["sweep", "plan.toml", "--out", "new", "--address", "1.2.3.4:1"], "address goes with engine ray"),
    (["sweep", "plan.toml", "--out", "new", "--gpus", "1"], "gpus goes with engine ray"),
    (["report", "absent"], "no run is called 'absent'"),
    (["report", "\x1b[2J"], r"no run is called '\x1b[2J'"),
    (["report", "folder"], "no run is called 'folder'"),
    (["runs", "absent"], "there is no folder absent"),
    (["runs", "file"], "there is no folder file"),
    (["runs", "\x1b[2J"], r"there is no folder \x1b[2J"),
    (["query", "absent", "select 1"], "no run is called 'absent'"),
    (["query", "run", "drop table cells"], "a run is only read"),
    (["query", "run", ""], "a run is only read"),
    (["query", "run", "select '"], "Parser Error"),
    (["query", "run", "select \x1b"], r"\x1b"),
    (["query", "run", "select * from read_csv('/etc/passwd')"], "Permission Error"),
    (["query", "run", "copy cells to 'x.csv'"], "a run is only read"),
    (["query", "run", "attach 'x.db'"], "a run is only read"),
    (["query", "run", "install httpfs"], "a run is only read"),
    (["query", "run", "select 1; select 2"], "a run is only read"),
    (["diff", "run", "absent"], "no run is called 'absent'"),
    (["list", "explainer"], "did you mean explainers?"),
    (["list", "\x1b[31m"], r"no kind is called '\x1b[31m'"),
    (["bench", "--out", "folder/../file", "--limit", "2"], "file"),
]


def check(troth, room, arguments):
    said = troth(*arguments, room=room)
    assert said.code == 2, (said.code, said.out[-300:], said.err[-600:])
    assert said.err.startswith("troth: ")
    assert said.err.count("\n") == 1, said.err
    assert said.err == visible(said.err)
    assert len(said.err) < 2500
    assert said.out == ""
    assert said.written == []
    return said.err


@pytest.mark.parametrize(("command", "option", "value"), [*by_type(), *by_name()])
def test_a_bad_option(troth, room, command, option, value):
    line = check(troth, room, [command, *GOOD[command], option, value])
    name = option.lstrip("-")
    method, _, given = value.partition("(")
    parts = [method, *re.findall(r"=(-?[\w.]+)", given)] if given else []  # of a spec
    named = (value[:40], visible(value)[:40], repr(value)[1:40], name, name.replace("-", "_"), *parts)
    assert value == "" or any(name in line for name in named), line


@pytest.mark.parametrize(("arguments", "line"), OTHERS)
def test_bad_arguments(troth, room, arguments, line):
    assert line in check(troth, room, arguments)
