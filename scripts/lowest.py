"""Prints the lowest version of every range in pyproject.toml, as pip takes them: `make test-lowest` installs these."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
for requirement in project["dependencies"]:
    name, lowest = re.match(r"([\w-]+)>=([\w.]+)", requirement).groups()
    print(f"{name}=={lowest}")
