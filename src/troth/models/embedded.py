"""The classifier that is shipped with the package, so that everything can be tried in a minute."""

from __future__ import annotations

from importlib.resources import as_file, files

import torch

from troth.models.encoder import Encoder
from troth.models.encoder import load as load_encoder


def load(
    *, device: str | torch.device | None = None, dtype: torch.dtype | str | None = None, max_length: int | None = None
) -> Encoder:
    """The shipped model; `embedded_model/README.md` says how it was made and how good it is."""
    with as_file(files("troth.models") / "embedded_model") as folder:
        model = load_encoder(str(folder), device=device, dtype=dtype, max_length=max_length)
    model.name = "embedded"
    return model
