import importlib
import subprocess
import sys
import warnings

import pytest

from troth._moved import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_is_the_module_itself(old):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = importlib.import_module(f"troth.{old}")
    new = importlib.import_module(f"troth.{MOVED[old]}")
    assert module is new
    assert new.__name__ == new.__spec__.name == f"troth.{MOVED[old]}"


def test_code_of_the_first_release_runs_and_is_told():
    code = (
        "import warnings; warnings.simplefilter('error', ImportWarning)\n"
        "from troth.types import Example\n"
        "from troth import catalog, probing\n"
        "import troth.attributive.losses\n"
        "from troth.core.types import Example as Now\n"
        "assert Example is Now and probing.Prober and catalog.names('maskings')\n"
    )
    run = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    assert "troth.types is now troth.core.types" in run.stderr


def test_what_never_was_there_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"troth\.nowhere"):
        importlib.import_module("troth.nowhere")
