"""A notebook with its outputs as a page in Markdown."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_COLORS = re.compile(r"\x1b\[[0-9;]*m")


def notebook_page(path: Path) -> str:
    """Text as it stands, code as blocks, and under each what it printed and showed."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            parts += [f"```python\n{source}\n```", *shown(cell["outputs"])]
    return "\n\n".join(parts) + "\n"


def shown(outputs: list[Mapping[str, Any]]) -> Iterator[str]:
    """Each output in the richest form that a page can have."""
    for output in outputs:
        data = output.get("data", {})
        if output["output_type"] == "stream" and output["name"] == "stdout":
            yield _printed("".join(output["text"]))
        elif "text/html" in data:
            yield f'<div class="shown">{" ".join("".join(data["text/html"]).splitlines())}</div>'
        elif "image/png" in data:
            words = html.escape("".join(data["text/plain"]))
            yield f'<img alt="{words}" src="data:image/png;base64,{data["image/png"].strip()}">'
        elif "text/plain" in data:
            yield _printed("".join(data["text/plain"]))


def _printed(text: str) -> str:
    return f'<pre class="printed">{html.escape(_COLORS.sub("", text.rstrip())).replace(chr(10), "&#10;")}</pre>'
