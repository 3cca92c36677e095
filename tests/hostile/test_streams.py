"""Output that is closed, full or narrow, input that is no UTF-8: one line, or the same words in other letters."""

import json

import pytest

CALLS = [
    ["list"],
    ["list", "--json"],
    ["explain", "a film", "-m", "model"],
    ["runs", "."],
    ["query", "run", "select 1"],
]


@pytest.mark.parametrize("arguments", CALLS)
def test_closed_output(troth, room, arguments):
    said = troth(*arguments, room=room, stdout="closed")
    assert (said.code, said.err) == (2, "troth: standard output is closed; send it to a file, or to /dev/null\n")
    assert said.written == []


@pytest.mark.parametrize("arguments", CALLS)
def test_full_output(troth, room, arguments):
    said = troth(*arguments, room=room, stdout="full")
    assert (said.code, said.err) == (2, "troth: standard output cannot be written (No space left on device)\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_narrow_terminals(troth, room, encoding):
    said = troth("explain", "a café 漢 film", "-m", "model", room=room, encoding=encoding)
    assert (said.code, said.err) == (0, "")
    assert r"\u6f22" in said.out
    said = troth("explain", "a café 漢 film", "-m", "model", "--json", room=room, encoding=encoding)
    assert json.loads(said.out)[0]["text"] == "a café 漢 film"
    said = troth("list", "漢", room=room, encoding=encoding)
    assert (said.code, said.out) == (2, "")
    assert r"no kind is called '\u6f22'" in said.err


def test_names_that_are_no_utf8(troth, room):
    said = troth("bench", "--data", "\udcff.csv", room=room)
    assert (said.code, said.err) == (2, "troth: \\xff.csv: no such file or folder\n")
    page = troth("explain", "a film", "-m", "model", "--html", "\udcff.html", room=room)
    assert (page.code, page.written) == (0, ["?.html"])
    assert r"written to \xff.html" in page.out
