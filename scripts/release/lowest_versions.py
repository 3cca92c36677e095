"""Prints the lowest version of each dependency that pyproject.toml allows, as `make test-lowest` installs them."""

import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

EXTRAS = ("hub", "figures", "sql", "serve", "ray", "peft", "hpo", "gguf")  # what users may install and the tests use


def lowest() -> Iterator[str]:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = [project["optional-dependencies"][name] for name in EXTRAS]
    for requirement in chain(project["dependencies"], *extras):
        found = re.match(r"([\w-]+)>=([\w.]+)", requirement)
        assert found, f"{requirement} has no lower bound"
        yield f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    print("\n".join(lowest()))
