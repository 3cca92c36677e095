"""QNLI: does a sentence answer a question (Rajpurkar et al. 2016, as in GLUE)? Its test labels are hidden."""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Qnli(Published):
    hub = "nyu-mll/glue:qnli"
    text_column = "sentence"
    auxiliary = "question"
    labels = ("entailment", "not_entailment")
    splits = rows(train=104_743, validation=5_463)
