"""MNLI: does a hypothesis follow from a premise (Williams et al. 2018, as in GLUE)? Validation is the matched one."""

from dataclasses import dataclass
from types import MappingProxyType

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Mnli(Published):
    hub = "nyu-mll/glue:mnli"
    hub_splits = MappingProxyType({"validation": "validation_matched"})
    text_column = "premise"
    auxiliary = "hypothesis"
    labels = ("entailment", "neutral", "contradiction")
    splits = rows(train=392_702, validation=9_815)
