"""QQP: do two questions ask the same (Iyer et al. 2017, as in GLUE)? Its test labels are hidden."""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Qqp(Published):
    hub = "nyu-mll/glue:qqp"
    text_column = "question1"
    auxiliary = "question2"
    labels = ("not_duplicate", "duplicate")
    splits = rows(train=363_846, validation=40_430)
    metric = "macro_f1"
