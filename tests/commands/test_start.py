"""What a short command imports: a list and the help need no torch, one explanation no more than its model does."""

import os
import subprocess
import sys

import pytest

from troth.core import catalog

KINDS = ["datasets" if kind == "data" else kind for kind in catalog.KINDS]
# None in sys.modules makes an import of that name an error.
BLOCKED = (
    "import sys; sys.modules |= dict.fromkeys({names!r}); sys.argv = {command!r}; from troth.cli import main; main()"
)


def without(names, *command):
    """What a command prints in a process that cannot import the names."""
    code = BLOCKED.format(names=names, command=["troth", *command])
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": "200", "TERM": "dumb"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("command", [("--help",), *(("list", kind) for kind in KINDS)], ids=" ".join)
def test_lists_and_help_need_no_torch(command):
    output = without(["torch", "transformers", "numpy"], *command)
    if command[0] == "list":
        folder = "data" if command[1] == "datasets" else command[1]
        assert all(name in output for name in catalog.names(folder))
    else:
        assert "explain" in output


def test_one_explanation_imports_only_what_its_model_needs():
    """scipy and accelerate are not named here: transformers imports them itself."""
    output = without(["datasets", "duckdb", "matplotlib", "pandas", "pyarrow", "sklearn"], "explain", "a fine film")
    assert "positive" in output
