"""What `--json` prints reaches a pipe at once: `troth serve --json` goes on after it."""

import json
import os
from contextlib import redirect_stdout

from troth.commands._options import print_json


def test_who_reads_a_pipe_gets_the_json_while_the_command_goes_on():
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(writing, "w", encoding="utf-8") as stream:  # block-buffered, as standard output is in a pipe
        with redirect_stdout(stream):
            print_json({"url": "http://127.0.0.1:1/"})
        try:
            arrived = os.read(reading, 1000)
        except BlockingIOError:
            arrived = b"null"
    os.close(reading)
    assert json.loads(arrived) == {"url": "http://127.0.0.1:1/"}
