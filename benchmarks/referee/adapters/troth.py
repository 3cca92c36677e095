"""troth's own explainers, all that the models of the referee can be asked with."""

from __future__ import annotations

from troth.core import catalog
from troth.refereeing.ours import as_function

PACKAGES = ("troth",)
# llm_ranking asks a language model, and attributive_masking is fitted to one model.
NAMES = [name for name in catalog.names("explainers") if name not in ("llm_ranking", "attributive_masking")]

METHODS = {name: as_function(name) for name in NAMES}
