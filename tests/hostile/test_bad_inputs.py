"""Bad input to every command: exit code 2, one clear line that names it, no traceback, nothing written."""

from __future__ import annotations

import re
from importlib import import_module
from typing import get_type_hints

import pytest
import typer.main
from tests.hostile.table import BAD, GOOD, NO_INTEGER, NO_NUMBER, OTHERS

from troth import cli
from troth.core.terminal import visible

COMMANDS = typer.main.get_command(cli.app).commands


def options():
    """(command, option, type as text) of all that take a value."""
    for name, command in COMMANDS.items():
        hints = get_type_hints(getattr(import_module(f"troth.commands.{name}"), name))
        for option in command.params:
            if option.opts[0].startswith("-") and not option.is_flag:
                yield name, option, str(hints[option.name])


def cases():
    """The bad values of every option; where several commands have one, only the first command's is a quick test."""
    seen = set()
    for command, option, kind in options():
        wrong = NO_INTEGER if "int" in kind else NO_NUMBER if "float" in kind else []
        values = [*wrong, *BAD.get(f"{command} {option.name}", BAD.get(option.name, []))]
        if values:
            marks = [pytest.mark.full] if option.name in seen else []
            yield pytest.param(command, option.opts[0], values, id=f"{command} {option.opts[0]}", marks=marks)
            seen.add(option.name)


def refusal(said):
    """The one line that a call printed; nothing else came of it."""
    assert said.code == 2, (said.code, said.out[-300:], said.err[-600:])
    assert said.err.startswith("troth: ")
    assert said.err.count("\n") == 1, said.err
    assert said.err == visible(said.err)
    assert len(said.err) < 2500
    assert said.out == ""
    assert said.written == []
    return said.err


@pytest.mark.parametrize(("command", "option", "values"), cases())
def test_bad_values_of_an_option(troth, room, command, option, values):
    name = option.lstrip("-")
    calls = [[command, *GOOD[command], option, value] for value in values]
    for value, said in zip(values, troth.several(calls, room=room), strict=True):
        line = refusal(said)
        method, _, given = value.partition("(")
        parts = [method, *re.findall(r"=(-?[\w.]+)", given)] if given else []  # of a spec
        named = (value[:40], visible(value)[:40], repr(value)[1:40], name, name.replace("-", "_"), *parts)
        assert value == "" or any(name in line for name in named), (value, line)


@pytest.mark.parametrize(("arguments", "line"), OTHERS)
def test_bad_arguments(troth, room, arguments, line):
    assert line in refusal(troth(*arguments, room=room))
