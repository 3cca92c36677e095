"""CB: is the author committed to a clause (de Marneffe et al. 2019, as in SuperGLUE)? Its test labels are hidden."""

from dataclasses import dataclass

from troth.data.sources.published import Published, rows


@dataclass(frozen=True)
class Cb(Published):
    hub = "aps/super_glue:cb"
    text_column = "premise"
    auxiliary = "hypothesis"
    labels = ("entailment", "contradiction", "neutral")
    splits = rows(train=250, validation=56)
    metric = "macro_f1"
