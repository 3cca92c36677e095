"""RTE: does one sentence follow from another (Dagan et al. 2006, as in GLUE)? Its test labels are hidden."""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Rte(Published):
    hub = "nyu-mll/glue:rte"
    text_column = "sentence1"
    auxiliary = "sentence2"
    labels = ("entailment", "not_entailment")
    splits = rows(train=2_490, validation=277)
