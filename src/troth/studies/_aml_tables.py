"""The methods and metrics of the AML paper under our names, and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from troth import published

# The paper's short names, in the order of its tables; IG and SIG of the largest logit over its L2 norm, as there.
_IG = "baseline='mask', rule='gauss_legendre', of='largest_logit', normalize=True"
BASELINES: Mapping[str, str] = {
    "SIG": "sequential_integrated_gradients(steps=50, of='largest_logit', normalize=True)",
    "ALTI": "alti",
    "DCMP": "decomp_x",
    "SLVX": "beam_search(preset='solvex')",
    "LIFT": "deep_lift",
    "GLOB": "glob_enc",
    "SHAP": "gradient_shap",
    "GXI": "input_x_gradient",
    "IG": f"integrated_gradients(steps=50, {_IG})",
    "LIME": "lime",
    "random": "random",
}
METRICS: Mapping[str, str] = {
    "suff": "sufficiency",
    "lo": "log_odds",
    "comp": "comprehensiveness",
    "aopc_suff": "aopc_sufficiency",
    "aopc_comp": "aopc_comprehensiveness",
}
_DATA = {"sst2": "SST2", "sst": "SST2", "rotten_tomatoes": "RTN", "imdb": "IMDB", "emotion": "EMR"}


def solvex(width: int) -> str:
    """Solvex with a beam of another width."""
    return f"beam_search(width={width}, objective='comp_minus_suff', of='probability', drop_duplicates=False)"


def of_paper(table: str, value: str, **wanted: str | None) -> float | None:
    """A printed number; None where the paper has none."""
    known = {column: text for column, text in wanted.items() if text is not None}
    for row in published.read(table):
        if all(row[column] == text for column, text in known.items()):
            return float(row[value])
    return None


def data_of_paper(name: str) -> str:
    """A data set's name in the paper's tables; our own where it has none."""
    return _DATA.get(name, Path(name).name)
