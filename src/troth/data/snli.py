"""SNLI: does a hypothesis follow from the caption of a picture (Bowman et al. 2015)?"""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Snli(Published):
    hub = "stanfordnlp/snli"
    text_column = "premise"
    auxiliary = "hypothesis"
    labels = ("entailment", "neutral", "contradiction")
    splits = rows(train=549_367, validation=9_842, test=9_824)
    metric = "macro_f1"
    license = "CC BY-SA 4.0"
    without_label = "on which the annotators did not agree"
