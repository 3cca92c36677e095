"""The methods, metrics and test splits of the AML paper under our names, and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from troth.data import Data, load_data
from troth.studies import published
from troth.training.examples import entry_of, splits_of

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
DRAWN = ("SHAP", "LIME", "random")  # the baselines that another seed changes
METRICS: Mapping[str, str] = {
    "suff": "sufficiency",
    "lo": "log_odds",
    "comp": "comprehensiveness",
    "aopc_suff": "aopc_sufficiency",
    "aopc_comp": "aopc_comprehensiveness",
}
RELEASED: Mapping[str, str] = {  # as the released code computes them, shown next to the paper's definition
    "aopc_suff": "aopc_sufficiency(variant='released')",
    "aopc_comp": "aopc_comprehensiveness(variant='released')",
}
# Table 6. SST-2's are in neither of its labeled splits; the first of EMR's is a film review of Rotten Tomatoes.
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "SST2": (
        "a modest pleasure that accomplishes its goals with ease and confidence .",
        "finds a way to tell a simple story , perhaps the simplest story of all , in a way that seems compelling and "
        "even original .",
        "a grim , flat and boring werewolf movie that refuses to develop an energy level .",
        "there 's something fundamental missing from this story : something or someone to care about .",
    ),
    "EMR": (
        "hawke draws out the best from his large cast in beautifully articulated portrayals that are subtle and so "
        "expressive they can sustain the poetic flights in burdette 's dialogue .",
        "i was feeling really troubled and down over what my dad said",
    ),
}
_DATA = {"sst2": "SST2", "sst": "SST2", "rotten_tomatoes": "RTN", "imdb": "IMDB", "emotion": "EMR"}


def solvex(width: int) -> str:
    """Solvex with a beam of another width."""
    return f"beam_search(width={width}, objective='comp_minus_suff', of='probability', drop_duplicates=False)"


def of_tables(name: str, model: str, method: str, metric: str) -> float | None:
    """A number of table 1 (encoders) or table 2 (decoders)."""
    about = {"dataset": data_of_paper(name), "model": model, "method": method, "metric": metric}
    values = (published.number(table, **about) for table in ("aml_encoder", "aml_decoder"))
    return next((value for value in values if value is not None), None)


def data_of_paper(name: str) -> str:
    """A data set's name in the paper's tables; our own where it has none."""
    return _DATA.get(Path(name).name, Path(name).name)


def tested(name: str, count: int | None) -> Data:
    """The first examples of what the paper tests on: the test split, or validation where there is none (SST-2)."""
    splits = splits_of(name, entry_of(name)) or ()
    return load_data(name, split="test" if "test" in splits else None, limit=count)
