"""Checks the installation on this machine."""

from __future__ import annotations

import platform
import sys

from rich.table import Table
from rich.text import Text

from troth.commands import _options
from troth.core.errors import TrothError
from troth.core.terminal import Console

_PARTS = {
    "torch": "", "transformers": "", "tokenizers": "", "safetensors": "", "accelerate": "", "numpy": "", "scipy": "",
    "scikit-learn": "", "pyarrow": "", "datasets": "pip install 'troth[hub]'", "duckdb": "pip install 'troth[sql]'",
    "matplotlib": "pip install 'troth[figures]'", "ray": "pip install 'troth[ray]'",
    "fastapi": "pip install 'troth[serve]'", "peft": "pip install 'troth[peft]'", "optuna": "pip install 'troth[hpo]'",
    "gguf": "pip install 'troth[gguf]'", "mlflow": "pip install 'troth[mlflow]'",
    "wandb": "pip install 'troth[wandb]'", "spacy": "pip install 'troth[pos]'",
}  # fmt: skip


def doctor(as_json: _options.Json = False) -> None:
    """Checks what works on this machine. Prints versions, devices and optional parts, and explains one text.

    Example: troth doctor
    """
    import importlib.metadata

    import torch

    from troth.commands.list import data_folder, data_folder_is_there
    from troth.core.hub import unreachable
    from troth.verbs.explain import explain

    _options.quieten()
    found = []
    for part, remedy in _PARTS.items():
        try:
            found.append((part, "ok", importlib.metadata.version(part)))
        except importlib.metadata.PackageNotFoundError:
            found.append((part, "optional" if remedy else "missing", remedy or f"pip install {part}"))
    cuda = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none (CPU works)"
    found.append(("GPU", "ok" if torch.cuda.is_available() else "optional", cuda))
    found.append(("TROTH_DATA", "ok" if data_folder_is_there() else "optional", data_folder()))
    found.append(("hub", "optional" if (why := unreachable()) else "ok", why or "can be reached"))
    try:
        (attribution,) = explain("embedded", "a fine film", "leave_one_out")
        found.append(("explain", "ok", f"the embedded model says {attribution.label(attribution.target)}"))
    except (TrothError, RuntimeError, ImportError, OSError) as error:
        found.append(("explain", "broken", str(error).split("\n")[0]))
    healthy = all(state != "missing" and state != "broken" for _, state, _ in found)
    if as_json:
        parts = {name: {"state": state, "detail": detail} for name, state, detail in found}
        _options.print_json({"healthy": healthy, "python": sys.version.split()[0], "parts": parts})
    else:
        console = Console()
        console.print(f"Python {sys.version.split()[0]} on {platform.platform()}")
        table = Table(box=None, show_header=False, padding=(0, 2))
        signs = {"ok": "[green]✓[/]", "optional": "[dim]–[/]", "missing": "[red]✗[/]", "broken": "[red]✗[/]"}
        for name, state, detail in found:
            table.add_row(signs[state], name, Text(detail, "dim"))
        console.print(table)
        if any(state == "optional" for _, state, _ in found):
            console.print("– is optional, and not used or not available here", style="dim")
        console.print("everything that is needed works" if healthy else "[red]something needed is missing or broken[/]")
    if not healthy:
        raise SystemExit(1)
