"""Prints the lowest version of every range in pyproject.toml, as pip takes them: `make test-lowest` installs these."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path


def lowest() -> Iterator[str]:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    for requirement in tomllib.loads(text)["project"]["dependencies"]:
        found = re.match(r"([\w-]+)>=([\w.]+)", requirement)
        assert found, f"{requirement} has no lower bound"
        yield f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    print("\n".join(lowest()))
